"""The base class of both tokenizers. It implements the Hugging Face API for any vocabulary."""

import copy
import os
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from albert_tf.checkpoints import hub
from albert_tf.checkpoints.finder import SPECIAL_TOKENS_MAP, TOKENIZER_CONFIG, split_hub_options
from albert_tf.errors import UserError
from albert_tf.files import as_json
from albert_tf.huggingface import (
    IGNORED_BY_TOKENIZERS,
    TOKENIZER_LOADING,
    TOKENIZER_METHODS,
    TOKENIZER_SAVING,
    Foreign,
    own_options,
)
from albert_tf.options import COUNT, check_number, without_foreign, without_methods
from albert_tf.text.added_tokens import add_tokens, additional_tokens, check_special, mark_special
from albert_tf.text.encoding import BatchEncoding, EncodedSequence, collect
from albert_tf.text.ids import IdMethods
from albert_tf.text.layout import OPTIONS, Layout, Side, Tensors, checked_side
from albert_tf.text.padding import as_tensors, pad_encodings, pad_rows
from albert_tf.text.texts import Text, as_text, as_texts, as_words
from albert_tf.text.tokenizer_files import read_tokenizer, stored_settings, write_tokenizer
from albert_tf.text.tokens import Segment, SpecialTokens, Tokens, join_segments, join_words
from albert_tf.text.windows import make_sequences

_ALL_CORES: Final = -1

# Attributes that the vocabulary determines. Assigning to them wouldn't change ids or files.
_FIXED: Final = frozenset(
    ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token", "bos_token", "eos_token")
    + ("do_lower_case", "keep_accents")
)


@without_methods(TOKENIZER_METHODS)
class BaseTokenizer(IdMethods):
    """Converts raw text to ids. `AlbertTokenizer` and `WordPieceTokenizer` add a vocabulary.

    Args:
        special: the special tokens.
        vocab_size: number of tokens, including special tokens.
        model_max_length, split_special_tokens, padding_side, truncation_side: see
            `AlbertTokenizer`.
    """

    model_input_names = ("input_ids", "token_type_ids", "attention_mask")
    pad_token_type_id = 0
    vocab_name: ClassVar[str]
    hub_class: ClassVar[str]
    continuation: ClassVar[str] = ""  # prefix of tokens that continue a word
    do_lower_case: bool
    # The constructor arguments in tokenizer_config.json, and their types.
    SETTINGS: ClassVar[Mapping[str, type]] = {
        "model_max_length": int,
        "split_special_tokens": bool,
        "padding_side": str,
        "truncation_side": str,
    }

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and name in vars(self):
            raise UserError(
                f"{name} is part of the vocabulary and can't change. Received: {name}={value!r}. "
                "Create a new tokenizer."
            )
        super().__setattr__(name, value)

    def __init__(
        self,
        special: SpecialTokens,
        vocab_size: int,
        model_max_length: int,
        split_special_tokens: bool,
        padding_side: Side,
        truncation_side: Side,
    ):
        self.special, self.vocab_size = special, vocab_size
        tokens, ids = special.tokens, special.ids
        self.pad_token, self.unk_token, self.cls_token, self.sep_token, self.mask_token = tokens
        self.pad_token_id, self.unk_token_id, self.cls_token_id = ids[:3]
        self.sep_token_id, self.mask_token_id = ids[3:]
        self.bos_token, self.bos_token_id = self.cls_token, self.cls_token_id
        self.eos_token, self.eos_token_id = self.sep_token, self.sep_token_id
        self._mark_special(())
        check_number("model_max_length", model_max_length, COUNT)
        self.model_max_length = model_max_length
        self.split_special_tokens = split_special_tokens
        self.padding_side = checked_side(padding_side)
        self.truncation_side = checked_side(truncation_side, "truncation_side")

    @classmethod
    def _own_arguments(cls, arguments: Mapping[str, Any], foreign: Foreign) -> dict[str, Any]:
        """Drops the transformers constructor arguments that have no effect here."""
        own = own_options(arguments, foreign, IGNORED_BY_TOKENIZERS)
        if unknown := sorted(own.keys() - cls.SETTINGS):
            raise TypeError(
                f"Unknown tokenizer option {', '.join(unknown)}. The options are "
                f"{', '.join(cls.SETTINGS)}."
            )
        return own

    @property
    @abstractmethod
    def model_bytes(self) -> bytes:
        """Content of the vocabulary file."""

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor arguments that `tokenizer_config.json` stores."""
        return {name: getattr(self, name) for name in self.SETTINGS}

    @abstractmethod
    def encode_plain(self, texts: list[str], threads: int = 1) -> list[np.ndarray]:
        """Returns the ids of each text, int32 `[T]`. Texts must not contain surrogates.

        Special tokens that occur in a text are treated as plain text.
        """

    @abstractmethod
    def _tokenize(self, text: str) -> list[str]:
        """Returns the tokens as strings. Unknown tokens are normalized text or `[UNK]`."""

    @abstractmethod
    def _encode_with_offsets(self, text: str) -> Tokens:
        """Returns tokens with offsets and words, treating special tokens as plain text."""

    @abstractmethod
    def _with_tokens(self, tokens: Sequence[str]) -> bytes:
        """Returns the content of the vocabulary file with the tokens appended."""

    @abstractmethod
    def in_graph(self) -> Any:
        """Returns an object whose `tokenize` maps strings `[B]` to ragged ids inside a graph."""

    def __call__(
        self,
        text: Text | Sequence[Any],
        text_pair: Text | Sequence[Any] | None = None,
        *,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        stride: int = 0,
        is_split_into_words: bool = False,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        truncation_side: str | None = None,
        split_special_tokens: bool | None = None,
        return_tensors: Tensors | None = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool | None = None,
        return_offsets_mapping: bool = False,
        return_overflowing_tokens: bool = False,
        return_special_tokens_mask: bool = False,
        return_length: bool = False,
        verbose: bool = True,
    ) -> BatchEncoding:
        """Encodes a text, a text pair, or a batch of either.

        Args:
            text, text_pair: a str, UTF-8 bytes, or a list of either. A list whose elements are
                tuples or lists of two texts is a batch of pairs.
            add_special_tokens: whether to add `[CLS]` and `[SEP]`.
            padding: True or "longest", "max_length", or False.
            truncation: True or "longest_first", "only_first", "only_second", or False. Default:
                "longest_first" if `max_length` is passed without `padding`.
            max_length: maximum number of tokens in a sequence, including special tokens. Default:
                `model_max_length`.
            stride: number of tokens by which neighboring windows overlap.
            is_split_into_words: whether texts are lists of words. Each word is encoded as if it
                followed a space, and the result's `word_ids` returns the word of each position.
            pad_to_multiple_of: if set, lengths are padded to a multiple of this number.
            padding_side, truncation_side, split_special_tokens: override the constructor
                arguments for this call.
            return_tensors: "np", "tf", or "pt". Default: lists.
            return_token_type_ids, return_attention_mask: False omits the feature.
            return_offsets_mapping: whether to add each token's `(start, end)` character offsets.
                They refer to the raw text, or to the word if texts are lists of words. A stray byte
                counts as one character, and special tokens have `(0, 0)`.
            return_overflowing_tokens: whether to return truncated tokens as additional sequences.
                `overflow_to_sample_mapping` contains the index of each sequence's text.
            return_special_tokens_mask: whether to add a mask that is 1 for special tokens around
                the texts and for padding, and 0 for the tokens of a text.
            return_length: whether to add `length`, the length of each sequence including padding.
            verbose: whether to warn once about a sequence that exceeds `model_max_length` and
                isn't truncated.
        Returns:
            A `BatchEncoding` with `input_ids`, `token_type_ids`, `attention_mask`, and the
            requested features: lists for one text, lists of lists for a batch, or int32 `[B, T]`
            with `return_tensors`.
        Raises:
            TypeError: if a text is neither str nor bytes.
            ValueError: if options contradict each other.
        """
        return self._encode(text, text_pair, self._layout(locals()))

    def _layout(self, options: Mapping[str, Any]) -> Layout:
        """Returns a call's options. Options that are None default to the tokenizer's settings."""
        own = {name: value for name, value in options.items() if name in OPTIONS}
        settings = BaseTokenizer.SETTINGS
        own |= {name: getattr(self, name) for name in settings if options.get(name) is None}
        return Layout(**own)

    def _encode(self, text: Any, text_pair: Any, layout: Layout) -> BatchEncoding:
        lists_of = as_words if layout.is_split_into_words else as_texts
        texts, pairs, is_batch = lists_of(text, text_pair)
        sequences = self._sequences(texts, pairs, layout)
        rows = pad_rows(collect(sequences, layout.features), layout, self.pad_token_id)
        ids = rows["input_ids"]
        lengths = np.maximum(ids.lengths, ids.width).tolist()
        if layout.verbose and layout.max_length is None:
            self._warn_of_length(max(lengths, default=0))
        if layout.return_length:
            rows["length"] = lengths
        features = as_tensors(rows, layout.return_tensors)
        if not (is_batch or layout.return_overflowing_tokens or layout.return_tensors):
            features = {
                name: values if name == "length" else values[0] for name, values in features.items()
            }
        if layout.return_offsets_mapping:
            return BatchEncoding(features, sequences, lengths, layout.padding_side)
        # Offsets take ten times as long as ids, so they are only computed when needed. The copy of
        # the tokenizer doesn't contain tokens added in the meantime.
        now = copy.copy(self)
        return BatchEncoding(
            features,
            sequences,
            lengths,
            layout.padding_side,
            lambda: now._sequences(texts, pairs, replace(layout, return_offsets_mapping=True)),
        )

    def _warn_of_length(self, length: int) -> None:
        """Warns once about a sequence longer than `model_max_length`."""
        if length > self.model_max_length and not vars(self).get("_has_warned"):
            self._has_warned = True
            warnings.warn(
                f"A sequence of {length} tokens exceeds model_max_length={self.model_max_length}. "
                "Pass truncation=True, unless the model supports that many positions.",
                stacklevel=4,  # the line that calls the tokenizer
            )

    def _sequences(
        self, texts: Sequence[Any], pairs: Sequence[Any] | None, layout: Layout
    ) -> list[EncodedSequence]:
        """Encodes texts, or lists of words, and truncates them."""
        tokens_of = self.tokens_of_words if layout.is_split_into_words else self.tokens_of
        options = layout.split_special_tokens, layout.return_offsets_mapping
        second = None if pairs is None else tokens_of(pairs, *options)
        return make_sequences(tokens_of(texts, *options), second, self.special, layout)

    def tokens_of_words(
        self, samples: Sequence[Sequence[Text]], split_special: bool, with_offsets: bool
    ) -> list[Tokens]:
        """Returns the tokens of texts that are lists of words, without adding special tokens.

        Args:
            split_special, with_offsets: see `tokens_of`. Offsets are relative to each word.
        """
        words = iter(self.tokens_of([*chain.from_iterable(samples)], split_special, with_offsets))
        return [join_words([next(words) for _ in sample]) for sample in samples]

    def tokens_of(
        self, texts: Sequence[Text], split_special: bool, with_offsets: bool
    ) -> list[Tokens]:
        """Returns the tokens of each text, without adding special tokens.

        Args:
            split_special: whether to treat special tokens in a text as plain text.
            with_offsets: whether to add offsets and words. This takes about ten times as long.
        """
        strings = [as_text(text) for text in texts]
        if split_special or not self.special.are_in("".join(strings)):
            return list(self._tokens(strings, with_offsets))
        segmented = [self.special.split(text) for text in strings]
        plain = [s.content for s in chain(*segmented) if not s.is_special]
        rest = iter(self._tokens(plain, with_offsets))
        return [join_segments(segments, rest, self.special) for segments in segmented]

    def _tokens(self, texts: list[str], with_offsets: bool) -> Iterable[Tokens]:
        """Returns the tokens of texts, treating special tokens as plain text."""
        if with_offsets:
            return map(self._encode_with_offsets, texts)
        return map(Tokens, self.encode_plain(texts, _ALL_CORES))

    def encode(self, text: Any, text_pair: Any = None, **options: Any) -> Any:
        """Returns only the `input_ids`. The options are the same as in `__call__`."""
        return self(text, text_pair, **options)["input_ids"]

    def pad(
        self,
        encoded_inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        padding: bool | str = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_attention_mask: bool | None = None,
        return_tensors: Tensors | None = None,
        verbose: bool = True,
    ) -> BatchEncoding:
        """Pads encoded sequences to the same length.

        Args:
            encoded_inputs: one encoding, a batch, or a list of single encodings.
            padding, max_length, pad_to_multiple_of, padding_side, return_tensors: see `__call__`.
            return_attention_mask: if False, a missing `attention_mask` isn't added.
            verbose: ignored.
        Raises:
            ValueError: if `input_ids` are missing, or options contradict each other.
        """
        layout = self._layout(locals())
        return BatchEncoding(pad_encodings(encoded_inputs, layout, self.pad_token_id))

    def tokenize(
        self, text: Text, pair: Text | None = None, add_special_tokens: bool = False
    ) -> list[str]:
        """Returns the tokens as strings, by default without `[CLS]` and `[SEP]`."""
        tokens = [self.cls_token] if add_special_tokens else []
        for each in [text] if pair is None else [text, pair]:
            whole = as_text(each)
            plain = [Segment(whole, 0, False)]
            for segment in plain if self.split_special_tokens else self.special.split(whole):
                content = segment.content
                tokens += [content] if segment.is_special else self._tokenize(content)
            tokens += [self.sep_token] if add_special_tokens else []
        return tokens

    def add_tokens(self, new_tokens: str | Sequence[Any], special_tokens: bool = False) -> int:
        """Adds tokens to the vocabulary file itself, so that they work in every runtime.

        Afterwards, call `model.resize_token_embeddings(len(tokenizer))`. A SentencePiece vocabulary
        finds a token anywhere in a word. At the start of a word, a separate "▁" precedes the token.
        "▁token" is found only at the start of a word. A WordPiece vocabulary only finds a token at
        the start of a word.

        Args:
            new_tokens: tokens in normalized form (in lower case for uncased vocabularies). Existing
                tokens are skipped.
            special_tokens: whether decoding with `skip_special_tokens` skips the tokens. This
                doesn't affect how texts are encoded.
        Returns:
            The number of new tokens.
        Raises:
            UserError: if the vocabulary would split or normalize a new token, for example because
                it lower-cases all text. In this case, no token is added.
        """
        return add_tokens(self, new_tokens, special_tokens)

    def add_special_tokens(self, special_tokens_dict: Mapping[str, Any]) -> int:
        """Adds the tokens under "additional_special_tokens" as special tokens; see `add_tokens`.

        Raises:
            UserError: as in `add_tokens`, or if another special token would change.
        """
        return add_tokens(self, additional_tokens(self, special_tokens_dict), special=True)

    def save_pretrained(
        self, save_directory: str | os.PathLike[str], **options: Any
    ) -> tuple[str, ...]:
        """Writes the vocabulary, `tokenizer_config.json`, and `special_tokens_map.json`.

        Other transformers options must have their default values.
        """
        if unknown := without_foreign(options, TOKENIZER_SAVING):
            raise TypeError(
                f"save_pretrained takes only save_directory. Received: {', '.join(unknown)}."
            )
        return write_tokenizer(save_directory, self.files())

    def save_vocabulary(
        self, save_directory: str | os.PathLike[str], filename_prefix: str | None = None
    ) -> tuple[str, ...]:
        """Writes the vocabulary as `spiece.model` or `vocab.txt`, or as `prefix-spiece.model`.

        Returns:
            A tuple with the path of the file.
        """
        name = f"{filename_prefix}-{self.vocab_name}" if filename_prefix else self.vocab_name
        return write_tokenizer(save_directory, {name: self.model_bytes})

    def files(self) -> dict[str, bytes]:
        """Returns the files that `save_pretrained` writes, as bytes keyed by name."""
        # Without these names, transformers 5 omits token_type_ids, and pairs lose their segments.
        names = list(self.model_input_names)
        settings = {"tokenizer_class": self.hub_class, "model_input_names": names, **self.settings}
        special = self.special_tokens_map
        return {
            self.vocab_name: self.model_bytes,
            TOKENIZER_CONFIG: as_json({**settings, **special}).encode(),
            SPECIAL_TOKENS_MAP: as_json(special).encode(),
        }

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Uploads the tokenizer to the Hugging Face Hub, and returns the URL of the commit.

        Args:
            repo_id: owner/name. The repository is created if it doesn't exist.
            **options: `token`, `private`, `commit_message`, `revision`, and `create_pr`.
        Raises:
            UserError: if there is no access token, write permission, or network connection.
        """
        return hub.upload(self.save_pretrained, repo_id, **options)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike[str], **options: Any
    ) -> "BaseTokenizer":
        """Loads a tokenizer from a directory, a vocabulary file, or the Hugging Face Hub.

        `AlbertTokenizer.from_pretrained` returns a `WordPieceTokenizer` if the directory contains
        a WordPiece vocabulary (`vocab.txt`, as in the Chinese models) and no SentencePiece model.

        Args:
            pretrained_model_name_or_path: path of a vocabulary, directory, or TensorFlow 1
                checkpoint; or a model ID on the Hub, such as "albert/albert-base-v2".
            **options: the Hub options `revision`, `token`, `cache_dir`, and `local_files_only`, and
                constructor arguments, which override `tokenizer_config.json`.
        Raises:
            UserError: if the path or ID doesn't exist, if the directory doesn't contain exactly one
                vocabulary, or if the vocabulary lacks a token that the JSON files add.
        """
        hub_options, options = split_hub_options(without_foreign(options, TOKENIZER_LOADING))
        vocabulary, files = read_tokenizer(pretrained_model_name_or_path, hub_options)
        tokenizer_class: Any = cls._class_for(vocabulary)
        settings = stored_settings(files.get(TOKENIZER_CONFIG, {}), tokenizer_class.SETTINGS)
        tokenizer = tokenizer_class(vocabulary, **{**settings, **options})
        check_special(tokenizer, files, options)
        mark_special(tokenizer, files)
        return tokenizer

    @classmethod
    def _class_for(cls, vocabulary: Path) -> "type[BaseTokenizer]":
        """Returns the class that reads a vocabulary file."""
        return cls

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(vocab_size={self.vocab_size}, "
            f"do_lower_case={self.do_lower_case}, model_max_length={self.model_max_length})"
        )

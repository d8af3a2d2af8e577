"""The base of both tokenizers: Hugging Face's calls on any vocabulary."""

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
from albert_tf.options import without_foreign, without_methods
from albert_tf.text.added_tokens import add_tokens, additional_tokens, check_special, mark_special
from albert_tf.text.encoding import BatchEncoding, EncodedSequence, collect
from albert_tf.text.huggingface import FROM_PRETRAINED, SAVE_PRETRAINED, TOKENIZER_METHODS
from albert_tf.text.ids import IdMethods
from albert_tf.text.layout import OPTIONS, Layout, Side, Tensors, checked_side
from albert_tf.text.padding import as_tensors, pad_encodings, pad_rows
from albert_tf.text.texts import Text, as_text, as_texts, as_words
from albert_tf.text.tokenizer_files import (
    read_tokenizer,
    refuse_other_kinds,
    stored_settings,
    write_tokenizer,
)
from albert_tf.text.tokens import Segment, SpecialTokens, Tokens, join_segments, join_words
from albert_tf.text.windows import make_sequences

_ALL_CORES: Final = -1

# What a vocabulary decides; an assignment would change neither ids nor files.
_FIXED: Final = frozenset(
    ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token", "bos_token", "eos_token")
    + ("do_lower_case", "keep_accents")
)


@without_methods(TOKENIZER_METHODS)
class BaseTokenizer(IdMethods):
    """Raw text to ids. `AlbertTokenizer` and `WordPieceTokenizer` add a vocabulary.

    Args:
        special: the special tokens.
        vocab_size: number of tokens, special ones included.
        model_max_length: default length for truncation, in tokens.
        split_special_tokens: read a special token that is written out in a text as plain text.
        padding_side: "right" or "left".
        truncation_side: "right" or "left", the end of a text that truncation takes from.
    """

    model_input_names = ("input_ids", "token_type_ids", "attention_mask")
    pad_token_type_id = 0
    vocab_name: ClassVar[str]
    hub_class: ClassVar[str]
    continuation: ClassVar[str] = ""  # begins the tokens that continue a word
    do_lower_case: bool
    # The constructor's arguments that tokenizer_config.json stores, and their types.
    SETTINGS: ClassVar[Mapping[str, type]] = {
        "model_max_length": int,
        "split_special_tokens": bool,
        "padding_side": str,
        "truncation_side": str,
    }

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and name in vars(self):
            raise UserError(
                f"{name} is the vocabulary's own. Received: {name}={value!r} for a tokenizer that "
                "is made. Make another one: special tokens have fixed ids, and how texts are "
                "normalized is compiled into the vocabulary."
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
        if not isinstance(model_max_length, int) or model_max_length < 1:
            raise UserError(
                f"model_max_length must be a positive integer. Received: {model_max_length!r}."
            )
        self.model_max_length = model_max_length
        self.split_special_tokens = split_special_tokens
        self.padding_side = checked_side(padding_side)
        self.truncation_side = checked_side(truncation_side, "truncation_side")

    @property
    @abstractmethod
    def model_bytes(self) -> bytes:
        """Content of the vocabulary file."""

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments, as stored in `tokenizer_config.json`."""
        return {name: getattr(self, name) for name in self.SETTINGS}

    @abstractmethod
    def encode_plain(self, texts: list[str], threads: int = 1) -> list[np.ndarray]:
        """Returns int32 `[T]` for each text, in bulk; special tokens in it are plain text.

        Raises:
            UnicodeEncodeError: a text has surrogates.
        """

    @abstractmethod
    def _tokenize(self, text: str) -> list[str]:
        """Returns the tokens as strings; an unknown one is its normalized text, or `[UNK]`."""

    @abstractmethod
    def _encode_with_offsets(self, text: str) -> Tokens:
        """Returns tokens with offsets and words; special tokens in the text are plain text."""

    @abstractmethod
    def _with_tokens(self, tokens: Sequence[str]) -> bytes:
        """Returns the content of a vocabulary file with further tokens at its end."""

    @abstractmethod
    def in_graph(self) -> Any:
        """Returns an object whose `tokenize` takes strings `[B]` to ragged ids, in a graph."""

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
        """Encodes a text, a pair of texts, or a batch of either.

        Args:
            text, text_pair: a str, bytes in UTF-8, or lists of them. A list of tuples or lists of
                two texts is a batch of pairs.
            padding: True or "longest", "max_length", or False.
            truncation: True or "longest_first", "only_first", "only_second", or False. Default:
                "longest_first" if `max_length` is given without padding.
            max_length: tokens in a sequence, special tokens included. Default: `model_max_length`.
            stride: number of tokens that a window shares with the one before it.
            is_split_into_words: the texts are lists of words, each encoded as if after a space;
                `word_ids` of the result returns the word of each position.
            padding_side, truncation_side, split_special_tokens: override the constructor's for
                this call.
            return_token_type_ids, return_attention_mask: False leaves the feature out.
            return_offsets_mapping: add `(start, end)` of each token in the raw text, or in its
                word for split texts, in characters; a stray byte counts as one, and special
                tokens have `(0, 0)`.
            return_overflowing_tokens: return truncated tokens as further sequences;
                `overflow_to_sample_mapping` has the index of each sequence's text.
            return_special_tokens_mask: add 1 for each special token around the texts and for
                padding, 0 for tokens of a text.
            return_length: add `length`, the length of each sequence, padding included.
            verbose: warn once of a sequence beyond `model_max_length` that isn't truncated.
        Returns:
            `input_ids`, `token_type_ids`, `attention_mask` and the requested features: lists for
            one text, lists of lists for a batch, int32 `[B, T]` with `return_tensors`.
        Raises:
            TypeError: a text is neither str nor bytes.
            ValueError: options contradict each other.
        """
        return self._encode(text, text_pair, self._layout(locals()))

    def _layout(self, options: Mapping[str, Any]) -> Layout:
        """Returns the options of a call, checked; the tokenizer's settings replace None."""
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
        # Offsets take ten times as long as ids, so the encoding asks for them when they are needed.
        # It asks the tokenizer as it is now, without tokens that are added later.
        now = copy.copy(self)
        return BatchEncoding(
            features,
            sequences,
            lengths,
            layout.padding_side,
            lambda: now._sequences(texts, pairs, replace(layout, return_offsets_mapping=True)),
        )

    def _warn_of_length(self, length: int) -> None:
        """Warns once of a sequence that is longer than `model_max_length`."""
        if length > self.model_max_length and not vars(self).get("_has_warned"):
            self._has_warned = True
            warnings.warn(
                f"A sequence has {length} tokens, more than "
                f"model_max_length={self.model_max_length}. A model may have no positions for "
                "them. Pass truncation=True.",
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
        """Returns the tokens of texts that are lists of words, without special tokens around them.

        Args:
            split_special, with_offsets: see `tokens_of`. Offsets count from each word's start.
        """
        words = iter(self.tokens_of([*chain.from_iterable(samples)], split_special, with_offsets))
        return [join_words([next(words) for _ in sample]) for sample in samples]

    def tokens_of(
        self, texts: Sequence[Text], split_special: bool, with_offsets: bool
    ) -> list[Tokens]:
        """Returns the tokens of each text, without special tokens around them.

        Args:
            split_special: read special tokens in a text as plain text.
            with_offsets: add offsets and words, which takes about ten times as long.
        Raises:
            TypeError: a text is neither str nor bytes.
        """
        strings = [as_text(text) for text in texts]
        if split_special or not self.special.are_in("".join(strings)):
            return list(self._tokens(strings, with_offsets))
        segmented = [self.special.split(text) for text in strings]
        plain = [s.content for s in chain(*segmented) if not s.is_special]
        rest = iter(self._tokens(plain, with_offsets))
        return [join_segments(segments, rest, self.special) for segments in segmented]

    def _tokens(self, texts: list[str], with_offsets: bool) -> Iterable[Tokens]:
        """Returns the tokens of texts in which special tokens are plain text."""
        if with_offsets:
            return map(self._encode_with_offsets, texts)
        return map(Tokens, self.encode_plain(texts, _ALL_CORES))

    def encode(self, text: Any, text_pair: Any = None, **options: Any) -> Any:
        """Returns only the `input_ids`; takes the options of `__call__`."""
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
            return_attention_mask: False adds no `attention_mask` where there is none.
            verbose: has no effect.
        Raises:
            ValueError: `input_ids` are missing, or options contradict each other.
        """
        layout = self._layout(locals())
        return BatchEncoding(pad_encodings(encoded_inputs, layout, self.pad_token_id))

    def tokenize(
        self, text: Text, pair: Text | None = None, add_special_tokens: bool = False
    ) -> list[str]:
        """Returns the tokens as strings, by default without `[CLS]` and `[SEP]`."""
        tokens = [self.cls_token] if add_special_tokens else []
        for each in [text] if pair is None else [text, pair]:
            plain = Segment(as_text(each), 0, False)
            is_plain = self.split_special_tokens
            for segment in [plain] if is_plain else self.special.split(plain.content):
                content = segment.content
                tokens += [content] if segment.is_special else self._tokenize(content)
            tokens += [self.sep_token] if add_special_tokens else []
        return tokens

    def add_tokens(self, new_tokens: str | Sequence[Any], special_tokens: bool = False) -> int:
        """Adds tokens to the vocabulary file itself, so that every runtime knows them.

        Resize the model's embedding for them: `model.resize_token_embeddings(len(tokenizer))`. A
        SentencePiece vocabulary finds a token anywhere in a word, after "▁" at its start; "▁word"
        is found at the start alone. A WordPiece vocabulary finds it at the start.

        Args:
            new_tokens: tokens in normalized form (lower case if uncased); existing ones are
                skipped.
            special_tokens: whether `skip_special_tokens` skips them in decoding. They have no
                other effect: texts are read as without it.
        Returns:
            The number of new tokens.
        Raises:
            UserError: the vocabulary wouldn't read a new token as one, for example because
                it lower-cases its capitals. Nothing is added then.
        """
        return add_tokens(self, new_tokens, special_tokens)

    def add_special_tokens(self, special_tokens_dict: Mapping[str, Any]) -> int:
        """Adds the tokens under "additional_special_tokens" as special tokens; see `add_tokens`.

        Raises:
            UserError: also where another special token would change.
        """
        return add_tokens(self, additional_tokens(self, special_tokens_dict), special=True)

    def save_pretrained(
        self, save_directory: str | os.PathLike[str], **options: Any
    ) -> tuple[str, ...]:
        """Writes the vocabulary, `tokenizer_config.json` and `special_tokens_map.json`.

        Options of transformers are accepted with their defaults.
        """
        if unknown := without_foreign(options, SAVE_PRETRAINED):
            raise TypeError(
                f"save_pretrained takes only save_directory. Received: {', '.join(unknown)}."
            )
        return write_tokenizer(save_directory, self.files())

    def save_vocabulary(
        self, save_directory: str | os.PathLike[str], filename_prefix: str | None = None
    ) -> tuple[str, ...]:
        """Writes the vocabulary as `spiece.model` or `vocab.txt`, or as `prefix-spiece.model`.

        Returns:
            The path of the file, in a tuple.
        """
        name = f"{filename_prefix}-{self.vocab_name}" if filename_prefix else self.vocab_name
        return write_tokenizer(save_directory, {name: self.model_bytes})

    def files(self) -> dict[str, bytes]:
        """Returns the content of the files that `save_pretrained` writes, by name."""
        # Without the names transformers 5 leaves token_type_ids out, and pairs lose their segments.
        names = list(self.model_input_names)
        settings = {"tokenizer_class": self.hub_class, "model_input_names": names, **self.settings}
        special = self.special_tokens_map
        return {
            self.vocab_name: self.model_bytes,
            TOKENIZER_CONFIG: as_json({**settings, **special}).encode(),
            SPECIAL_TOKENS_MAP: as_json(special).encode(),
        }

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Uploads the tokenizer's files to the Hugging Face hub; returns the commit's URL.

        Args:
            repo_id: of the form owner/name. The repository is made if necessary.
            **options: `token`, `private`, `commit_message`, `revision`, `create_pr`.
        Raises:
            UserError: there is no token, no right to write, or no network.
        """
        return hub.upload(self.save_pretrained, repo_id, **options)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike[str], **options: Any
    ) -> "BaseTokenizer":
        """Loads the tokenizer of a directory, a vocabulary file, or a name on the hub.

        `AlbertTokenizer.from_pretrained` returns a `WordPieceTokenizer` for a directory with a
        WordPiece vocabulary (`vocab.txt`, as the Chinese models have) and no SentencePiece model.

        Args:
            pretrained_model_name_or_path: e.g. "albert/albert-base-v2"; `tokenizer_files.py` lists
                the file names of vocabularies. The path of a TensorFlow 1 checkpoint stands for
                its folder.
            **options: `revision`, `token`, `cache_dir`, `local_files_only` for the hub, and
                options of the constructor, which override `tokenizer_config.json`.
        Raises:
            UserError: there is no such name, or no vocabulary or several; or it lacks a token that
                transformers keeps beside it.
        """
        hub_options, options = split_hub_options(without_foreign(options, FROM_PRETRAINED))
        stored = read_tokenizer(pretrained_model_name_or_path, hub_options)
        tokenizer_class: Any = cls._class_for(stored.vocabulary)
        refuse_other_kinds(stored.files.get(TOKENIZER_CONFIG, {}))
        settings = stored_settings(stored.files.get(TOKENIZER_CONFIG, {}), tokenizer_class.SETTINGS)
        tokenizer = tokenizer_class(stored.vocabulary, **{**settings, **options})
        check_special(tokenizer, {**stored.special, **options})
        mark_special(tokenizer, stored.files)
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

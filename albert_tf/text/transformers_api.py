"""The methods of a transformers tokenizer, which both tokenizers inherit."""

import copy
import os
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from albert_tf.checkpoints import hub
from albert_tf.checkpoints.finder import TOKENIZER_CONFIG, split_hub_options
from albert_tf.errors import UserError, short_repr
from albert_tf.huggingface import TOKENIZER_LOADING, TOKENIZER_METHODS, TOKENIZER_SAVING
from albert_tf.options import without_foreign, without_methods
from albert_tf.text.added_tokens import add_tokens, additional_tokens, check_special, mark_special
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.encoding import BatchEncoding
from albert_tf.text.layout import OPTIONS, Layout, Tensors
from albert_tf.text.padding import as_tensors, collect, pad_encodings, pad_rows
from albert_tf.text.sequences import EncodedSequence, Positions
from albert_tf.text.texts import Text, as_text, as_texts, as_words
from albert_tf.text.tokenizer_files import read_tokenizer, stored_settings, write_tokenizer
from albert_tf.text.tokens import Segment, Tokens
from albert_tf.text.windows import make_sequences


@without_methods(TOKENIZER_METHODS)
class TransformersTokenizer(BaseTokenizer):
    """Base class of both tokenizers, with the methods of a transformers tokenizer.

    Tasks and pipelines don't encode texts with these methods, but with those of `BaseTokenizer`.
    """

    is_fast = True  # returns offsets, words, and windows
    pad_token_type_id = 0
    continuation: ClassVar[str] = ""  # prefix of tokens that continue a word

    @abstractmethod
    def _tokenize(self, text: str) -> list[str]:
        """Returns the tokens as strings. Unknown tokens are normalized text or `[UNK]`."""

    @abstractmethod
    def _with_tokens(self, tokens: Sequence[str]) -> bytes:
        """Returns the content of the vocabulary file with the tokens appended."""

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
            padding: True or "longest" to pad to the longest sequence, "max_length" to pad to
                `max_length`, or False to return sequences without padding.
            truncation: True or "longest_first" to shorten the longer text of a pair first,
                "only_first" or "only_second" to shorten only this text, or False to keep all
                tokens. Default: True if `max_length` is passed without `padding`, otherwise False.
            max_length: maximum number of tokens in a sequence, including special tokens. Default:
                `model_max_length`.
            stride: number of tokens by which the sequences of a text overlap if
                `return_overflowing_tokens` is True.
            is_split_into_words: whether texts are lists of words. Each word is encoded as if it
                followed a space, and the result's `word_ids` returns the word of each position.
            pad_to_multiple_of: if set, lengths are padded to a multiple of this number.
            padding_side, truncation_side, split_special_tokens: override the constructor
                arguments for this call.
            return_tensors: "np", "tf", or "pt". Default: lists.
            return_token_type_ids, return_attention_mask: whether to return this feature. Default:
                True.
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
        settings = TransformersTokenizer.SETTINGS
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
        special = self.special if layout.add_special_tokens else None
        return make_sequences(tokens_of(texts, *options), second, special, layout.as_truncation)

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
            new_tokens: tokens in normalized form (lowercase for uncased vocabularies). Existing
                tokens are skipped.
            special_tokens: whether decoding with `skip_special_tokens` skips the tokens. This
                doesn't affect how texts are encoded.
        Returns:
            The number of new tokens.
        Raises:
            UserError: if the vocabulary would split or normalize a new token, for example because
                it lowercases all text. In this case, no token is added.
        """
        return add_tokens(self, new_tokens, special_tokens)

    def add_special_tokens(self, special_tokens_dict: Mapping[str, Any]) -> int:
        """Adds the tokens under "additional_special_tokens" as special tokens; see `add_tokens`.

        Raises:
            UserError: as in `add_tokens`, or if another special token would change.
        """
        return add_tokens(self, additional_tokens(self, special_tokens_dict), special=True)

    def decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> Any:
        """Returns the normalized text of ids, or a list of texts for several sequences.

        `clean_up_tokenization_spaces` is ignored, because the vocabulary determines the spaces.
        """
        ids = token_ids.tolist() if hasattr(token_ids, "tolist") else token_ids
        ids = ids.numpy().tolist() if hasattr(ids, "numpy") else ids
        ids = [ids] if isinstance(ids, int | str) else ids
        if len(ids) and isinstance(ids[0], str):
            raise TypeError(
                f"token_ids must be ids. Received: {short_repr(token_ids)}. To join tokens, call "
                "convert_tokens_to_string."
            )
        if len(ids) and hasattr(ids[0], "__len__"):
            return self.batch_decode(ids, skip_special_tokens)
        return self.convert_tokens_to_string(self.convert_ids_to_tokens(ids, skip_special_tokens))

    def batch_decode(
        self,
        sequences: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> list[str]:
        """Returns the normalized text of each sequence of ids."""
        return [self.decode(sequence, skip_special_tokens) for sequence in sequences]

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """Returns the ids of `[CLS] A [SEP]`, or of `[CLS] A [SEP] B [SEP]` for two texts."""
        return self._positions(token_ids_0, token_ids_1).input_ids.tolist()

    def create_token_type_ids_from_sequences(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """Returns 0 for each position of `[CLS] A [SEP]` and 1 for each position of `B [SEP]`."""
        return self._positions(token_ids_0, token_ids_1).token_type_ids.tolist()

    def get_special_tokens_mask(
        self,
        token_ids_0: list[int],
        token_ids_1: list[int] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        """Returns 1 for each special token and 0 for each token of a text.

        Args:
            token_ids_0, token_ids_1: ids of one or two texts.
            already_has_special_tokens: whether `token_ids_0` is a complete sequence. If not, the
                mask is for the result of `build_inputs_with_special_tokens`.
        """
        if already_has_special_tokens:
            if token_ids_1 is not None:
                raise UserError(
                    "With already_has_special_tokens=True, pass the whole sequence as token_ids_0, "
                    "and drop token_ids_1."
                )
            return [int(index in self.all_special_ids) for index in token_ids_0]
        return self._positions(token_ids_0, token_ids_1).special_tokens_mask.tolist()

    def _positions(self, first: list[int], second: list[int] | None) -> Positions:
        texts = [Tokens(np.array(ids, np.int32)) for ids in (first, second) if ids is not None]
        return Positions([EncodedSequence(texts, self.special)])

    @property
    def max_len_single_sentence(self) -> int:
        """Maximum number of tokens in a single text, without special tokens."""
        return self.model_max_length - self.num_special_tokens_to_add()

    @property
    def max_len_sentences_pair(self) -> int:
        """Maximum number of tokens in a pair of texts, without special tokens."""
        return self.model_max_length - self.num_special_tokens_to_add(pair=True)

    @property
    def vocab(self) -> dict[str, int]:
        """Every token with its id; see `get_vocab`."""
        return self.get_vocab()

    def get_added_vocab(self) -> dict[str, int]:
        """Returns the special tokens with their ids; other added tokens are in `get_vocab()`."""
        return dict(zip(self.all_special_tokens, self.all_special_ids, strict=True))

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike[str], **options: Any
    ) -> "TransformersTokenizer":
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
    def _class_for(cls, vocabulary: Path) -> "type[TransformersTokenizer]":
        """Returns the class that reads a vocabulary file."""
        return cls

    def save_pretrained(
        self, save_directory: str | os.PathLike[str], **options: Any
    ) -> tuple[str, ...]:
        """Writes the vocabulary, `tokenizer_config.json`, and `special_tokens_map.json`.

        Other transformers options must have their default values.
        """
        if unknown := without_foreign(options, TOKENIZER_SAVING):
            raise TypeError(
                f"save_pretrained accepts only save_directory. Received: {', '.join(unknown)}."
            )
        return write_tokenizer(save_directory, self.files())

    def save_vocabulary(
        self, save_directory: str | os.PathLike[str], filename_prefix: str | None = None
    ) -> tuple[str, ...]:
        """Writes the vocabulary as `spiece.model` or `vocab.txt`.

        With a `filename_prefix`, the file name is `prefix-spiece.model` or `prefix-vocab.txt`.

        Returns:
            A tuple with the path of the file.
        """
        name = f"{filename_prefix}-{self.vocab_name}" if filename_prefix else self.vocab_name
        return write_tokenizer(save_directory, {name: self.model_bytes})

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Uploads the tokenizer to the Hugging Face Hub and returns the URL of the commit.

        Args:
            repo_id: owner/name. The repository is created if it doesn't exist.
            **options: `token`, `private`, `commit_message`, `revision`, and `create_pr`.
        Raises:
            UserError: if there is no access token, write permission, or network connection.
        """
        return hub.upload(self.save_pretrained, repo_id, **options)

"""The base of both tokenizers: Hugging Face's calls on any vocabulary."""

import copy
import os
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Final, overload

import numpy as np

from albert_tf.checkpoints import hub
from albert_tf.checkpoints.finder import split_hub_options
from albert_tf.errors import UserError, short_repr
from albert_tf.options import COUNT, NOT_NEGATIVE, checks_numbers, without_foreign
from albert_tf.text.added_tokens import (
    add_tokens,
    additional_tokens,
    check_special,
    mark_special,
)
from albert_tf.text.encoding import (
    PADDING,
    PADDING_STRATEGIES,
    TRUNCATION_STRATEGIES,
    BatchEncoding,
    EncodedSequence,
    RaggedRows,
    Segment,
    Side,
    SpecialTokens,
    Tensors,
    Text,
    Tokens,
    as_tensors,
    checked_side,
    chosen,
    collect,
    make_sequences,
    pad_rows,
)
from albert_tf.text.huggingface import FROM_PRETRAINED, TokenizerNames
from albert_tf.text.tokenizer_files import (
    TOKENIZER_CONFIG,
    json_files,
    read_tokenizer,
    refuse_other_kinds,
    stored_settings,
    write_tokenizer,
)

NO_CHARACTER: Final = "\U0010ffff"  # Replaces stray bytes; unknown to every vocabulary.
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_ALL_CORES: Final = -1

# What a vocabulary decides; an assignment would change neither ids nor files.
_FIXED: Final = frozenset(
    ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token", "bos_token", "eos_token")
    + ("do_lower_case", "keep_accents")
)


class BaseTokenizer(TokenizerNames, ABC):
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
    special_names: tuple[str, ...] = ("unk", "sep", "pad", "cls", "mask")
    pad_token_type_id = 0
    vocab_name: ClassVar[str]
    hub_class: ClassVar[str]
    continuation: ClassVar[str] = ""  # begins the tokens that continue a word
    do_lower_case: bool
    padding_side: Side
    truncation_side: Side
    additional_special_tokens: list[str]
    all_special_tokens: list[str]
    all_special_ids: list[int]
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
    def _token(self, index: int) -> str:
        """Returns the token of an id in `[0, vocab_size)`."""

    @abstractmethod
    def _id(self, token: str) -> int:
        """Returns the id of a token, or the unknown token's for any other string."""

    @abstractmethod
    def _detokenize(self, tokens: Sequence[str]) -> str:
        """Joins tokens to text."""

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

    @checks_numbers(max_length=COUNT, stride=NOT_NEGATIVE, pad_to_multiple_of=COUNT)
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
        if truncation is None:
            truncation = max_length is not None and padding is False
        length = self.model_max_length if max_length is None else max_length
        side = checked_side(padding_side or self.padding_side)
        texts, pairs, is_batch = (as_words if is_split_into_words else as_texts)(text, text_pair)
        split = self.split_special_tokens if split_special_tokens is None else split_special_tokens
        options: dict[str, Any] = {
            "special": self.special if add_special_tokens else None,
            "truncation": chosen("truncation", truncation, TRUNCATION_STRATEGIES),
            "max_length": length,
            "stride": stride,
            "overflow": return_overflowing_tokens,
            "side": checked_side(truncation_side or self.truncation_side, "truncation_side"),
        }
        are_words = is_split_into_words
        sequences = self._sequences(texts, pairs, are_words, split, return_offsets_mapping, options)
        requested = {
            "input_ids": True,
            "token_type_ids": return_token_type_ids is not False,
            "attention_mask": return_attention_mask is not False,
            "special_tokens_mask": return_special_tokens_mask,
            "offset_mapping": return_offsets_mapping,
            "overflow_to_sample_mapping": return_overflowing_tokens,
        }
        features = pad_rows(
            collect(sequences, requested),
            chosen("padding", padding, PADDING_STRATEGIES),
            length,
            pad_to_multiple_of,
            pad_id=self.pad_token_id,
            side=side,
        )
        ids = features["input_ids"]
        lengths = np.maximum(ids.lengths, ids.width).tolist()
        if verbose and max(lengths, default=0) > self.model_max_length and max_length is None:
            self._warn_of_length(max(lengths))
        if return_length:
            features["length"] = lengths
        features = as_tensors(features, return_tensors)
        if not is_batch and not return_overflowing_tokens and return_tensors is None:
            features = {
                name: values if name == "length" else values[0] for name, values in features.items()
            }
        if return_offsets_mapping:
            return BatchEncoding(features, sequences, lengths, side)
        # Offsets take ten times as long as ids: the encoding asks for them when they are needed,
        # of the tokenizer as it is now, without tokens added later.
        now = copy.copy(self)
        return BatchEncoding(
            features,
            sequences,
            lengths,
            side,
            lambda: now._sequences(texts, pairs, are_words, split, True, options),
        )

    def _warn_of_length(self, length: int) -> None:
        if not vars(self).get("_has_warned"):
            self._has_warned = True
            warnings.warn(
                f"A sequence has {length} tokens, more than "
                f"model_max_length={self.model_max_length}: a model may have no positions for "
                "them. Pass truncation=True.",
                stacklevel=3,
            )

    def _sequences(
        self,
        texts: Sequence[Any],
        pairs: Sequence[Any] | None,
        are_words: bool,
        split_special: bool,
        with_offsets: bool,
        options: Mapping[str, Any],
    ) -> list[EncodedSequence]:
        """Encodes texts, and truncates them with the `options` of `make_sequences`."""
        encode: Callable[..., list[Tokens]] = self._tokens_of_words if are_words else self.tokens_of
        first = encode(texts, split_special, with_offsets)
        second = None if pairs is None else encode(pairs, split_special, with_offsets)
        return make_sequences(first, second, **options)

    def _tokens_of_words(
        self, samples: Sequence[Sequence[Text]], split_special: bool, with_offsets: bool
    ) -> list[Tokens]:
        """Encodes texts that are lists of words; offsets count from each word's start."""
        words = iter(self.tokens_of([*chain.from_iterable(samples)], split_special, with_offsets))
        return [_joined_words([next(words) for _ in sample]) for sample in samples]

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
        plain = [s.content for segments in segmented for s in segments if not s.is_special]
        rest = iter(self._tokens(plain, with_offsets))
        return [
            _joined_segments(
                segments, [self._special(s) if s.is_special else next(rest) for s in segments]
            )
            for segments in segmented
        ]

    def _tokens(self, texts: list[str], with_offsets: bool) -> Iterable[Tokens]:
        """Returns the tokens of texts in which special tokens are plain text."""
        if with_offsets:
            return map(self._encode_with_offsets, texts)
        return map(Tokens, self.encode_plain(texts, _ALL_CORES))

    def _segments(self, text: Text, split_special: bool) -> list[Segment]:
        text = as_text(text)
        return [Segment(text, 0, False)] if split_special else self.special.split(text)

    def _special(self, segment: Segment) -> Tokens:
        ids = np.array([self._id(segment.content)], np.int32)
        return Tokens(ids, np.array([[0, len(segment.content)]], np.int32), np.zeros(1, np.int32))

    def encode(self, text: Any, text_pair: Any = None, **options: Any) -> Any:
        """Returns only the `input_ids`; takes the options of `__call__`."""
        return self(text, text_pair, **options)["input_ids"]

    @checks_numbers(max_length=COUNT, pad_to_multiple_of=COUNT)
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
        if not isinstance(encoded_inputs, Mapping):
            names = encoded_inputs[0] if encoded_inputs else ()
            encoded_inputs = {name: [single[name] for single in encoded_inputs] for name in names}
        if "input_ids" not in encoded_inputs:
            raise ValueError(
                "Encodings must have input_ids to be padded. "
                f"Received: {', '.join(encoded_inputs) or 'none'}."
            )
        features = {name: _as_lists(values) for name, values in encoded_inputs.items()}
        is_single = bool(features["input_ids"]) and isinstance(features["input_ids"][0], int)
        if is_single:
            features = {name: [values] for name, values in features.items()}
        if "attention_mask" not in features and return_attention_mask is not False:
            features["attention_mask"] = [[1] * len(ids) for ids in features["input_ids"]]
        rows = {
            name: RaggedRows.of(values) if name == "input_ids" or name in PADDING else values
            for name, values in features.items()
        }
        padded = pad_rows(
            rows,
            chosen("padding", padding, PADDING_STRATEGIES),
            self.model_max_length if max_length is None else max_length,
            pad_to_multiple_of,
            pad_id=self.pad_token_id,
            side=checked_side(padding_side or self.padding_side),
        )
        features = as_tensors(padded, return_tensors)
        if is_single and return_tensors is None:
            features = {name: values[0] for name, values in features.items()}
        return BatchEncoding(features)

    def _mark_special(self, tokens: Iterable[str]) -> None:
        """Marks tokens as special, so that decoding can skip them; ignores unknown ones."""
        own = self.special
        ids = {token: self._id(token) for token in tokens if token not in own.tokens}
        known = {token: index for token, index in ids.items() if index != self.unk_token_id}
        self.additional_special_tokens = [*known]
        self.all_special_tokens = [*own.tokens, *known]
        self.all_special_ids = [*own.ids, *known.values()]

    def __len__(self) -> int:
        return self.vocab_size

    @property
    def special_tokens_map(self) -> dict[str, Any]:
        """Special tokens by Hugging Face's names."""
        own = {f"{name}_token": getattr(self, f"{name}_token") for name in self.special_names}
        more = self.additional_special_tokens
        return {**own, "additional_special_tokens": more} if more else own

    def get_vocab(self) -> dict[str, int]:
        """Returns every token with its id."""
        return {self._token(index): index for index in range(self.vocab_size)}

    def tokenize(
        self, text: Text, pair: Text | None = None, add_special_tokens: bool = False
    ) -> list[str]:
        """Returns the tokens as strings, by default without `[CLS]` and `[SEP]`."""
        tokens = [self.cls_token] if add_special_tokens else []
        for each in [text] if pair is None else [text, pair]:
            for segment in self._segments(each, self.split_special_tokens):
                is_special, content = segment.is_special, segment.content
                tokens += [content] if is_special else self._tokenize(content)
            tokens += [self.sep_token] if add_special_tokens else []
        return tokens

    @overload
    def convert_tokens_to_ids(self, tokens: str) -> int: ...
    @overload
    def convert_tokens_to_ids(self, tokens: list[str]) -> list[int]: ...
    def convert_tokens_to_ids(self, tokens: str | list[str]) -> int | list[int]:
        """Returns the id of a token, or of several; `unk_token_id` for unknown tokens."""
        if isinstance(tokens, str):
            return self._id(tokens)
        return [self._id(token) for token in tokens]

    @overload
    def convert_ids_to_tokens(self, ids: int, skip_special_tokens: bool = ...) -> str: ...
    @overload
    def convert_ids_to_tokens(
        self, ids: Iterable[int], skip_special_tokens: bool = ...
    ) -> list[str]: ...
    def convert_ids_to_tokens(
        self, ids: int | Iterable[int], skip_special_tokens: bool = False
    ) -> str | list[str]:
        """Returns the token of an id, or the tokens of several (a list or an array).

        Raises:
            ValueError: an id is outside `[0, vocab_size)`.
        """
        if isinstance(ids, int):
            return self._checked_token(ids)
        indices = [int(index) for index in ids]
        if skip_special_tokens:
            indices = [index for index in indices if index not in self.all_special_ids]
        return [self._checked_token(index) for index in indices]

    def _checked_token(self, index: int) -> str:
        if not 0 <= index < self.vocab_size:
            raise ValueError(
                f"An id must be in [0, {self.vocab_size}). Received: {index}. "
                "Decode with the vocabulary that the ids were made with."
            )
        return self._token(index)

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Joins tokens to text; special tokens appear by name."""
        return self._detokenize(tokens)

    def decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> Any:
        """Returns the normalized text of ids (one, a list, or an array), or a list of texts for
        several sequences.

        `clean_up_tokenization_spaces` has no effect: the vocabulary decides where spaces are.
        """
        ids = token_ids.tolist() if hasattr(token_ids, "tolist") else token_ids
        ids = ids.numpy().tolist() if hasattr(ids, "numpy") else ids
        ids = [ids] if isinstance(ids, int) else ids
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
        self._check_saving(options)
        return write_tokenizer(save_directory, self.files())

    def files(self) -> dict[str, bytes]:
        """Returns the content of the files that `save_pretrained` writes, by name."""
        # Without the names transformers 5 leaves token_type_ids out, and pairs lose their segments.
        names = list(self.model_input_names)
        settings = {"tokenizer_class": self.hub_class, "model_input_names": names, **self.settings}
        files = json_files(settings, self.special_tokens_map)
        return {self.vocab_name: self.model_bytes, **files}

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


def _joined_segments(segments: Sequence[Segment], tokens: Sequence[Tokens]) -> Tokens:
    """Joins the tokens of a text's segments."""
    if len(tokens) == 1:
        return tokens[0]
    counts = [t.words.max(initial=-1) + 1 for t in tokens]
    words = np.cumsum([0, *counts], dtype=np.int32)
    return Tokens(
        np.concatenate([t.ids for t in tokens]),
        np.concatenate([t.offsets + s.start for t, s in zip(tokens, segments, strict=True)]),
        np.concatenate([t.words + word for t, word in zip(tokens, words, strict=False)]),
    )


def _joined_words(words: Sequence[Tokens]) -> Tokens:
    """Joins the tokens of a text's words, and numbers the words."""
    lengths = np.array([len(word.ids) for word in words], np.int32)
    tokens = [Tokens(np.empty(0, np.int32)), *words]  # A text may have no words.
    return Tokens(
        np.concatenate([t.ids for t in tokens]),
        np.concatenate([t.offsets for t in tokens]),
        np.repeat(np.arange(len(words), dtype=np.int32), lengths),
    )


def as_texts(text: Any, pair: Any) -> tuple[list[Text], list[Text] | None, bool]:
    """Returns both arguments as lists of texts, and whether they are a batch."""
    if isinstance(text, str | bytes):
        if pair is not None and not isinstance(pair, str | bytes):
            raise TypeError(
                "text and text_pair must both be texts or both be lists. "
                f"Received: a text and a {type(pair).__name__}."
            )
        return [text], None if pair is None else [pair], False
    first, second = _listed("text", text), None if pair is None else _listed("text_pair", pair)
    if second is None and first and all(isinstance(e, tuple | list) and len(e) == 2 for e in first):
        first, second = map(list, zip(*first, strict=True))
    return first, _of_one_length(first, second), True


def as_words(text: Any, pair: Any) -> tuple[list[list[Text]], list[list[Text]] | None, bool]:
    """Returns both texts as lists of lists of words, and whether they are a batch."""
    first = _words(text)
    is_batch = bool(first) and not isinstance(first[0], str | bytes)
    samples = [_words(words) for words in (first if is_batch else [first])]
    if pair is None:
        return samples, None, is_batch
    second = _words(pair)
    others = [_words(words) for words in (second if is_batch else [second])]
    return samples, _of_one_length(samples, others), is_batch


def _of_one_length(first: list[Any], second: list[Any] | None) -> list[Any] | None:
    if second is not None and len(first) != len(second):
        raise ValueError(
            "text and text_pair must have the same length. "
            f"Received: {len(first)} texts and {len(second)} text pairs."
        )
    return second


def _words(words: Any) -> list[Text]:
    if isinstance(words, str | bytes):
        raise TypeError(
            "With is_split_into_words=True a text must be a list of words. "
            f"Received: {short_repr(words)}. Split it, or leave is_split_into_words out."
        )
    return _listed("text", words)


def _listed(name: str, texts: Any) -> list[Any]:
    if isinstance(texts, str | bytes | Mapping) or not hasattr(texts, "__iter__"):
        raise TypeError(
            f"{name} must be a text or a list of texts. Received: {short_repr(texts)} of type "
            f"{type(texts).__name__}."
        )
    return list(texts)


def _as_lists(values: Any) -> list[Any]:
    """Returns sequences of numbers (lists or arrays) as lists."""
    if hasattr(values, "numpy"):
        values = values.numpy()
    return [value.tolist() if hasattr(value, "tolist") else value for value in values]


def as_text(text: Text) -> str:
    """Returns a str in which stray bytes and lone surrogates are `NO_CHARACTER`.

    Raises:
        TypeError: `text` is neither str nor bytes.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    if not isinstance(text, str):
        raise TypeError(
            "A text must be a str, or bytes in UTF-8. "
            f"Received: {short_repr(text)} of type {type(text).__name__}. Pass a text, a list of "
            "texts, or a list of tuples of two texts; lists of words require "
            "is_split_into_words=True."
        )
    return text if text.isascii() else _SURROGATES.sub(NO_CHARACTER, text)


def trim(text: str, offsets: np.ndarray) -> None:
    """Drops white space at the ends of spans, in place, unless a span is all white space."""
    ends = offsets[:, 1].tolist()
    for at in [at for at, end in enumerate(ends) if text[end - 1 : end].isspace()]:
        start, end = offsets[at].tolist()
        if kept := len(text[start:end].rstrip()):
            offsets[at, 1] = start + kept

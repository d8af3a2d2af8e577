"""The base class of all tokenizers, with the methods that the rest of the package uses."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Final, overload

import numpy as np

from albert_tf.checkpoints.finder import SPECIAL_TOKENS_MAP, TOKENIZER_CONFIG
from albert_tf.errors import UserError
from albert_tf.files import as_json
from albert_tf.huggingface import IGNORED_BY_TOKENIZERS, Foreign, own_options
from albert_tf.options import COUNT, check_number
from albert_tf.text.sequences import Side, checked_side, special_count
from albert_tf.text.texts import Text, as_text
from albert_tf.text.tokens import SpecialTokens, Tokens, join_segments, join_words

_ALL_CORES: Final = -1

# Attributes that the vocabulary determines. Assigning to them wouldn't change ids or files.
_FIXED: Final = frozenset(
    ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token", "bos_token", "eos_token")
    + ("do_lower_case", "keep_accents")
)


class BaseTokenizer(ABC):
    """Converts raw text to ids. `AlbertTokenizer` and `WordPieceTokenizer` add a vocabulary.

    Tasks and pipelines encode texts in two steps: `tokens_of` returns the tokens of each text, and
    `make_sequences` (windows.py) adds the special tokens. `TransformersTokenizer` combines both
    steps in one call, as in transformers.

    Args:
        special: the special tokens.
        vocab_size: number of tokens, including special tokens.
        model_max_length, split_special_tokens, padding_side, truncation_side: see
            `AlbertTokenizer`.
    """

    model_input_names = ("input_ids", "token_type_ids", "attention_mask")
    vocab_name: ClassVar[str]
    hub_class: ClassVar[str]
    # The names that transformers uses for the special tokens in saved files.
    special_names: ClassVar[tuple[str, ...]] = ("unk", "sep", "pad", "cls", "mask")
    vocab_file: str | None  # None if the vocabulary was passed as bytes
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
                f"{name} is part of the vocabulary and can't be changed. "
                f"Received: {name}={value!r}. Create a new tokenizer."
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
        """Returns the arguments without those of transformers that have no effect here."""
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
    def _encode_with_offsets(self, text: str) -> Tokens:
        """Returns tokens with offsets and words, treating special tokens as plain text."""

    @abstractmethod
    def _token(self, index: int) -> str:
        """Returns the token for an id in `[0, vocab_size)`."""

    @abstractmethod
    def _id(self, token: str) -> int:
        """Returns the id of a token, or `unk_token_id` for any other string."""

    @abstractmethod
    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Joins tokens, including special tokens, into a text."""

    @abstractmethod
    def in_graph(self) -> Any:
        """Returns an object whose `tokenize` maps strings `[B]` to ragged ids inside a graph."""

    def tokens_of(
        self, texts: Sequence[Text], split_special: bool = True, with_offsets: bool = False
    ) -> list[Tokens]:
        """Returns the tokens of each text, without adding special tokens.

        Args:
            split_special: whether to treat special tokens in a text as plain text.
            with_offsets: whether to add each token's offsets and word index. This takes about ten
                times as long.
        """
        strings = [as_text(text) for text in texts]
        if split_special or not self.special.are_in("".join(strings)):
            return list(self._tokens(strings, with_offsets))
        segmented = [self.special.split(text) for text in strings]
        plain = [s.content for s in chain(*segmented) if not s.is_special]
        rest = iter(self._tokens(plain, with_offsets))
        return [join_segments(segments, rest, self.special) for segments in segmented]

    def tokens_of_words(
        self,
        samples: Sequence[Sequence[Text]],
        split_special: bool = True,
        with_offsets: bool = False,
    ) -> list[Tokens]:
        """Returns the tokens of texts that are lists of words, without adding special tokens.

        Args:
            split_special, with_offsets: see `tokens_of`. Offsets are relative to each word.
        """
        words = iter(self.tokens_of([*chain.from_iterable(samples)], split_special, with_offsets))
        return [join_words([next(words) for _ in sample]) for sample in samples]

    def _tokens(self, texts: list[str], with_offsets: bool) -> Iterable[Tokens]:
        """Returns the tokens of texts, treating special tokens as plain text."""
        if with_offsets:
            return map(self._encode_with_offsets, texts)
        return map(Tokens, self.encode_plain(texts, _ALL_CORES))

    def get_vocab(self) -> dict[str, int]:
        """Returns every token with its id."""
        return {self._token(index): index for index in range(self.vocab_size)}

    @overload
    def convert_tokens_to_ids(self, tokens: str) -> int: ...
    @overload
    def convert_tokens_to_ids(self, tokens: list[str]) -> list[int]: ...
    def convert_tokens_to_ids(self, tokens: str | list[str]) -> int | list[int]:
        """Returns the id of a token, or a list of ids for a list of tokens.

        Unknown tokens have the id `unk_token_id`.
        """
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
        """Returns the token for an id, or a list of tokens for a list or an array of ids.

        Raises:
            ValueError: if an id is outside `[0, vocab_size)`.
        """
        if isinstance(ids, int):
            return self._lookup_token(ids)
        indices = [int(index) for index in ids]
        if skip_special_tokens:
            indices = [index for index in indices if index not in self.all_special_ids]
        return [self._lookup_token(index) for index in indices]

    def _lookup_token(self, index: int) -> str:
        if not 0 <= index < self.vocab_size:
            raise ValueError(
                f"An id must be in [0, {self.vocab_size}). Received: {index}. Decode with the "
                "vocabulary that encoded the text."
            )
        return self._token(index)

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """Returns the number of special tokens: 2 for a single text, 3 or 4 for a pair."""
        return special_count(pair, self.special.separators)

    @property
    def special_tokens_map(self) -> dict[str, Any]:
        """Special tokens keyed by their Hugging Face names."""
        own = {f"{name}_token": getattr(self, f"{name}_token") for name in self.special_names}
        more = self.additional_special_tokens
        return {**own, "additional_special_tokens": more} if more else own

    def _mark_special(self, tokens: Iterable[str]) -> None:
        """Marks tokens as special, so that decoding can skip them. Unknown tokens are ignored."""
        own = self.special
        ids = {token: self._id(token) for token in tokens if token not in own.tokens}
        known = {token: index for token, index in ids.items() if index != self.unk_token_id}
        self.additional_special_tokens = [*known]
        self.all_special_tokens = [*own.tokens, *known]
        self.all_special_ids = [*own.ids, *known.values()]

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

    def __len__(self) -> int:
        return self.vocab_size

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(vocab_size={self.vocab_size}, "
            f"do_lower_case={self.do_lower_case}, model_max_length={self.model_max_length})"
        )

"""Conversion between ids, tokens, and text, with the Hugging Face API."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np

from albert_tf.errors import UserError, short_repr
from albert_tf.text.encoding import EncodedSequence, Positions
from albert_tf.text.tokens import SpecialTokens, Tokens
from albert_tf.text.windows import special_count


class IdMethods(ABC):
    """Base class of `BaseTokenizer`, with the methods that take ids and tokens."""

    is_fast = True  # returns offsets, words, and windows
    special_names: tuple[str, ...] = ("unk", "sep", "pad", "cls", "mask")
    vocab_file: str | None  # None if the vocabulary was passed as bytes
    vocab_size: int
    model_max_length: int
    special: SpecialTokens
    unk_token_id: int
    additional_special_tokens: list[str]
    all_special_tokens: list[str]
    all_special_ids: list[int]

    @abstractmethod
    def _token(self, index: int) -> str:
        """Returns the token of an id in `[0, vocab_size)`."""

    @abstractmethod
    def _id(self, token: str) -> int:
        """Returns the id of a token, or `unk_token_id` for any other string."""

    @abstractmethod
    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Joins tokens, including special tokens, into a text."""

    def __len__(self) -> int:
        return self.vocab_size

    @property
    def special_tokens_map(self) -> dict[str, Any]:
        """Special tokens keyed by their Hugging Face names."""
        own = {f"{name}_token": getattr(self, f"{name}_token") for name in self.special_names}
        more = self.additional_special_tokens
        return {**own, "additional_special_tokens": more} if more else own

    def get_vocab(self) -> dict[str, int]:
        """Returns every token with its id."""
        return {self._token(index): index for index in range(self.vocab_size)}

    def _mark_special(self, tokens: Iterable[str]) -> None:
        """Marks tokens as special, so that decoding can skip them. Unknown tokens are ignored."""
        own = self.special
        ids = {token: self._id(token) for token in tokens if token not in own.tokens}
        known = {token: index for token, index in ids.items() if index != self.unk_token_id}
        self.additional_special_tokens = [*known]
        self.all_special_tokens = [*own.tokens, *known]
        self.all_special_ids = [*own.ids, *known.values()]

    @overload
    def convert_tokens_to_ids(self, tokens: str) -> int: ...
    @overload
    def convert_tokens_to_ids(self, tokens: list[str]) -> list[int]: ...
    def convert_tokens_to_ids(self, tokens: str | list[str]) -> int | list[int]:
        """Returns the ids of a token or a list of tokens; `unk_token_id` for unknown tokens."""
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
        """Returns the tokens of an id, a list, or an array.

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
        """Returns `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`."""
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

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """Returns the number of special tokens: 2 for a single text, 3 or 4 for a pair."""
        return special_count(pair, self.special.separators)

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

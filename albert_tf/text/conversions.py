"""Conversions between ids, tokens and text, and the building blocks of rows."""

from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np

from albert_tf.text.call_arguments import Text
from albert_tf.text.encoding import EncodedSequence, Pieces, special_count
from albert_tf.text.segmenter import Segmenter


class TokenConversions:
    """The methods of a tokenizer that need only its vocabulary."""

    special_names: tuple[str, ...] = ("unk", "sep", "pad", "cls", "mask")
    pad_token_type_id = 0
    split_special_tokens: bool
    additional_special_tokens: list[str]
    all_special_tokens: list[str]
    all_special_ids: list[int]

    def __init__(self, segmenter: Segmenter):
        self._segmenter = segmenter
        self.special = segmenter.special
        self.vocab_size = segmenter.size
        tokens, ids = self.special.tokens, self.special.ids
        self.pad_token, self.unk_token, self.cls_token, self.sep_token, self.mask_token = tokens
        self.pad_token_id, self.unk_token_id, self.cls_token_id = ids[:3]
        self.sep_token_id, self.mask_token_id = ids[3:]
        self.bos_token, self.bos_token_id = self.cls_token, self.cls_token_id
        self.eos_token, self.eos_token_id = self.sep_token, self.sep_token_id
        self._mark_special(())

    def _mark_special(self, tokens: Iterable[str]) -> None:
        """Counts pieces among the special tokens, which decoding can skip; ignores unknown ones."""
        own = self.special
        found = {token: self._segmenter.index(token) for token in tokens if token not in own.tokens}
        known = {token: index for token, index in found.items() if index != self.unk_token_id}
        # Not by assignment, which a tokenizer refuses to its users.
        vars(self).update(
            additional_special_tokens=[*known],
            all_special_tokens=[*own.tokens, *known],
            all_special_ids=[*own.ids, *known.values()],
        )

    def __len__(self) -> int:
        return self.vocab_size

    @property
    def special_tokens_map(self) -> dict[str, Any]:
        """Special tokens by Hugging Face's names."""
        own = {f"{name}_token": getattr(self, f"{name}_token") for name in self.special_names}
        more = self.additional_special_tokens
        return {**own, "additional_special_tokens": more} if more else own

    def get_vocab(self) -> dict[str, int]:
        """Returns every piece with its id."""
        return {self._segmenter.token(index): index for index in range(self.vocab_size)}

    def encode_plain(self, texts: list[str]) -> list[np.ndarray]:
        """Returns int32 `[pieces]` for each text, in bulk; special tokens in it are plain text.

        Raises:
            UnicodeEncodeError: a text has surrogates.
        """
        return self._segmenter.encode_plain(texts, threads=1)

    def tokenize(self, text: Text, pair: Text | None = None) -> list[str]:
        """Returns the pieces as strings."""
        texts = [text] if pair is None else [text, pair]
        split = self.split_special_tokens
        return [token for each in texts for token in self._segmenter.tokens(each, split)]

    @overload
    def convert_tokens_to_ids(self, tokens: str) -> int: ...
    @overload
    def convert_tokens_to_ids(self, tokens: list[str]) -> list[int]: ...
    def convert_tokens_to_ids(self, tokens: str | list[str]) -> int | list[int]:
        """Returns the id of a token, or of several; `unk_token_id` for unknown tokens."""
        if isinstance(tokens, str):
            return self._segmenter.index(tokens)
        return [self._segmenter.index(token) for token in tokens]

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
            return self._token(ids)
        indices = [int(index) for index in ids]
        if skip_special_tokens:
            indices = [index for index in indices if index not in self.all_special_ids]
        return [self._token(index) for index in indices]

    def _token(self, index: int) -> str:
        if not 0 <= index < self.vocab_size:
            raise ValueError(
                f"An id must be in [0, {self.vocab_size}). Received: {index}. "
                "Decode with the vocabulary that the ids were made with."
            )
        return self._segmenter.token(index)

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Joins tokens to text; special tokens appear by name."""
        return self._segmenter.joined(tokens)

    def decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> str:
        """Returns the normalized text of ids (one, a list, or an array of rank 1).

        `clean_up_tokenization_spaces` has no effect: pieces say where spaces are.
        """
        ids = token_ids.tolist() if hasattr(token_ids, "tolist") else token_ids
        ids = ids.numpy().tolist() if hasattr(ids, "numpy") else ids
        ids = [ids] if isinstance(ids, int) else ids
        return self.convert_tokens_to_string(self.convert_ids_to_tokens(ids, skip_special_tokens))

    def batch_decode(
        self,
        sequences: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> list[str]:
        """Returns the normalized text of each row of ids."""
        return [self.decode(sequence, skip_special_tokens) for sequence in sequences]

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """Returns `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`."""
        return self._row(token_ids_0, token_ids_1).input_ids

    def create_token_type_ids_from_sequences(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """Returns 0 for `[CLS] A [SEP]`, and 1 for `B [SEP]`."""
        return self._row(token_ids_0, token_ids_1).token_type_ids

    def get_special_tokens_mask(
        self,
        token_ids_0: list[int],
        token_ids_1: list[int] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        """Returns 1 for special tokens, 0 for pieces of text."""
        if already_has_special_tokens:
            return [int(index in self.all_special_ids) for index in token_ids_0]
        return self._row(token_ids_0, token_ids_1).special_tokens_mask

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """Returns 2 for one text, 3 for a pair."""
        return special_count(pair)

    def _row(self, first: list[int], second: list[int] | None) -> EncodedSequence:
        texts = [Pieces(np.asarray(ids, np.int32)) for ids in (first, second) if ids is not None]
        return EncodedSequence(texts, self.special)

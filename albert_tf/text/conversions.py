"""Ids to tokens to text and back, and the special tokens' names."""

from collections.abc import Iterable, Sequence
from typing import Any, overload

from albert_tf.text.segmenter import Segmenter
from albert_tf.text.special_tokens import SpecialTokens


class TokenConversions:
    """The part of a tokenizer that needs the vocabulary alone.

    Args:
        segmenter: the vocabulary.
    """

    special_names: tuple[str, ...] = ("unk", "sep", "pad", "cls", "mask")
    pad_token_type_id = 0

    def __init__(self, segmenter: Segmenter):
        self._segmenter = segmenter
        special = segmenter.special
        tokens, ids = special.tokens, special.ids
        self.pad_token, self.unk_token, self.cls_token, self.sep_token, self.mask_token = tokens
        self.pad_token_id, self.unk_token_id, self.cls_token_id = ids[:3]
        self.sep_token_id, self.mask_token_id = ids[3:]
        self.bos_token, self.bos_token_id = self.cls_token, self.cls_token_id
        self.eos_token, self.eos_token_id = self.sep_token, self.sep_token_id
        self.all_special_tokens, self.all_special_ids = list(tokens), list(ids)

    @property
    def special(self) -> SpecialTokens:
        """The special tokens, written out and as ids."""
        return self._segmenter.special

    @property
    def vocab_size(self) -> int:
        """Number of pieces, special tokens included."""
        return self._segmenter.size

    def __len__(self) -> int:
        return self.vocab_size

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """Special tokens by Hugging Face's names."""
        return {f"{name}_token": getattr(self, f"{name}_token") for name in self.special_names}

    def get_vocab(self) -> dict[str, int]:
        """Every piece with its id."""
        return {self._segmenter.token(index): index for index in range(self.vocab_size)}

    @overload
    def convert_tokens_to_ids(self, tokens: str) -> int: ...
    @overload
    def convert_tokens_to_ids(self, tokens: list[str]) -> list[int]: ...
    def convert_tokens_to_ids(self, tokens: str | list[str]) -> int | list[int]:
        """The id of a token, or the ids of several; `unk_token_id` for what is no token."""
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
        """The token of an id, or the tokens of several (a list or an array).

        Raises:
            ValueError: an id outside `[0, vocab_size)`.
        """
        if isinstance(ids, int):
            return self._token(ids)
        kept = [int(index) for index in ids]
        if skip_special_tokens:
            kept = [index for index in kept if index not in self.special.ids]
        return [self._token(index) for index in kept]

    def _token(self, index: int) -> str:
        if not 0 <= index < self.vocab_size:
            raise ValueError(
                f"An id must be in [0, {self.vocab_size}). Received: {index}. "
                "Decode with the vocabulary that the ids were made with."
            )
        return self._segmenter.token(index)

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Joins tokens to text; a special token reads as its name."""
        return self._segmenter.joined(tokens)

    def decode(self, token_ids: Any, skip_special_tokens: bool = False) -> str:
        """The normalised text of ids (one, a list, or an array of rank 1)."""
        ids = token_ids.tolist() if hasattr(token_ids, "tolist") else token_ids
        ids = ids.numpy().tolist() if hasattr(ids, "numpy") else ids
        ids = [ids] if isinstance(ids, int) else ids
        return self.convert_tokens_to_string(self.convert_ids_to_tokens(ids, skip_special_tokens))

    def batch_decode(self, sequences: Any, skip_special_tokens: bool = False) -> list[str]:
        """The normalised texts of several rows of ids."""
        return [self.decode(sequence, skip_special_tokens) for sequence in sequences]

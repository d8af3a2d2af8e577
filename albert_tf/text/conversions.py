"""Ids to tokens to text and back, and the special tokens' names."""

import os
from collections.abc import Iterable, Sequence
from typing import Any, overload

from albert_tf.files import written_atomically
from albert_tf.text import special_tokens as special
from albert_tf.text.pieces import SPACE, Segmenter


class TokenConversions:
    """The part of the tokenizer that needs the vocabulary alone.

    Args:
        model: a baked SentencePiece model.
    """

    pad_token, pad_token_id = special.PAD, special.PAD_ID
    unk_token, unk_token_id = special.UNKNOWN, special.UNKNOWN_ID
    cls_token, cls_token_id = special.CLASSIFY, special.CLASSIFY_ID
    sep_token, sep_token_id = special.SEPARATE, special.SEPARATE_ID
    mask_token, mask_token_id = special.MASK, special.MASK_ID
    bos_token, bos_token_id = special.CLASSIFY, special.CLASSIFY_ID
    eos_token, eos_token_id = special.SEPARATE, special.SEPARATE_ID
    pad_token_type_id = 0
    all_special_tokens = list(special.SPECIAL_TOKENS)
    all_special_ids = list(special.SPECIAL_IDS)

    def __init__(self, model: bytes):
        self._model = model
        self._segmenter = Segmenter(model)

    @property
    def model_bytes(self) -> bytes:
        """The baked SentencePiece model, serialized."""
        return self._model

    @property
    def vocab_size(self) -> int:
        """Number of pieces, special tokens included."""
        return self._segmenter.processor.get_piece_size()

    def __len__(self) -> int:
        return self.vocab_size

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """Special tokens by Hugging Face's names."""
        names = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
        return {f"{name}_token": getattr(self, f"{name}_token") for name in names}

    def get_vocab(self) -> dict[str, int]:
        """Every piece with its id."""
        return {self.convert_ids_to_tokens(index): index for index in range(self.vocab_size)}

    @overload
    def convert_tokens_to_ids(self, tokens: str) -> int: ...
    @overload
    def convert_tokens_to_ids(self, tokens: list[str]) -> list[int]: ...
    def convert_tokens_to_ids(self, tokens: str | list[str]) -> int | list[int]:
        """The id of a token, or the ids of several; `unk_token_id` for what is no token."""
        if isinstance(tokens, str):
            return self._segmenter.processor.piece_to_id(tokens)
        return [self._segmenter.processor.piece_to_id(token) for token in tokens]

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
            kept = [index for index in kept if index not in special.SPECIAL_IDS]
        return [self._token(index) for index in kept]

    def _token(self, index: int) -> str:
        if not 0 <= index < self.vocab_size:
            raise ValueError(
                f"An id must be in [0, {self.vocab_size}). Received: {index}. "
                "Decode with the vocabulary that the ids were made with."
            )
        return self._segmenter.processor.id_to_piece(index)

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Joins tokens to text; a special token reads as its name."""
        return "".join(tokens).replace(SPACE, " ").removeprefix(" ")

    def decode(self, token_ids: Any, skip_special_tokens: bool = False) -> str:
        """The normalised text of ids (one, a list, or an array of rank 1)."""
        ids = token_ids.tolist() if hasattr(token_ids, "tolist") else token_ids
        ids = ids.numpy().tolist() if hasattr(ids, "numpy") else ids
        ids = [ids] if isinstance(ids, int) else ids
        return self.convert_tokens_to_string(self.convert_ids_to_tokens(ids, skip_special_tokens))

    def batch_decode(self, sequences: Any, skip_special_tokens: bool = False) -> list[str]:
        """The normalised texts of several rows of ids."""
        return [self.decode(sequence, skip_special_tokens) for sequence in sequences]

    def save_vocabulary(
        self, save_directory: str | os.PathLike[str], filename_prefix: str | None = None
    ) -> tuple[str]:
        """Writes the baked model as `[prefix-]spiece.model`, and returns its path in a tuple."""
        name = f"{filename_prefix}-spiece.model" if filename_prefix else "spiece.model"
        target = os.path.join(os.fspath(save_directory), name)
        with written_atomically(target, force=True) as path:
            path.write_bytes(self._model)
        return (target,)

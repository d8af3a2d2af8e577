"""The tokenizer's result: rows as named features, padded, and the origin of each position."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from albert_tf.errors import UserError
from albert_tf.text.call_arguments import PaddingStrategy
from albert_tf.text.rows import NO_TEXT, EncodedRow

Tensors = Literal["np", "tf", "pt"]
LONGEST = 1_000_000  # Hugging Face writes 1e30 where a tokenizer has no limit.
# The value of each feature at padded positions; `input_ids` get the padding token.
PADDING: dict[str, Any] = {
    "token_type_ids": 0,
    "attention_mask": 0,
    "special_tokens_mask": 1,
    "offset_mapping": NO_TEXT,
}


class CharSpan(NamedTuple):
    """Characters of a raw text, from `start` to before `end`."""

    start: int
    end: int


class Origins:
    """The text, word and characters of each position of padded rows.

    Args:
        rows: the rows without padding.
        detailed: makes the same rows with tokens, offsets and words; called on first use.
        lengths: the rows' lengths with padding.
        padding_side: "right" or "left".
    """

    def __init__(
        self,
        rows: Sequence[EncodedRow],
        detailed: Callable[[], Sequence[EncodedRow]],
        lengths: Sequence[int],
        padding_side: str,
    ):
        self._rows = rows
        self._make_detailed = detailed
        self._lengths = lengths
        self._padding_side = padding_side

    @cached_property
    def _detailed(self) -> Sequence[EncodedRow]:
        return self._make_detailed()

    def sequence_ids(self, row: int) -> list[int | None]:
        return self._padded(row, self._row(row).sequence_ids, None)

    def word_ids(self, row: int) -> list[int | None]:
        known = self._row(row)
        return self._padded(row, (known if known.has_words else self._detailed[row]).word_ids, None)

    def offsets(self, row: int) -> list[tuple[int, int]]:
        self._row(row)
        return self._padded(row, self._detailed[row].offset_mapping, NO_TEXT)

    def _row(self, row: int) -> EncodedRow:
        if not 0 <= row < len(self._rows):
            raise IndexError(
                f"The row must exist. Received: row {row} of {len(self._rows)}. Rows count from 0."
            )
        return self._rows[row]

    def _padded(self, row: int, values: list[Any], padding: Any) -> list[Any]:
        return pad(values, self._lengths[row], padding, self._padding_side)


class BatchEncoding(dict[str, Any]):
    """Named features, read as `encoding["input_ids"]` or `encoding.input_ids`.

    The methods return the origin of each position of a row. They work on the tokenizer's own
    result; a copied or unpickled encoding has only the features.

    Args:
        features: lists or arrays by name.
        origins: the origin of each position.
    """

    _origins: Origins | None = None

    def __init__(self, features: Mapping[str, Any], origins: Origins | None = None):
        super().__init__(features)
        self._origins = origins

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"There is no feature {name!r}. Received: {', '.join(self)}."
            ) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchEncoding, (dict(self),)

    def sequence_ids(self, batch_index: int = 0) -> list[int | None]:
        """Returns the text (0 or 1) of each position; None for special tokens and padding."""
        return self._known().sequence_ids(batch_index)

    def word_ids(self, batch_index: int = 0) -> list[int | None]:
        """Returns the index of each position's word; None for special tokens and padding.

        Words are those passed with `is_split_into_words`; otherwise the vocabulary's pieces decide
        where a word begins.
        """
        return self._known().word_ids(batch_index)

    def token_to_chars(
        self, batch_or_token_index: int, token_index: int | None = None
    ) -> CharSpan | None:
        """Returns the characters of a position; None for special tokens and padding.

        Takes `(row, position)`, or `(position)` for row 0.
        """
        row, position = _row_and(batch_or_token_index, token_index)
        if self.sequence_ids(row)[position] is None:
            return None
        return CharSpan(*self._known().offsets(row)[position])

    def char_to_token(
        self, batch_or_char_index: int, char_index: int | None = None, sequence_index: int = 0
    ) -> int | None:
        """Returns the first position that covers a character.

        Takes `(row, character)`, or `(character)` for row 0.

        Args:
            sequence_index: 0 for a character of the first text, 1 for one of the second.
        Returns:
            None for white space between pieces, and for truncated text.
        """
        row, character = _row_and(batch_or_char_index, char_index)
        offsets = self._known().offsets(row)
        for position, sequence in enumerate(self.sequence_ids(row)):
            start, end = offsets[position]
            if sequence == sequence_index and start <= character < end:
                return position
        return None

    def _known(self) -> Origins:
        if self._origins is None:
            raise ValueError(
                "Words and characters are known only for the tokenizer's own result. Received: an "
                "encoding from `pad`, a copy or a pickle. Call the method before that step."
            )
        return self._origins


def _row_and(first: int, second: int | None) -> tuple[int, int]:
    return (0, first) if second is None else (first, second)


def collect(rows: Sequence[EncodedRow], requested: Mapping[str, bool]) -> dict[str, list[Any]]:
    """Returns the requested features, each a list with one entry per row."""
    features: dict[str, list[Any]] = {}
    for name in (name for name, is_requested in requested.items() if is_requested):
        if name == "attention_mask":
            features[name] = [[1] * len(ids) for ids in features["input_ids"]]
        elif name == "overflow_to_sample_mapping":
            features[name] = [row.sample for row in rows]
        else:
            features[name] = [getattr(row, name) for row in rows]
    return features


def pad(row: list[Any], length: int, value: Any, side: str = "right") -> list[Any]:
    """Returns a row padded to `length` with `value`; a longer row is returned as it is."""
    padding = [value] * (length - len(row))
    return padding + row if side == "left" else row + padding


def padded_length(longest: int, jit_compile: bool) -> int:
    """Returns the length of a batch: that of its longest row, for XLA a multiple of 8.

    XLA compiles anew for each length; TensorFlow's own graphs take any.
    """
    return -(-longest // 8) * 8 if jit_compile else longest


def pad_rows(
    features: Mapping[str, list[Any]],
    strategy: PaddingStrategy,
    length: int,
    multiple_of: int | None = None,
    *,
    pad_id: int,
    side: str = "right",
) -> dict[str, list[Any]]:
    """Pads the rows of every feature to one length; other features are returned as they are.

    Args:
        features: by name, a list with one list per row, or one number per row.
        length: the length for "max_length". Longer rows are not truncated.
        multiple_of: multiple to round the length up to.
        pad_id: the padding token.
        side: "right" or "left".
    """
    if strategy == "do_not_pad":
        return dict(features)
    if strategy == "longest":
        length = max((len(row) for row in features["input_ids"]), default=0)
    elif length > LONGEST:
        raise ValueError(
            f"padding='max_length' requires a max_length. Received: {length}, the tokenizer's "
            "model_max_length, which means no limit."
        )
    if multiple_of:
        length = -(-length // multiple_of) * multiple_of
    values = {"input_ids": pad_id, **PADDING}
    return {
        name: [pad(row, length, values[name], side) for row in rows] if name in values else rows
        for name, rows in features.items()
    }


def as_tensors(features: Mapping[str, Sequence[Any]], kind: Tensors | None) -> dict[str, Any]:
    """Returns lists as int32 arrays of NumPy ("np") or TensorFlow ("tf"), int64 of torch ("pt").

    Raises:
        ValueError: rows of different lengths, or another kind.
    """
    if kind is None:
        return dict(features)
    if kind not in ("np", "tf", "pt"):
        raise ValueError(f"return_tensors must be None, 'np', 'tf' or 'pt'. Received: {kind!r}.")
    arrays = {name: _array(name, rows) for name, rows in features.items()}
    if kind == "np":
        return arrays
    if kind == "pt":
        return {name: _torch().from_numpy(array).long() for name, array in arrays.items()}
    import tensorflow as tf

    return {name: tf.constant(array) for name, array in arrays.items()}


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise UserError(
            "return_tensors='pt' needs torch. Received: none is installed. Install torch, or use "
            "'np', which models on every backend take."
        ) from error
    return torch


def _array(name: str, rows: Sequence[Any]) -> np.ndarray:
    is_padded = name == "input_ids" or name in PADDING
    lengths = {len(row) for row in rows} if rows and is_padded else set()
    if len(lengths) > 1:
        raise ValueError(
            "Rows must have the same length to become one array. "
            f"Received: {name} with lengths from {min(lengths)} to {max(lengths)}. "
            "Use padding=True, and truncation=True with a max_length."
        )
    return np.array(rows, dtype=np.int32)

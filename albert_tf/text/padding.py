"""Pads the features of a tokenizer call, and converts them to lists or tensors."""

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.errors import UserError
from albert_tf.text.layout import NO_LIMIT, Layout
from albert_tf.text.sequences import NO_TEXT, EncodedSequence, Positions, as_list

# The padding value of each feature. `input_ids` are padded with the padding token.
PADDING: Final[Mapping[str, Any]] = {
    "token_type_ids": 0,
    "attention_mask": 0,
    "special_tokens_mask": 1,
    "offset_mapping": NO_TEXT,
}


class RaggedRows(NamedTuple):
    """Concatenated rows of any length, and how to pad them.

    Attributes:
        values: int32 `[N]`, or `[N, 2]` for offsets.
        lengths: int64 `[S]`, the length of each row.
        width: length to which shorter rows are padded.
        padding: padding value.
        side: "right" or "left".
    """

    values: np.ndarray
    lengths: np.ndarray
    width: int = 0
    padding: Any = 0
    side: str = "right"

    @classmethod
    def of(cls, rows: Sequence[Sequence[Any]]) -> "RaggedRows":
        """Concatenates lists of numbers, or of pairs of numbers."""
        values = np.array(list(chain.from_iterable(rows)), np.int32)
        return cls(values, np.fromiter(map(len, rows), np.int64, len(rows)))

    def lists(self) -> list[list[Any]]:
        """Returns each row as a list."""
        values, ends = as_list(self.values), np.cumsum(self.lengths).tolist()
        rows = [values[start:end] for start, end in pairwise([0, *ends])]
        if not self.width:
            return rows
        return [pad(row, self.width, self.padding, self.side) for row in rows]

    def array(self) -> np.ndarray:
        """Returns the rows as int32 `[S, T]` or `[S, T, 2]`."""
        lengths = np.maximum(self.lengths, self.width)
        longest = int(lengths.max(initial=0))
        if (lengths < longest).any():
            raise ValueError(f"from {lengths.min()} to {longest}")
        shape = len(lengths), longest, *self.values.shape[1:]
        result = np.full(shape, self.padding, np.int32)
        columns, count = np.arange(longest), self.lengths[:, None]
        result[columns >= longest - count if self.side == "left" else columns < count] = self.values
        return result


def pad(values: list[Any], length: int, value: Any, side: str = "right") -> list[Any]:
    """Pads a sequence to `length` with `value`. Longer sequences don't change."""
    padding = [value] * (length - len(values))
    return padding + values if side == "left" else values + padding


def collect(sequences: Sequence[EncodedSequence], names: Sequence[str]) -> dict[str, Any]:
    """Returns features keyed by name, as `RaggedRows` or as a list with one number per sequence."""
    positions = Positions(sequences)
    return {
        name: [sequence.sample for sequence in sequences]
        if name == "overflow_to_sample_mapping"
        else RaggedRows(getattr(positions, name), positions.lengths)
        for name in names
    }


def pad_rows(features: Mapping[str, Any], layout: Layout, pad_id: int) -> dict[str, Any]:
    """Returns the features, with all `RaggedRows` set to be padded to the same length."""
    if layout.padding == "do_not_pad":
        return dict(features)
    if layout.padding == "longest":
        length = int(features["input_ids"].lengths.max(initial=0))
    elif (length := layout.length) > NO_LIMIT:
        raise ValueError(
            "padding='max_length' requires max_length for a tokenizer without a limit "
            f"(model_max_length={length})."
        )
    if multiple := layout.pad_to_multiple_of:
        length = -(-length // multiple) * multiple
    values = {"input_ids": pad_id, **PADDING}
    return {
        name: rows._replace(width=length, padding=values[name], side=layout.padding_side)
        if isinstance(rows, RaggedRows)
        else rows
        for name, rows in features.items()
    }


def pad_encodings(
    encoded_inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]], layout: Layout, pad_id: int
) -> dict[str, Any]:
    """Returns the padded features of encodings; see `TransformersTokenizer.pad`."""
    if not isinstance(encoded_inputs, Mapping):
        names = encoded_inputs[0] if encoded_inputs else ()
        encoded_inputs = {name: [single[name] for single in encoded_inputs] for name in names}
    if "input_ids" not in encoded_inputs:
        raise ValueError(
            "Padding requires encodings with input_ids. "
            f"Received: {', '.join(encoded_inputs) or 'none'}."
        )
    features = {name: _as_lists(values) for name, values in encoded_inputs.items()}
    is_single = bool(features["input_ids"]) and isinstance(features["input_ids"][0], int)
    if is_single:
        features = {name: [values] for name, values in features.items()}
    if "attention_mask" not in features and layout.return_attention_mask is not False:
        features["attention_mask"] = [[1] * len(ids) for ids in features["input_ids"]]
    rows = {
        name: RaggedRows.of(values) if name == "input_ids" or name in PADDING else values
        for name, values in features.items()
    }
    padded = as_tensors(pad_rows(rows, layout, pad_id), layout.return_tensors)
    if is_single and layout.return_tensors is None:
        return {name: values[0] for name, values in padded.items()}
    return padded


def _as_lists(values: Any) -> list[Any]:
    """Converts an array, a tensor, or a sequence of arrays to lists."""
    if hasattr(values, "numpy"):
        values = values.numpy()
    return [value.tolist() if hasattr(value, "tolist") else value for value in values]


def as_tensors(features: Mapping[str, Any], framework: str | None) -> dict[str, Any]:
    """Converts features to the tensors of a framework, or to lists if `framework` is None.

    NumPy arrays ("np") and TensorFlow tensors ("tf") are int32, and torch tensors ("pt") int64.
    """
    if framework is None:
        return {
            name: rows.lists() if isinstance(rows, RaggedRows) else rows
            for name, rows in features.items()
        }
    arrays = {name: _array(name, rows) for name, rows in features.items()}
    if framework == "np":
        return arrays
    if framework == "tf":
        import tensorflow as tf

        return {name: tf.constant(array) for name, array in arrays.items()}
    try:
        import torch
    except ImportError as error:
        raise UserError(
            "return_tensors='pt' requires torch, which isn't installed. Install torch, or use "
            "'np', which models accept on every backend."
        ) from error
    return {name: torch.from_numpy(array).long() for name, array in arrays.items()}


def _array(name: str, rows: RaggedRows | Sequence[Any]) -> np.ndarray:
    try:
        return rows.array() if isinstance(rows, RaggedRows) else np.array(rows, dtype=np.int32)
    except (TypeError, ValueError) as error:
        way_out = "Use padding=True, and truncation=True with a max_length."
        lengths = str(error)
        if not isinstance(rows, RaggedRows):  # labels, which the tokenizer doesn't pad
            lengths = ", ".join(map(str, sorted({np.size(row) for row in rows})))
            way_out = "Pad them with -100."
        raise ValueError(
            "Sequences of different lengths can't be converted to an array. "
            f"Received: {name} with lengths {lengths}. {way_out}"
        ) from None

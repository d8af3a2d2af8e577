"""Encoded examples, and their padded batches."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from albert_tf.tasks import ATTENTION_MASK, INPUT_IDS
from albert_tf.text.encoding import padded_length

IGNORED: Final = -100  # label of a position that doesn't count

logger = logging.getLogger(__name__)


class Rows:
    """Encoded examples without padding, and their labels.

    Args:
        arrays: for each row, by name: `input_ids` and `token_type_ids`, `[T]` or for choices
            `[C, T]`, and further features of this shape. Choices have an `attention_mask`, because
            they differ in length; other rows are all attended.
        labels: for each row, by the model's targets: a number or an array; without any for rows
            that aren't labelled.
        pad_id: id of `<pad>`.
        examples: the example of each row, `[N]`; None where each example is one row. A long text
            may be several rows.
        label_inputs: targets that training passes to the model, too.
        tags: whether a row's label is an array `[T]`, which is padded as the features are.
        details: for each row, data that reading the model's outputs needs.
    Attributes:
        lengths: int `[N]`, T of each row.
        cut: rows that had more tokens than fit.
    """

    def __init__(
        self,
        arrays: Mapping[str, Sequence[Any]],
        labels: Mapping[str, Sequence[Any]],
        pad_id: int,
        examples: Sequence[int] | None = None,
        label_inputs: Sequence[str] = (),
        tags: bool = False,
        details: Sequence[Any] = (),
    ):
        self.arrays = {
            name: [np.asarray(row, "int32") for row in rows] for name, rows in arrays.items()
        }
        self.labels = {name: [_label(row) for row in rows] for name, rows in labels.items()}
        self._ids = self.arrays[INPUT_IDS.name]
        self.lengths = np.array([row.shape[-1] for row in self._ids])
        self.examples = np.arange(len(self)) if examples is None else np.asarray(examples)
        self.label_inputs, self._tags = tuple(label_inputs), tags
        self.details, self.cut = details, 0
        self._fills = {INPUT_IDS.name: pad_id}

    def warn_of_cut(self, max_length: int) -> None:
        """Says how many rows don't have all of their texts."""
        if self.cut:
            logger.warning(
                "%d of %d texts have more than %d tokens and are cut; a larger max_length reads "
                "more, up to the model's positions.",
                *(self.cut, len(self), max_length),
            )

    def __len__(self) -> int:
        return len(self._ids)

    def batch(
        self, rows: np.ndarray, jit_compile: bool = False
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Returns features `[B, T]` or `[B, C, T]` padded to the longest row, and labels.

        With `jit_compile` T is rounded up (`padded_length`), at most to the longest of all rows:
        the model may have no position beyond it. Padding has the mask 0, and the label -100.
        """
        length = self._length(rows, jit_compile)
        labels = {
            name: _padded([values[row] for row in rows], IGNORED, length if self._tags else None)
            for name, values in self.labels.items()
        }
        inputs = self.inputs(rows, jit_compile)
        return {**inputs, **{name: labels[name] for name in self.label_inputs}}, labels

    def inputs(self, rows: np.ndarray, jit_compile: bool = False) -> dict[str, np.ndarray]:
        """Returns the features of `batch` without labels."""
        arrays = {name: [values[row] for row in rows] for name, values in self.arrays.items()}
        arrays.setdefault(ATTENTION_MASK.name, [np.ones_like(self._ids[row]) for row in rows])
        length = self._length(rows, jit_compile)
        return {
            name: _padded(values, self._fills.get(name, 0), length)
            for name, values in arrays.items()
        }

    def _length(self, rows: np.ndarray, jit_compile: bool) -> int:
        length = padded_length(int(self.lengths[rows].max()), jit_compile)
        return min(length, int(self.lengths.max()))


def _label(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array.astype("float32" if array.dtype.kind == "f" else "int32")


def _padded(values: Sequence[np.ndarray], fill: int, length: int | None) -> np.ndarray:
    """Stacks arrays of one rank; fills each axis up to its longest, and the last to `length`."""
    shape = np.max([value.shape for value in values], axis=0, initial=0).astype(int)
    if length is not None:
        shape[-1] = length
    stacked = np.full((len(values), *shape), fill, values[0].dtype)
    for row, value in enumerate(values):
        place: Any = (row, *map(slice, value.shape))
        stacked[place] = value
    return stacked

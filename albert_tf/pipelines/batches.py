"""Rows of ids through a model, a batch at a time."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np

MULTIPLE: Final = 8  # Rows are padded to multiples of this, so that graphs are traced seldom.
POSITIONS: Final = "masked_lm_positions"


class Row(NamedTuple):
    """One row for a model.

    Attributes:
        features: lists by name, of one length but for `masked_lm_positions`.
        details: what its task wants to know of it again.
    """

    features: dict[str, Sequence[int]]
    details: Any = None

    @property
    def length(self) -> int:
        """Its places, before padding."""
        return len(self.features["input_ids"])


def outputs(
    model: Any, rows: Iterable[Row], batch_size: int, pad_id: int
) -> Iterator[dict[str, np.ndarray]]:
    """A model's outputs for each row, in order; a batch is computed when its first is asked for."""
    stream = iter(rows)
    longest = model.config.max_position_embeddings
    while batch := list(islice(stream, batch_size)):
        found = model.predict_on_batch(padded(batch, longest, pad_id))
        for place in range(len(batch)):
            yield {name: values[place] for name, values in found.items()}


def padded(rows: Sequence[Row], longest: int, pad_id: int) -> dict[str, np.ndarray]:
    """Rows as int32 arrays `[B, T]`, padded on the right, with an `attention_mask`.

    Args:
        longest: T doesn't exceed it by the padding.
        pad_id: the padding token.
    """
    length = min(_rounded(max(row.length for row in rows)), longest)
    arrays = {
        name: _filled([row.features[name] for row in rows], length, fill)
        for name, fill in (("input_ids", pad_id), ("token_type_ids", 0))
    }
    ones = [np.ones(row.length, "int32") for row in rows]
    arrays["attention_mask"] = _filled(ones, length, 0)
    if POSITIONS in rows[0].features:
        positions = [row.features[POSITIONS] for row in rows]
        arrays[POSITIONS] = _filled(positions, max(map(len, positions)), 0)
    return arrays


def _rounded(length: int) -> int:
    return -(-length // MULTIPLE) * MULTIPLE


def _filled(rows: Sequence[Any], length: int, fill: int) -> np.ndarray:
    array = np.full((len(rows), length), fill, "int32")
    for place, row in enumerate(rows):
        array[place, : len(row)] = row
    return array

"""The array operations of masking, in NumPy. `tf_ops` has the same ones in TensorFlow.

The processes that build data have no room for TensorFlow (0.5 GB each), and a `tf.data` pipeline
that runs on a TPU's host or in a data service can't call NumPy. So masking is written once, over
one of these two modules.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

all, any, max, sum, shape, round = np.all, np.any, np.max, np.sum, np.shape, np.rint
maximum, minimum, take, where = np.maximum, np.minimum, np.take, np.where


def arange(stop: int) -> np.ndarray:
    """int32 `[stop]`: 0, 1, …"""
    return np.arange(stop, dtype=np.int32)


def argsort(values: np.ndarray) -> np.ndarray:
    """int32, like `values` `[R, K]`: the places of each row in order of their values, ties too."""
    return np.argsort(values, axis=1, kind="stable").astype(np.int32)


def cast(values: Any, dtype: Any) -> np.ndarray:
    """`values` as an array of `dtype`."""
    return np.asarray(values).astype(dtype, copy=False)


def cumsum(values: np.ndarray) -> np.ndarray:
    """int32, like `values` `[R, K]`: sums up to and with each place of a row."""
    return np.cumsum(values, axis=1, dtype=np.int32)


def gather(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """From each row of `values` `[R, K]` those at `places` `[R, L]`."""
    return values[np.arange(len(values))[:, None], places]


def scatter(values: np.ndarray, places: np.ndarray, new: np.ndarray) -> np.ndarray:
    """`values` `[R, K]` with `new` at `places`, both `[R, L]`; may overwrite `values`."""
    values[np.arange(len(values))[:, None], places] = new
    return values


def positions(chosen: np.ndarray, width: int | None = None) -> np.ndarray:
    """int32 `[R, width]`: where `chosen` `[R, K]` is true in each row, then 0.

    Without a width it is that of the fullest row.
    """
    row, position = np.nonzero(chosen)
    counts = chosen.sum(axis=1)
    number = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    found = np.zeros((len(counts), counts.max(initial=0) if width is None else width), np.int32)
    found[row, number] = position
    return found


def shift_right(values: np.ndarray, bits: int) -> np.ndarray:
    """`values >> bits`, of uint64."""
    return values >> np.uint64(bits)


def while_loop(condition: Callable[..., Any], body: Callable[..., Any], variables: Any) -> Any:
    """The variables after as many rounds of `body` as `condition` wants."""
    while condition(*variables):
        variables = body(*variables)
    return variables

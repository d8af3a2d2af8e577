"""Array operations for masking, in NumPy. `tf_ops` implements the same operations in TensorFlow.

The masking code is written once and receives one of these two modules as `xp`. The worker processes
of `build-data` should not load TensorFlow (0.5 GB each), and a `tf.data` pipeline on a TPU host or
in the tf.data service can't call NumPy.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

any, max, sum, shape, round = np.any, np.max, np.sum, np.shape, np.rint
cast, maximum, minimum, shift_right = np.asarray, np.maximum, np.minimum, np.right_shift
take, where = np.take, np.where


def arange(stop: int) -> np.ndarray:
    """Returns the numbers below `stop`: int32 `[stop]`."""
    return np.arange(stop, dtype=np.int32)


def argsort(values: np.ndarray) -> np.ndarray:
    """Returns the indices that sort each row of `values` `[R, K]` stably: int32 `[R, K]`."""
    return np.argsort(values, axis=1, kind="stable").astype(np.int32)


def cumsum(values: np.ndarray) -> np.ndarray:
    """Returns the cumulative sums of each row of `values` `[R, K]`: int32 `[R, K]`."""
    return np.cumsum(values, axis=1, dtype=np.int32)


def gather(values: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Returns the elements of each row of `values` `[R, K]` at `indices` `[R, L]`."""
    return values[np.arange(len(values))[:, None], indices]


def scatter(values: np.ndarray, indices: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Returns `values` `[R, K]` with `new` at `indices` (both `[R, L]`). May modify `values`."""
    values[np.arange(len(values))[:, None], indices] = new
    return values


def positions(chosen: np.ndarray, width: int | None = None) -> np.ndarray:
    """Returns the positions where each row of `chosen` `[R, K]` is true: int32 `[R, width]`.

    Rows are padded with 0. By default, `width` is the maximum number of positions per row.
    """
    row, position = np.nonzero(chosen)
    counts = chosen.sum(axis=1)
    number = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    result = np.zeros((len(counts), counts.max(initial=0) if width is None else width), np.int32)
    result[row, number] = position
    return result


def while_loop(condition: Callable[..., Any], body: Callable[..., Any], variables: Any) -> Any:
    """Updates the variables with `body` while `condition` is true, and returns them."""
    while condition(*variables):
        variables = body(*variables)
    return variables

"""Checks ids once, in the outermost eager call, before they move to a device.

A check inside a layer would copy ids back from the device at every lookup, and make torch wait for
all work queued before it. In graphs, whose values aren't known while tracing, `rows_at` leaves it
to the lookup itself.
"""

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Final

import keras
import numpy as np
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.common import Tensor

# For each input, the field of the configuration that its values stay below; in the order of
# `FactorizedEmbedding.call`.
LIMITS: Final = {
    "input_ids": "vocab_size",
    "token_type_ids": "type_vocab_size",
    "position_ids": "max_position_embeddings",
}
_inside: ContextVar[bool] = ContextVar("inside a call whose ids are checked", default=False)


@contextlib.contextmanager
def checked_ids(
    config: AlbertConfig, inputs: Mapping[str, Tensor], length: int | None = None
) -> Iterator[None]:
    """Checks the ids among `inputs`; calls within this context don't check again.

    Args:
        config: has the limits.
        inputs: a call's inputs by name; None and symbolic tensors pass.
        length: number of pieces in a row, which `masked_lm_positions` stay below.
    Raises:
        ValueError: an id lies outside its table.
    """
    if _inside.get():
        yield
        return
    for name, limit in LIMITS.items():
        hint = "Do the tokenizer and the model belong together?"
        _check_range(inputs.get(name), name, limit, getattr(config, limit), hint)
    _check_range(
        inputs.get("masked_lm_positions"), "masked_lm_positions", "length", length, "Pad with 0."
    )
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)


def rows_at(table: Tensor, ids: Tensor, batch_dims: int = 0) -> Tensor:
    """Returns the rows of `table` at int32 `ids`, which must lie within it.

    Keras' `take` reads -1 as the last row. Here an id outside the table, negative ones included, is
    an error on TensorFlow's and LiteRT's CPU kernels and on torch, gives NaN on JAX, and zeros on
    TensorFlow's GPU kernel; XLA takes the nearest row.

    Args:
        table: `[N, E]`, or `[B, N, E]` with `batch_dims=1`.
        ids: `[B, T]`.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.gather(table, ids, batch_dims=batch_dims)
    outside = ops.shape(table)[batch_dims]
    ids = ops.where(ids < 0, outside, ids)
    if batch_dims:
        return ops.take_along_axis(table, ops.expand_dims(ids, -1), axis=1)
    return ops.take(table, ids, axis=0)


def _check_range(values: Tensor, name: str, limit: str, size: int | None, hint: str) -> None:
    known = known_values(values) if isinstance(size, int) else None
    if known is not None and known.size and (known.min() < 0 or known.max() >= size):
        raise ValueError(
            f"{name} must lie in [0, {limit}). "
            f"Received values from {known.min()} to {known.max()}, {limit}={size}. {hint}"
        )


def known_values(values: Tensor) -> np.ndarray | None:
    """`values` as an array, or None where there are none or a graph is being traced."""
    if values is None or isinstance(values, np.ndarray):
        return values
    try:
        return ops.convert_to_numpy(values)
    except (NotImplementedError, TypeError, ValueError, AttributeError):
        return None

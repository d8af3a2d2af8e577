"""A function that a graph applies many times is traced once, as its weights exist once."""

from collections.abc import Callable
from typing import Any, Final

import keras

# With fewer calls, tracing a function and its gradient takes longer than tracing each call.
_CALLS: Final = 4


def traced_once(function: Callable[..., Any], calls: int) -> Callable[..., Any]:
    """Returns the function in a form that a TensorFlow graph traces once and calls many times.

    Otherwise, the graph of `fit` would contain the block of ALBERT and its gradient once per layer,
    and be traced for as long. Eager mode, JAX, and torch call the function as it is.

    Args:
        function: takes and returns tensors. It must not change variables, so it can't draw seeds.
        calls: number of calls. A function that is called only a few times is returned unchanged.
    """
    if keras.backend.backend() != "tensorflow" or calls < _CALLS:
        return function
    import tensorflow as tf

    return function if tf.executing_eagerly() else tf.function(function, autograph=False)

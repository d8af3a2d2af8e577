"""Traces a function only once, even if a TensorFlow graph calls it many times."""

from collections.abc import Callable
from typing import Any, Final

import keras

# For fewer calls, tracing each call is faster than tracing a function and its gradient.
_CALLS: Final = 4


def traced_once(function: Callable[..., Any], calls: int) -> Callable[..., Any]:
    """Returns the function in a form that a TensorFlow graph traces once and calls many times.

    Otherwise, the graph of `fit` would contain the block of ALBERT and its gradient once per layer,
    which takes two to three times as long to trace. In eager mode, and on JAX and torch, the
    function is returned unchanged.

    Args:
        function: takes and returns tensors. It must not change variables (for example, draw seeds)
            or add losses.
        calls: number of calls. With fewer than four, the function is returned unchanged.
    """
    if keras.backend.backend() != "tensorflow" or calls < _CALLS:
        return function
    import tensorflow as tf

    return function if tf.executing_eagerly() else tf.function(function, autograph=False)

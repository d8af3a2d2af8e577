"""`draws` as TensorFlow's graph operators: the same numbers for the same keys, bit by bit.

`tf.random.stateless_uniform` takes one seed for a tensor. To be independent of what rows are
together in a batch, each row needs a seed of its own, thus a loop over rows; this needs none.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.data.pretraining.draws import FIRST, MANTISSA, SECOND, STEP


def child(keys: Any, *numbers: Any) -> tf.Tensor:
    """uint64 keys of parts: of `keys`, the parts that `numbers` (all broadcast) name.

    Args:
        keys: uint64 tensor, or a Python int.
        numbers: integer tensors, or Python ints, 0 or more.
    """
    result = tf.convert_to_tensor(keys, tf.uint64)
    for number in numbers:
        result = _mixed(result + (tf.cast(number, tf.uint64) + np.uint64(1)) * STEP)
    return result


def uniform(keys: tf.Tensor, stream: int, count: Any) -> tf.Tensor:
    """float64 `[R, count]` in [0, 1) for `keys` uint64 `[R]`; `count` may be a tensor."""
    numbers = child(child(keys, stream)[:, None], tf.range(tf.cast(count, tf.int64)))
    return tf.cast(_shifted(numbers, 11), tf.float64) * MANTISSA


def order(key: Any, count: Any) -> tf.Tensor:
    """int32 `[count]`: the numbers below `count` in an order that `key`, a scalar, decides."""
    return tf.argsort(uniform(tf.reshape(key, [1]), 0, count)[0], stable=True)


def _mixed(state: tf.Tensor) -> tf.Tensor:
    state = tf.bitwise.bitwise_xor(state, _shifted(state, 30)) * FIRST
    state = tf.bitwise.bitwise_xor(state, _shifted(state, 27)) * SECOND
    return tf.bitwise.bitwise_xor(state, _shifted(state, 31))


def _shifted(state: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.right_shift(state, tf.constant(bits, tf.uint64))

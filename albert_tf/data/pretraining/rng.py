"""Random numbers that are pure functions of their names: the same on every machine and version.

A key names what its numbers are for (a seed, a document, a copy, a row); the numbers are the stream
of splitmix64 that starts at the key (Steele, Lea and Flood, Fast splittable pseudorandom number
generators, OOPSLA 2014). NumPy's generators don't promise the same numbers in every version (NEP
19), and both they and TensorFlow's stateless ones would need a loop over the rows of a batch.

`xp` is the module of array operations: `numpy_ops` (NumPy) or `tf_ops` (TensorFlow).
"""

import hashlib
from typing import Any, Final

import numpy as np

from albert_tf.data.pretraining import numpy_ops

STEP: Final = np.uint64(0x9E3779B97F4A7C15)
FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
SECOND: Final = np.uint64(0x94D049BB133111EB)
MANTISSA: Final = 2.0**-53


def key(*names: int | str) -> int:
    """Returns a 64-bit key for these names, in this order."""
    named = "\0".join(f"{type(name).__name__}:{name}" for name in names)
    digest = hashlib.blake2b(named.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def fold_in(keys: Any, *numbers: Any, xp: Any = numpy_ops) -> Any:
    """Folds numbers into keys, and returns the new keys: uint64, broadcast.

    Args:
        keys: uint64, or a Python int.
        numbers: integers, 0 or more.
    """
    with np.errstate(over="ignore"):  # wraps around at 2**64
        result = xp.cast(keys, np.uint64)
        for number in numbers:
            result = _mixed(result + (xp.cast(number, np.uint64) + np.uint64(1)) * STEP, xp)
        return result


def uniform(keys: Any, stream: int, indices: Any, xp: Any = numpy_ops) -> Any:
    """Returns float64 numbers in [0, 1), `[R, K]`, for keys `[R]` and indices `[K]` or `[R, K]`.

    The streams of a key are independent of each other.
    """
    numbers = fold_in(fold_in(keys, stream, xp=xp)[:, None], indices, xp=xp)
    return xp.cast(xp.shift_right(numbers, 11), np.float64) * MANTISSA


def _mixed(state: Any, xp: Any) -> Any:
    state = (state ^ xp.shift_right(state, 30)) * FIRST
    state = (state ^ xp.shift_right(state, 27)) * SECOND
    return state ^ xp.shift_right(state, 31)

"""Random numbers that are pure functions of a key, the same on every machine and in every version.

A key is derived from values that identify its use, such as a seed, a document, and a row. Its
numbers are the splitmix64 stream that starts at the key (Steele, Lea, and Flood, "Fast splittable
pseudorandom number generators", OOPSLA 2014). NumPy's random numbers may change between
versions (NEP 19). With NumPy's generators or TensorFlow's stateless ones, masking would need a loop
over the rows of a batch.

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
    """Returns a 64-bit key for a sequence of names."""
    text = "\0".join(f"{type(name).__name__}:{name}" for name in names)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def fold_in(keys: Any, *numbers: Any, xp: Any = numpy_ops) -> Any:
    """Derives new keys from keys and numbers: uint64, of the broadcast shape.

    Args:
        keys: uint64, or a Python int.
        *numbers: non-negative integers.
    """
    state = xp.cast(keys, np.uint64)
    with np.errstate(over="ignore"):  # wraps around at 2**64
        for number in numbers:
            state = state + (xp.cast(number, np.uint64) + np.uint64(1)) * STEP
            state = (state ^ xp.shift_right(state, 30)) * FIRST
            state = (state ^ xp.shift_right(state, 27)) * SECOND
            state = state ^ xp.shift_right(state, 31)
    return state


def uniform(keys: Any, stream: Any, indices: Any, xp: Any = numpy_ops) -> Any:
    """Returns uniform random numbers in [0, 1): float64 `[R, K]`.

    The streams of a key are independent of each other.

    Args:
        keys: uint64 `[R]`.
        stream: stream number, or an array `[K]` of stream numbers.
        indices: `[K]` or `[R, K]`, indices into the stream.
    """
    numbers = fold_in(keys[:, None], stream, indices, xp=xp)
    return xp.cast(xp.shift_right(numbers, 11), np.float64) * MANTISSA

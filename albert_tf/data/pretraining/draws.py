"""Random numbers that are pure functions of their names: the same on every machine, for ever.

A key names what is drawn for (a seed, a document, a copy, a row); the numbers of a key are
splitmix64's stream from there (Steele, Lea and Flood, Fast splittable pseudorandom number
generators, OOPSLA 2014). NumPy's own generators give no such promise across versions
(NumPy's NEP 19), and would have to be made anew for each row.
"""

import hashlib
from typing import Any, Final

import numpy as np

STEP: Final = np.uint64(0x9E3779B97F4A7C15)
FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
SECOND: Final = np.uint64(0x94D049BB133111EB)
MANTISSA: Final = 2.0**-53


def key(*parts: int | str) -> int:
    """A 64-bit key for these names, in this order."""
    named = "\0".join(f"{type(part).__name__}:{part}" for part in parts)
    digest = hashlib.blake2b(named.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def child(keys: Any, *numbers: Any) -> np.ndarray:
    """uint64 keys of parts: of `keys`, the parts that `numbers` (all broadcast) name."""
    with np.errstate(over="ignore"):
        result = np.asarray(keys, np.uint64)
        for number in numbers:
            result = _mixed(result + (np.asarray(number, np.uint64) + np.uint64(1)) * STEP)
        return result


def uniform(keys: np.ndarray, stream: int, count: int) -> np.ndarray:
    """float64 `[R, count]` in [0, 1) for `keys` `[R]`; streams of a key have nothing in common."""
    return Uniform(keys, stream)[np.arange(len(keys))[:, None], np.arange(count)]


class Uniform:
    """`uniform` of any count, of which only what is asked for is computed.

    Args:
        keys: uint64 `[R]`.
        stream: of draws.
    """

    def __init__(self, keys: np.ndarray, stream: int):
        self._keys = child(keys, stream)

    def __getitem__(self, place: tuple[Any, Any]) -> np.ndarray:
        """float64 in [0, 1) for rows and places (both broadcast), as an array would give it."""
        row, at = place
        return (child(self._keys[row], at) >> np.uint64(11)) * MANTISSA


def _mixed(state: np.ndarray) -> np.ndarray:
    state = (state ^ (state >> np.uint64(30))) * FIRST
    state = (state ^ (state >> np.uint64(27))) * SECOND
    return state ^ (state >> np.uint64(31))

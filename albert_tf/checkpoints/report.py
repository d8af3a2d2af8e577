"""Checksums by which checkpoints of different formats can be compared."""

import hashlib
import json
from collections.abc import Mapping

import numpy as np


def checksum(tensor: np.ndarray) -> str:
    """SHA-256 of a tensor's values as little-endian float32 in row-major order, in hexadecimal."""
    return hashlib.sha256(_content(tensor)).hexdigest()


def digest(tensors: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over all tensors: the same for the same weights, whatever the format.

    Goes over the names (Hugging Face's, without "albert.") in alphabetical order: the JSON text of
    `[name, [length, …]]` without spaces, a zero byte, then the values as in `checksum`.

    Args:
        tensors: by name, in Hugging Face's orientation.
    """
    total = hashlib.sha256()
    for name in sorted(tensors):
        head = json.dumps([name, list(tensors[name].shape)], separators=(",", ":"))
        total.update(head.encode() + b"\0")
        total.update(_content(tensors[name]))
    return total.hexdigest()


def _content(tensor: np.ndarray) -> bytes:
    return np.asarray(tensor, "<f4").tobytes()

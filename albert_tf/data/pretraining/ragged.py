"""Rows of different lengths, one after another in a flat array."""

import numpy as np


def numbers_within(counts: np.ndarray) -> np.ndarray:
    """int `[sum of counts]`: for each row 0, 1, … up to before its count."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)

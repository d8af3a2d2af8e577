"""Converts logits to probabilities with NumPy, because importing `scipy.special` is slow."""

from typing import Any

import numpy as np


def softmax(logits: Any, axis: int | None = None) -> Any:
    """Returns the softmax of `logits` over `axis`, or over all axes if it is None."""
    exponentials = np.exp(logits - np.max(logits, axis=axis, keepdims=True))
    return exponentials / np.sum(exponentials, axis=axis, keepdims=True)


def sigmoid(logits: Any) -> Any:
    """Computes `1 / (1 + exp(-logits))` without overflow."""
    return np.exp(-np.logaddexp(0, -np.asarray(logits)))

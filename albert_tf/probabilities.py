"""Logits to probabilities, in NumPy: importing `scipy.special` takes longer than one answer."""

from typing import Any

import numpy as np


def softmax(logits: Any, axis: int | None = None) -> Any:
    """Returns probabilities of the shape of `logits`, which sum to 1 over `axis`, or over all."""
    exponentials = np.exp(logits - np.max(logits, axis=axis, keepdims=True))
    return exponentials / np.sum(exponentials, axis=axis, keepdims=True)


def sigmoid(logits: Any) -> Any:
    """Returns `1 / (1 + exp(-logits))`, without overflow."""
    return np.exp(-np.logaddexp(0, -np.asarray(logits)))

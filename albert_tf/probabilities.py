"""Converts logits to probabilities with NumPy, because importing `scipy.special` is slow.

Also checks the outputs from which predictions are made.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.errors import UserError


def reject_nan(outputs: Mapping[str, np.ndarray]) -> None:
    """Raises UserError if one of a model's outputs contains NaN."""
    if any(np.isnan(values).any() for values in outputs.values()):
        raise UserError(
            "The model's outputs are NaN: its weights are damaged, or its training diverged. "
            "Use another checkpoint, or train with a lower learning rate."
        )


def softmax(logits: Any, axis: int | None = None) -> Any:
    """Returns the softmax of `logits` over `axis`, or over all axes if it is None."""
    exponentials = np.exp(logits - np.max(logits, axis=axis, keepdims=True))
    return exponentials / np.sum(exponentials, axis=axis, keepdims=True)


def sigmoid(logits: Any) -> Any:
    """Computes `1 / (1 + exp(-logits))` without overflow."""
    return np.exp(-np.logaddexp(0, -np.asarray(logits)))

"""What callers give the layer, as batches of strings."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.text.segmenter import as_text


def segments(inputs: Any) -> Sequence[Any]:
    """One batch of texts, or two; a saved Keras model gives back a tuple of tensors as a list."""
    is_pair = isinstance(inputs, tuple) or (
        isinstance(inputs, list) and bool(inputs) and all(map(tf.is_tensor, inputs))
    )
    if is_pair and len(inputs) not in (1, 2):
        raise ValueError(f"Pairs must be two batches of texts. Received: {len(inputs)} of them.")
    return inputs if is_pair else (inputs,)


def strings(texts: Any) -> tf.Tensor:
    """A string tensor `[B]`; from Python and NumPy without losing NULs at the end of bytes."""
    if not tf.is_tensor(texts):
        texts = tf.constant([_utf8(text) for text in _listed(texts)], tf.string)
    if texts.dtype != tf.string or texts.shape.rank != 1:
        raise ValueError(
            "Texts must be strings of shape [B]. "
            f"Received: dtype {texts.dtype.name}, shape {texts.shape}. Batch single texts first."
        )
    return texts


def _listed(texts: Any) -> Sequence[str | bytes]:
    if isinstance(texts, np.ndarray) and texts.ndim == 1:
        return texts.tolist()
    if isinstance(texts, list):
        return texts
    raise ValueError(
        "Texts must be a tensor, an array or a list of strings, of shape [B]. "
        f"Received: {texts!r}. Put a single text in a list; a tuple is a pair of batches."
    )


def _utf8(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else as_text(text).encode("utf-8")

"""What the tokenizer returns: named lists or arrays, padded alike."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from albert_tf.text.rows import Row
from albert_tf.text.special_tokens import PAD_ID

PaddingStrategy = Literal["longest", "max_length", "do_not_pad"]
Tensors = Literal["np", "tf"]
LONGEST = 1_000_000  # Hugging Face writes 1e30 where a tokenizer has no limit.
# What stands at padded places; offsets have none of the text.
PADDING: dict[str, Any] = {
    "input_ids": PAD_ID,
    "token_type_ids": 0,
    "attention_mask": 0,
    "special_tokens_mask": 1,
    "offset_mapping": (0, 0),
}


class BatchEncoding(dict[str, Any]):
    """Named features, read as `encoding["input_ids"]` or `encoding.input_ids`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"There is no feature {name!r}. Received: {', '.join(self)}."
            ) from None


def collect(rows: Sequence[Row], asked: Mapping[str, bool]) -> dict[str, list]:
    """The features asked for, each a list with one entry a row."""
    features: dict[str, list] = {
        "input_ids": [row.input_ids for row in rows],
        "token_type_ids": [row.token_type_ids for row in rows],
        "attention_mask": [[1] * len(row.input_ids) for row in rows],
        "special_tokens_mask": [row.special_tokens_mask for row in rows],
        "offset_mapping": [row.offset_mapping for row in rows],
        "overflow_to_sample_mapping": [row.sample for row in rows],
    }
    return {name: values for name, values in features.items() if asked[name]}


def padding_strategy(padding: bool | str) -> PaddingStrategy:
    """Hugging Face's `padding` argument as one word.

    Raises:
        ValueError: none of its values.
    """
    names: dict[bool | str, PaddingStrategy] = {
        True: "longest",
        False: "do_not_pad",
        "longest": "longest",
        "max_length": "max_length",
        "do_not_pad": "do_not_pad",
    }
    if padding not in names:
        raise ValueError(
            "padding must be True, False, 'longest', 'max_length' or 'do_not_pad'. "
            f"Received: {padding!r}."
        )
    return names[padding]


def pad_rows(
    features: Mapping[str, list],
    strategy: PaddingStrategy,
    length: int,
    multiple_of: int | None = None,
) -> dict[str, list]:
    """Brings the rows of every feature to one length; features without places stay as they are.

    Args:
        features: by name, a list with one list a row, or one number a row.
        length: the length for "max_length". A longer row stays as it is.
        multiple_of: round the length up to a multiple of this.
    """
    if strategy == "do_not_pad":
        return dict(features)
    if strategy == "longest":
        length = max((len(row) for row in features["input_ids"]), default=0)
    elif length > LONGEST:
        raise ValueError(
            f"padding='max_length' must be given a max_length. Received: {length}, the tokenizer's "
            "model_max_length, which stands for no limit."
        )
    if multiple_of:
        length = -(-length // multiple_of) * multiple_of
    return {
        name: [row + [PADDING[name]] * (length - len(row)) for row in rows]
        if name in PADDING
        else rows
        for name, rows in features.items()
    }


def as_tensors(features: Mapping[str, Sequence], kind: Tensors | None) -> dict[str, Any]:
    """Lists as int32 arrays of NumPy ("np") or TensorFlow ("tf").

    Raises:
        ValueError: rows of different lengths, or another kind.
    """
    if kind is None:
        return dict(features)
    if kind not in ("np", "tf"):
        raise ValueError(f"return_tensors must be None, 'np' or 'tf'. Received: {kind!r}.")
    arrays = {name: _array(name, rows) for name, rows in features.items()}
    if kind == "np":
        return arrays
    import tensorflow as tf

    return {name: tf.constant(array) for name, array in arrays.items()}


def _array(name: str, rows: Sequence) -> np.ndarray:
    lengths = {len(row) for row in rows} if rows and name in PADDING else set()
    if len(lengths) > 1:
        raise ValueError(
            "Rows must be equally long to become one array. "
            f"Received: {name} with lengths from {min(lengths)} to {max(lengths)}. "
            "Use padding=True, and truncation=True with a max_length."
        )
    return np.array(rows, dtype=np.int32)

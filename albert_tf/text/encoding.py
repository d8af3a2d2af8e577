"""What the tokenizer returns: named lists or arrays, padded alike."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from albert_tf.text.padding import PADDING
from albert_tf.text.places import CharSpan, Places
from albert_tf.text.rows import Row

Tensors = Literal["np", "tf"]


class BatchEncoding(dict[str, Any]):
    """Named features, read as `encoding["input_ids"]` or `encoding.input_ids`.

    The methods tell where each place of a row comes from. They need the tokenizer's own result:
    a copy, or one that was pickled, has the features alone.

    Args:
        features: by name.
        places: where each place comes from.
    """

    _places: Places | None = None

    def __init__(self, features: Mapping[str, Any], places: Places | None = None):
        super().__init__(features)
        self._places = places

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"There is no feature {name!r}. Received: {', '.join(self)}."
            ) from None

    def __reduce__(self) -> tuple:
        return BatchEncoding, (dict(self),)

    def sequence_ids(self, batch_index: int = 0) -> list[int | None]:
        """0 or 1, the text of each place of a row; None for special tokens and padding."""
        return self._known().sequence_ids(batch_index)

    def word_ids(self, batch_index: int = 0) -> list[int | None]:
        """The number of each place's word in its text; None for special tokens and padding.

        Words are those given with `is_split_into_words`; otherwise where the vocabulary starts
        a word.
        """
        return self._known().word_ids(batch_index)

    def token_to_chars(
        self, batch_or_token_index: int, token_index: int | None = None
    ) -> CharSpan | None:
        """The characters of a place: `(row, place)`, or `(place)` of row 0; None for no text."""
        row, place = _row_and(batch_or_token_index, token_index)
        if self.sequence_ids(row)[place] is None:
            return None
        return CharSpan(*self._known().offsets(row)[place])

    def char_to_token(
        self, batch_or_char_index: int, char_index: int | None = None, sequence_index: int = 0
    ) -> int | None:
        """The first place that has a character: `(row, character)`, or `(character)` of row 0.

        Args:
            sequence_index: whether it is the first or second text's character.
        Returns:
            None for white space between pieces, and for what was cut off.
        """
        row, character = _row_and(batch_or_char_index, char_index)
        offsets = self._known().offsets(row)
        for place, sequence in enumerate(self.sequence_ids(row)):
            start, end = offsets[place]
            if sequence == sequence_index and start <= character < end:
                return place
        return None

    def _known(self) -> Places:
        if self._places is None:
            raise ValueError(
                "Words and characters must be asked of what the tokenizer returned. Received: an "
                "encoding that was padded apart, copied or pickled. Ask before that."
            )
        return self._places


def _row_and(first: int, second: int | None) -> tuple[int, int]:
    return (0, first) if second is None else (first, second)


def collect(rows: Sequence[Row], asked: Mapping[str, bool]) -> dict[str, list]:
    """The features asked for, each a list with one entry a row."""
    features: dict[str, list] = {}
    for name in (name for name, is_asked in asked.items() if is_asked):
        if name == "attention_mask":
            features[name] = [[1] * len(ids) for ids in features["input_ids"]]
        elif name == "overflow_to_sample_mapping":
            features[name] = [row.sample for row in rows]
        else:
            features[name] = [getattr(row, name) for row in rows]
    return features


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
    has_places = name == "input_ids" or name in PADDING
    lengths = {len(row) for row in rows} if rows and has_places else set()
    if len(lengths) > 1:
        raise ValueError(
            "Rows must be equally long to become one array. "
            f"Received: {name} with lengths from {min(lengths)} to {max(lengths)}. "
            "Use padding=True, and truncation=True with a max_length."
        )
    return np.array(rows, dtype=np.int32)

"""Sequences: the tokens of texts or text pairs between special tokens, and their features."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from albert_tf.errors import UserError
from albert_tf.text.tokens import SpecialTokens, Tokens

Side = Literal["right", "left"]
NO_TEXT: Final = (0, 0)  # offsets of special tokens and padding


class EncodedSequence(NamedTuple):
    """A sequence of tokens, whose features are lists with one entry per position.

    Attributes:
        texts: the tokens of one or two texts.
        special: the special tokens to add, or None.
        sample: the index of the text or pair in the batch.
    """

    texts: Sequence[Tokens]
    special: SpecialTokens | None
    sample: int = 0

    @property
    def input_ids(self) -> list[int]:
        return Positions([self]).input_ids.tolist()

    @property
    def token_type_ids(self) -> list[int]:
        return Positions([self]).token_type_ids.tolist()

    @property
    def offset_mapping(self) -> list[tuple[int, int]]:
        return as_list(Positions([self]).offset_mapping)

    @property
    def sequence_ids(self) -> list[int | None]:
        """The text (0 or 1) of each position, or None for special tokens."""
        positions = Positions([self])
        texts = positions.text_ids[positions.is_text]
        return [None if text < 0 else text for text in positions.spread([texts], -1).tolist()]

    @property
    def word_ids(self) -> list[int | None]:
        """The index of each token's word in its text, or None for special tokens."""
        words = Positions([self]).spread([text.words for text in self.texts], -1)
        return [None if word < 0 else word for word in words.tolist()]


def special_count(is_pair: bool, separators: int = 1) -> int:
    """Returns the number of special tokens in a sequence: `[CLS]`, and `[SEP]` after each text.

    `separators` is the number of `[SEP]` tokens between the texts of a pair.
    """
    return 2 + separators if is_pair else 2


class Positions:
    """The N positions of S sequences, concatenated into arrays.

    Args:
        sequences: texts and pairs, all with the same special tokens or all without special tokens.
    Attributes:
        lengths: `[S]`, the number of positions in each sequence.
        text_ids: int32 `[N]`, the text (0 or 1) of each position. `[CLS]` belongs to the first
            text, `[SEP]` to the text before it, and an additional `[SEP]` to the text after it.
        is_text: bool `[N]`, False for special tokens.
    """

    def __init__(self, sequences: Sequence[EncodedSequence]):
        self._texts = [text for sequence in sequences for text in sequence.texts]
        self._special = sequences[0].special if sequences else None
        counts = np.fromiter((len(each.texts) for each in sequences), np.int64, len(sequences))
        numbers = np.array([at for count in counts.tolist() for at in range(count)], np.int32)
        sizes = np.fromiter((len(text.ids) for text in self._texts), np.int64, len(self._texts))
        is_first = numbers == 0
        if self._special:  # [CLS] and [SEP] around the first text, and the [SEP] of the second
            sizes += np.where(is_first, special_count(False), self._special.separators)
        ends = np.cumsum(sizes)
        starts, self._ends = ends - sizes, ends[np.cumsum(counts) - 1]
        self.lengths = np.diff(self._ends, prepend=0)
        self.text_ids = np.repeat(numbers, sizes)
        self.is_text = np.ones(len(self.text_ids), np.bool_)
        if self._special:
            self.is_text[starts[is_first]] = self.is_text[ends - 1] = False
            if self._special.separators > 1:
                self.is_text[starts[~is_first]] = False

    def split(self, name: str) -> list[np.ndarray]:
        """Returns a feature, such as `input_ids`, as one array per sequence."""
        ends = self._ends.tolist()
        values = getattr(self, name)
        return [values[start:end] for start, end in pairwise([0, *ends])]

    @property
    def input_ids(self) -> np.ndarray:
        special = self._special or SpecialTokens()
        ids = self.spread([text.ids for text in self._texts], special.sep_id)
        if self._special:
            ids[self._ends - self.lengths] = special.cls_id
        return ids

    @property
    def token_type_ids(self) -> np.ndarray:
        return self.text_ids * self._special.second_type if self._special else self.text_ids

    @property
    def attention_mask(self) -> np.ndarray:
        return np.ones(len(self.is_text), np.int32)

    @property
    def special_tokens_mask(self) -> np.ndarray:
        return (~self.is_text).astype(np.int32)

    @property
    def offset_mapping(self) -> np.ndarray:
        return self.spread([text.offsets for text in self._texts], NO_TEXT)

    def spread(self, values: Sequence[np.ndarray], other: Any) -> np.ndarray:
        """Returns an array with the tokens' values at their positions, and `other` elsewhere."""
        joined = np.concatenate([np.empty((0, *np.shape(other)), np.int32), *values])
        result = np.full((len(self.is_text), *joined.shape[1:]), other, np.int32)
        result[self.is_text] = joined
        return result


def as_list(values: np.ndarray) -> list[Any]:
    """Converts an array `[N]` to a list of numbers, or an array `[N, 2]` to a list of tuples."""
    return values.tolist() if values.ndim == 1 else list(zip(*values.T.tolist(), strict=True))


def checked_side(side: str, name: str = "padding_side") -> Side:
    """Checks and returns the side to pad or truncate."""
    if side not in ("right", "left"):
        raise UserError(f"{name} must be 'right' or 'left'. Received: {side!r}.")
    return side  # type: ignore[return-value]

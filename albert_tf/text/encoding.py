"""The result of a tokenizer: features keyed by name, and the origin of each position."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import optree

from albert_tf.errors import UserError
from albert_tf.huggingface import ENCODING_METHODS
from albert_tf.options import without_methods
from albert_tf.text.padding import pad
from albert_tf.text.sequences import NO_TEXT, EncodedSequence


class CharSpan(NamedTuple):
    """A span of characters, from `start` to `end` (exclusive)."""

    start: int
    end: int


class TokenSpan(NamedTuple):
    """A span of positions, from `start` to `end` (exclusive)."""

    start: int
    end: int


@without_methods(ENCODING_METHODS)
class BatchEncoding(dict[str, Any]):
    """The features of a batch, accessed as `encoding["input_ids"]` or `encoding.input_ids`.

    The methods align positions with the words and characters of the texts. They take the index of a
    sequence, and the index of a position, word, or character. Without the sequence index, the
    methods use sequence 0. Words and characters refer to the first text unless `sequence_index` is
    1. The methods return None for special tokens, padding, and truncated text. They work only on
    the tokenizer's own result, because a copied or unpickled encoding contains only the features.

    Args:
        features: lists or arrays keyed by name.
        sequences: the sequences without padding.
        lengths: the lengths of the sequences, including padding.
        padding_side: "right" or "left".
        encode_with_offsets: function that returns the same sequences with offsets and words, if
            `sequences` lack them. Called once, when a method first needs offsets or words.
    """

    is_fast = True

    def __init__(
        self,
        features: Mapping[str, Any] = MappingProxyType({}),  # TensorFlow passes no arguments
        sequences: Sequence[EncodedSequence] | None = None,
        lengths: Sequence[int] = (),
        padding_side: str = "right",
        encode_with_offsets: Callable[[], Sequence[EncodedSequence]] | None = None,
    ):
        super().__init__(features)
        self._sequences, self._lengths = sequences, lengths
        self._padding_side = padding_side
        self._encode_with_offsets = encode_with_offsets

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"Unknown feature {name!r}. The features are {', '.join(self)}."
            ) from None

    def __missing__(self, key: Any) -> Any:
        way_out = f" Use encoding['input_ids'][{key}]." if isinstance(key, int) else ""
        raise KeyError(f"Unknown feature {key!r}.{way_out}")

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchEncoding, (dict(self),)

    def sequence_ids(self, batch_index: int = 0) -> list[int | None]:
        """Returns each position's text (0 or 1), or None for special tokens and padding."""
        return self._pad(batch_index, self._sequence(batch_index).sequence_ids, None)

    def word_ids(self, batch_index: int = 0) -> list[int | None]:
        """Returns the word index of each position, or None for special tokens and padding.

        With `is_split_into_words`, these are the words that the caller passed. Otherwise, the
        vocabulary determines where a word starts.
        """
        sequence = self._sequence(batch_index)
        if any(len(text.words) < len(text.ids) for text in sequence.texts):
            sequence = self._sequences_with_offsets[batch_index]
        return self._pad(batch_index, sequence.word_ids, None)

    @property
    def n_sequences(self) -> int:
        """The number of texts in a sequence: 1 for single texts, 2 for pairs."""
        return max((len(sequence.texts) for sequence in self._require_sequences()), default=1)

    def token_to_sequence(
        self, batch_or_token_index: int, token_index: int | None = None
    ) -> int | None:
        """Returns the index of a position's text, 0 or 1."""
        row, position = _split_indices(batch_or_token_index, token_index)
        return _item(self.sequence_ids(row), position)

    def token_to_word(
        self, batch_or_token_index: int, token_index: int | None = None
    ) -> int | None:
        """Returns the index of the word that a position belongs to, within its text."""
        row, position = _split_indices(batch_or_token_index, token_index)
        return _item(self.word_ids(row), position)

    def token_to_chars(
        self, batch_or_token_index: int, token_index: int | None = None
    ) -> CharSpan | None:
        """Returns a position's character span in its text (or word if `is_split_into_words`)."""
        row, position = _split_indices(batch_or_token_index, token_index)
        if self.token_to_sequence(row, position) is None:
            return None
        return CharSpan(*self._offsets(row)[position])

    def char_to_token(
        self, batch_or_char_index: int, char_index: int | None = None, sequence_index: int = 0
    ) -> int | None:
        """Returns the first position that covers a character, or None for whitespace."""
        row, character = _split_indices(batch_or_char_index, char_index)
        offsets = self._offsets(row)
        for position, text in enumerate(self.sequence_ids(row)):
            start, end = offsets[position]
            if text == sequence_index and start <= character < end:
                return position
        return None

    def char_to_word(
        self, batch_or_char_index: int, char_index: int | None = None, sequence_index: int = 0
    ) -> int | None:
        """Returns the index of the word that covers a character, or None for whitespace."""
        row, character = _split_indices(batch_or_char_index, char_index)
        position = self.char_to_token(row, character, sequence_index)
        return None if position is None else self.token_to_word(row, position)

    def word_to_tokens(
        self, batch_or_word_index: int, word_index: int | None = None, sequence_index: int = 0
    ) -> TokenSpan | None:
        """Returns the positions of a word in its sequence."""
        row, word = _split_indices(batch_or_word_index, word_index)
        origins = zip(self.sequence_ids(row), self.word_ids(row), strict=True)
        found = [at for at, origin in enumerate(origins) if origin == (sequence_index, word)]
        return TokenSpan(found[0], found[-1] + 1) if found else None

    def word_to_chars(
        self, batch_or_word_index: int, word_index: int | None = None, sequence_index: int = 0
    ) -> CharSpan | None:
        """Returns a word's character span in its text (or in the word if `is_split_into_words`)."""
        row, word = _split_indices(batch_or_word_index, word_index)
        span = self.word_to_tokens(row, word, sequence_index)
        if span is None:
            return None
        offsets = self._offsets(row)[slice(*span)]
        return CharSpan(offsets[0][0], offsets[-1][1])

    @cached_property
    def _sequences_with_offsets(self) -> Sequence[EncodedSequence]:
        known = self._require_sequences()
        return self._encode_with_offsets() if self._encode_with_offsets else known

    def _offsets(self, index: int) -> list[tuple[int, int]]:
        self._sequence(index)
        return self._pad(index, self._sequences_with_offsets[index].offset_mapping, NO_TEXT)

    def _sequence(self, index: int) -> EncodedSequence:
        sequences = self._require_sequences()
        if not 0 <= index < len(sequences):
            raise IndexError(
                f"The index of a sequence must be in [0, {len(sequences)}). Received: {index}."
            )
        return sequences[index]

    def _require_sequences(self) -> Sequence[EncodedSequence]:
        if self._sequences is None:
            raise ValueError(
                "An encoding that was padded with `pad`, copied, or unpickled contains no words or "
                "characters. Call the method on the tokenizer's own result."
            )
        return self._sequences

    def _pad(self, index: int, values: list[Any], padding: Any) -> list[Any]:
        return pad(values, self._lengths[index], padding, self._padding_side)


def as_leaves(encoding: BatchEncoding) -> tuple[list[Any], tuple[str, ...]]:
    """Returns an encoding's features and their names, to flatten nested structures."""
    names = tuple(sorted(encoding))
    return [encoding[name] for name in names], names


def from_leaves(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """Returns the dict that `as_leaves` flattened."""
    return dict(zip(names, values, strict=True))


# Makes Keras treat an encoding as a dict, in functional models and in `fit` of any model. On torch,
# Keras uses a different registry; see `models/batch.py`.
optree.register_pytree_node(BatchEncoding, as_leaves, from_leaves, namespace="keras")


def _split_indices(first: int, second: int | None) -> tuple[int, int]:
    """Returns the index of a sequence and the index within that sequence."""
    return (0, first) if second is None else (first, second)


def _item(values: Sequence[int | None], position: int) -> int | None:
    """Returns the value at a position, or None past the end."""
    if position < 0:
        raise UserError(f"A position must not be negative. Received: {position}.")
    return values[position] if position < len(values) else None

"""The characters of a text that its pieces were made from, in the graph."""

import functools
import sys
import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

import tensorflow as tf

from albert_tf.text.added_tokens import SPACE
from albert_tf.text.answers import BRACKETS, MARKS
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.normalization import UNASSIGNED

DROPPED: Final = "CMSZ"  # Unicode's categories of characters that a vocabulary may leave out


class Characters:
    """Characters of strings `[B]`.

    Attributes:
        texts: the strings.
        points: code points, int32 `[B, C]`; 0 after the end of a text.
        first_bytes: int32 `[B, C]`; after the end of a text its number of bytes.
    """

    def __init__(self, texts: tf.Tensor):
        points, first_bytes = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
        self.texts = texts
        self.points = tf.pad(points.to_tensor(), [[0, 0], [0, 1]])  # The end of a text is one too.
        inside = tf.sequence_mask(points.row_lengths(), tf.shape(self.points)[1])
        known = tf.pad(tf.cast(first_bytes.to_tensor(), tf.int32), [[0, 0], [0, 1]])
        self.first_bytes = tf.where(inside, known, tf.strings.length(texts)[:, None])

    def at_bytes(self, byte: tf.Tensor) -> tf.Tensor:
        """Returns the characters that begin at bytes `[B, N]`."""
        return tf.searchsorted(self.first_bytes, byte)

    def are(self, members: Sequence[int]) -> tf.Tensor:
        """Returns whether each character is among sorted code points, bool `[B, C]`."""
        known = tf.constant(members)
        flat = tf.reshape(self.points, [-1])
        place = tf.minimum(tf.searchsorted(known, flat), len(members) - 1)
        return tf.reshape(tf.gather(known, place) == flat, tf.shape(self.points))

    def read(
        self, starts: tf.Tensor, ends: tf.Tensor, blank: Sequence[int]
    ) -> dict[str, tf.Tensor]:
        """Returns parts of the texts without white space around them.

        Args:
            starts, ends: characters, int32 `[B, N]`.
            blank: code points to leave out at the start.
        Returns:
            `text`, string, and int32 `start`, `end`, `start_byte` and `end_byte`, all `[B, N]`.
        """
        start = tf.minimum(_next(~self.are(blank), starts), ends)
        end = _end_of_last(~self.are(white_space()), ends)
        end = tf.maximum(tf.minimum(end, ends), start)
        first, last = at(self.first_bytes, start), at(self.first_bytes, end)
        text = tf.strings.substr(self.texts[:, None], first, last - first)
        return {"text": text, "start": start, "end": end, "start_byte": first, "end_byte": last}


class Pieces(NamedTuple):
    """Characters of the pieces of texts.

    Attributes:
        characters: of the texts, up to the last piece.
        ids: int32 `[B, P]`.
        starts, ends: int32 `[B, P]`.
        begin_words: whether pieces begin a word, bool `[B, P]`.
        blank: code points that the vocabulary normalizes to a space or to nothing.
    """

    characters: Characters
    ids: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    begin_words: tf.Tensor
    blank: Sequence[int]

    def read(self, starts: tf.Tensor, ends: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.characters.read(starts, ends, self.blank)

    def are_marks(self) -> tf.Tensor:
        """Returns whether pieces have only brackets, quotation marks, stops and white space."""
        letters = ~self.characters.are(marks())
        before = tf.cumsum(tf.cast(letters, tf.int32), axis=1, exclusive=True)
        return at(before, self.starts) == at(before, self.ends)


def of_pieces(tokenizer: BaseTokenizer, texts: tf.Tensor, ids: tf.Tensor) -> Pieces:
    """Returns the characters of pieces; `albert_tf.text.tokenizer` is the same in Python.

    Args:
        texts: string `[B]`.
        ids: their first pieces, int32 `[B, P]`, P > 0, from `AlbertPreprocessor.tokenize`, whose
            operator has no offsets. The one that has them may cut a word at other places where two
            ways to cut it are equally likely; then a piece has the characters of the piece of the
            same number in its word.
    """
    import tensorflow_text  # This import registers its operators.

    # Made in the graph, where the operator owns the vocabulary, which nothing else has to save.
    operator = tensorflow_text.SentencepieceTokenizer(tokenizer.model_bytes)
    most = tf.shape(ids)[1]
    others, starts, ends = (
        tf.pad(tf.cast(each[:, :most].to_tensor(), tf.int32), [[0, 0], [0, 1]])
        for each in operator.tokenize_with_offsets(texts)
    )
    read = tf.strings.substr(texts, tf.zeros_like(ends[:, 0]), tf.reduce_max(ends, axis=1))
    characters = Characters(read)
    tokens = tokenizer.convert_ids_to_tokens(list(range(tokenizer.vocab_size)))
    begin = tf.constant([token.startswith(SPACE) for token in tokens])
    source = _same_places(tf.gather(begin, ids), tf.gather(begin, others))
    first, last = (characters.at_bytes(at(each, source)) for each in (starts, ends))
    # A character that normalizes to several (a ligature) belongs to each piece that has one of
    # them. A lone "▁" before the text has no character.
    is_added = (ids == tokenizer.convert_tokens_to_ids(SPACE)) & (tf.range(most) == 0)
    widened = tf.minimum(first + 1, tf.shape(characters.points)[1] - 1)
    last = tf.where(is_added, first, tf.maximum(last, widened))
    return Pieces(characters, ids, first, last, tf.gather(begin, ids), blank(tokenizer))


def _same_places(begins: tf.Tensor, others_begin: tf.Tensor) -> tf.Tensor:
    """Returns for each piece the other piece with the same number in the same word."""
    word, others = (tf.cumsum(tf.cast(each, tf.int32), axis=1) for each in (begins, others_begin))
    number = tf.range(tf.shape(word)[1]) - tf.searchsorted(word, word)
    after = tf.searchsorted(others, word, side="right")
    return tf.maximum(tf.minimum(tf.searchsorted(others, word) + number, after - 1), 0)


def at(values: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Returns values `[B, C]` at indices `[B, N]`."""
    return tf.gather(values, index, batch_dims=1)


def _next(are: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
    """Returns the first true index from each start on, or the number of indices."""
    seen = tf.cumsum(tf.cast(are, tf.int32), axis=1)
    return tf.searchsorted(seen, at(tf.pad(seen, [[0, 0], [1, 0]]), starts) + 1)


def _end_of_last(are: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Returns the index after the last true one before each end, or 1."""
    seen = tf.cumsum(tf.cast(are, tf.int32), axis=1)
    return tf.searchsorted(seen, at(tf.pad(seen, [[0, 0], [1, 0]]), ends)) + 1


@functools.cache
def white_space() -> Sequence[int]:
    return [point for point in range(sys.maxunicode + 1) if chr(point).isspace()]


@functools.cache
def marks() -> Sequence[int]:
    """Returns the punctuation around an answer, and white space."""
    brackets = [
        point for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point)) in BRACKETS
    ]
    return sorted({*brackets, *map(ord, MARKS), *white_space()})


@functools.lru_cache(maxsize=1)
def blank(tokenizer: BaseTokenizer) -> Sequence[int]:
    """Returns the code points that a vocabulary normalizes to a space or to nothing."""
    categories = ((point, unicodedata.category(chr(point))) for point in range(sys.maxunicode + 1))
    candidates = [
        point for point, each in categories if each[0] in DROPPED and each not in UNASSIGNED
    ]
    found = tokenizer([chr(point) for point in candidates], add_special_tokens=False)["input_ids"]
    return [point for point, ids in zip(candidates, found, strict=True) if not ids]

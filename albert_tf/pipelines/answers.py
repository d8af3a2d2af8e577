"""Spans of places to answers in the words of the context."""

import unicodedata
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.pipelines.spans import Span

CONTEXT: Final = 1  # the context is the second text
MARKS: Final = frozenset("\"'.,;:!?…、。，；：！？ ")
BRACKETS: Final = ("Ps", "Pe", "Pi", "Pf")  # Unicode's opening and closing ones


class Places(NamedTuple):
    """Where each place of a row comes from: characters, words, and whether it is the context."""

    offsets: Sequence[tuple[int, int]]
    words: Sequence[int | None]
    possible: np.ndarray


def places(encoding: Any, row: int) -> Places:
    """The places of a row of question and context."""
    sequences = encoding.sequence_ids(row)
    return Places(
        encoding["offset_mapping"][row],
        [
            word if sequence == CONTEXT else None
            for word, sequence in zip(encoding.word_ids(row), sequences, strict=True)
        ],
        np.array([sequence == CONTEXT for sequence in sequences]),
    )


def answer(context: str, places: Places, span: Span, aligned: bool) -> dict[str, Any]:
    """A span as `{"score", "start", "end", "answer"}`, `answer` being `context[start:end]`.

    Args:
        aligned: extend it to whole words.
    """
    start, end = _whole_words(context, places, span) if aligned else span[:2]
    first, last = places.offsets[start][0], places.offsets[end][1]
    covered = context[first:last]  # a piece may be white space alone
    first += len(covered) - len(covered.lstrip())
    text = covered.strip()
    return {"score": span.score, "start": first, "end": first + len(text), "answer": text}


def _whole_words(context: str, places: Places, span: Span) -> tuple[int, int]:
    """A span that doesn't cut words; the punctuation around them is left as it is."""
    words = places.words
    start = words.index(words[span.start])
    end = len(words) - 1 - words[::-1].index(words[span.end])
    while start < span.start and _is_mark(context[slice(*places.offsets[start])]):
        start += 1
    while end > span.end and _is_mark(context[slice(*places.offsets[end])]):
        end -= 1
    return start, end


def _is_mark(text: str) -> bool:
    """Whether there are nothing but marks that stand beside words: brackets, quotes, stops."""
    return all(
        character in MARKS or unicodedata.category(character) in BRACKETS for character in text
    )

"""Builds segment pairs from sentences: draws lengths and labels, and truncates segments to fit.

Source: ALBERT, arXiv 1909.11942, sections 3.1 and 4.1. Lengths and truncation follow the original's
create_pretraining_data.py, with two deliberate differences:

- For sentence order, a single leftover sentence is split in two between words. The original pairs
  it with a segment from another document, but still labels the pair as swapped
  (google-research/albert#234).
- A sentence too long for an example is split into several. The original drops most of the sentence.

A document's pairs depend only on the document, except with `pair_task="nsp"`, which takes second
segments from other documents.
"""

import enum
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.data.pretraining import numpy_ops, rng
from albert_tf.data.pretraining.options import IN_ORDER, SPECIAL_COUNT, SWAPPED, ExampleOptions
from albert_tf.tasks import IGNORED


class _Stream(enum.IntEnum):
    """The random number streams of a key, and what each one decides."""

    SHORT = 0  # whether a document's pairs are short
    LENGTH = 1  # how long the short pairs are
    END = 2  # where the first segment ends
    OTHER = 3  # nsp: whether the second segment is from another document
    DONOR = 4  # nsp: which document the second segment is from
    START = 5  # nsp: where the second segment starts in that document
    FRONT = 6  # whether a token is removed from the front or the end of a segment
    ODD = 7  # which of two equally long segments loses the odd token


_SWAP: Final = 0  # a stream of the per-epoch keys, like the streams in `masking`


class Passages(NamedTuple):
    """Tokenized documents, in order: D documents with a total of S sentences and N tokens.

    Attributes:
        keys: uint64 `[D]`, random keys of the documents.
        ids: int32 `[N]`, the tokens.
        starts: bool `[N]`, whether a token begins a word.
        bounds: int64 `[S + 1]`, index of each sentence's first token, then N.
        documents: int64 `[D + 1]`, index of each document's first sentence, then S.
    """

    keys: np.ndarray
    ids: np.ndarray
    starts: np.ndarray
    bounds: np.ndarray
    documents: np.ndarray


class Pairs(NamedTuple):
    """R pairs of segments.

    Attributes:
        keys: uint64 `[R]`, random keys of the pairs.
        first, second: int64 `[R, 2]`, the start and end (exclusive) token index of each segment.
        labels: int32 `[R]`, `IN_ORDER`, `SWAPPED`, or `IGNORED`.
    """

    keys: Any
    first: Any
    second: Any
    labels: Any


def make_pairs(passages: Passages, options: ExampleOptions, counts: Counter[str]) -> Pairs:
    """Builds pairs from passages, in text order, and truncates them to `max_seq_length`.

    Args:
        counts: receives `single_words`, the number of chunks dropped because they can't be split
            in two.
    """
    # A document has at most as many chunks as sentences, so each sentence gets a key.
    starts, sizes = passages.documents[:-1], np.diff(passages.documents)
    numbers = np.arange(passages.documents[-1]) - np.repeat(starts, sizes)
    keys = rng.fold_in(np.repeat(passages.keys, sizes), numbers)
    streams = _Stream.END, _Stream.OTHER, _Stream.DONOR, _Stream.START
    chunks = list(_chunks(passages, rng.uniform(keys, streams, 0).tolist(), options))
    counts["single_words"] += sum(row[1] == row[2] or row[3] == row[4] for row in chunks)
    rows = np.array([row for row in chunks if row[1] < row[2] and row[3] < row[4]], np.int64)
    rows = rows.reshape(-1, 6)
    labels = rows[:, 5] if options.pair_task != "none" else np.full(len(rows), IGNORED)
    pairs = Pairs(keys[rows[:, 0]], rows[:, 1:3], rows[:, 3:5], labels.astype(np.int32))
    return _cut_to_fit(pairs, options.max_seq_length - SPECIAL_COUNT)


def swapped(pairs: Pairs, xp: Any = numpy_ops) -> Pairs:
    """Swaps the segments of half of the pairs, and labels all pairs."""
    swap = rng.uniform(pairs.keys, _SWAP, 0, xp) < 0.5
    return pairs._replace(
        first=xp.where(swap, pairs.second, pairs.first),
        second=xp.where(swap, pairs.first, pairs.second),
        labels=xp.cast(xp.where(swap[:, 0], SWAPPED, IN_ORDER), np.int32),
    )


def _target_lengths(keys: np.ndarray, options: ExampleOptions) -> list[int]:
    """Returns the target number of tokens in a pair (both segments), for each document."""
    room = options.max_seq_length - SPECIAL_COUNT
    short, length = rng.uniform(keys, (_Stream.SHORT, _Stream.LENGTH), 0).T
    drawn = 2 + (length * (room - 1)).astype(int)
    return np.where(short < options.short_seq_prob, drawn, room).tolist()


def _chunks(
    passages: Passages, draws: list[list[float]], options: ExampleOptions
) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Collects sentences up to the target length, and divides them at a sentence boundary.

    Yields the index of a key, the bounds of the first and of the second segment, and the label.

    Args:
        draws: random numbers for each key.
    """
    bounds, documents = passages.bounds.tolist(), passages.documents.tolist()
    takes_others = options.pair_task == "nsp" and len(documents) > 2
    for document, target in enumerate(_target_lengths(passages.keys, options)):
        number = documents[document]
        start, last = documents[document : document + 2]
        while start < last:
            end = bisect_left(bounds, bounds[start] + target, start + 1, last)
            cut, other, *place = draws[number]
            middle = start + 1 + int(cut * (end - start - 1))
            second, label = (bounds[middle], bounds[end]), IN_ORDER
            if takes_others and (middle == end or other < 0.5):
                wanted = target - (bounds[middle] - bounds[start])
                second = _from_other_document(bounds, documents, document, place, wanted)
                label = SWAPPED
                end = middle  # the next chunk begins with the unused sentences
            first_end = bounds[middle]
            if middle == end and label == IN_ORDER:
                first_end = _between_words(passages, bounds[start], bounds[end], cut)
                second = first_end, bounds[end]
            yield number, bounds[start], first_end, *second, label
            number, start = number + 1, end


def _between_words(passages: Passages, start: int, end: int, draw: float) -> int:
    """Picks the start of any word except the first, or returns `end` if there is only one word."""
    begins = np.flatnonzero(passages.starts[start + 1 : end])
    return start + 1 + int(begins[int(draw * len(begins))]) if len(begins) else end


def _from_other_document(
    bounds: list[int], documents: list[int], document: int, draws: list[float], length: int
) -> tuple[int, int]:
    """Returns the bounds of enough sentences from another document to reach the length.

    Args:
        draws: random numbers that choose the other document, and its first sentence to use.
    """
    donor = int(draws[0] * (len(documents) - 2))
    donor += donor >= document
    first, last = documents[donor : donor + 2]
    start = first + int(draws[1] * (last - first))
    return bounds[start], bounds[bisect_left(bounds, bounds[start] + length, start + 1, last)]


def _cut_to_fit(pairs: Pairs, room: int) -> Pairs:
    """Removes tokens one by one from the longer segment, randomly from its front or its end.

    If both segments are equally long, the one that loses the odd token is drawn at random. A fixed
    rule would reveal the order, because segments are swapped later. The original swaps first.
    """
    lengths = np.diff(pairs.first)[:, 0], np.diff(pairs.second)[:, 0]
    excess = np.maximum(lengths[0] + lengths[1] - room, 0)
    longer = lengths[0] - lengths[1]
    until_equal = np.minimum(excess, np.abs(longer))
    rest = excess - until_equal  # from both
    odd = rest % 2 * (rng.uniform(pairs.keys, _Stream.ODD, 0)[:, 0] < 0.5)
    removed = (
        np.where(longer > 0, until_equal, 0) + rest // 2 + odd,
        np.where(longer > 0, 0, until_equal) + (rest + 1) // 2 - odd,
    )
    segments = [
        _cut_ends(segment, count, pairs.keys, number)
        for number, (segment, count) in enumerate(
            zip((pairs.first, pairs.second), removed, strict=True)
        )
    ]
    return pairs._replace(first=segments[0], second=segments[1])


def _cut_ends(segment: np.ndarray, count: np.ndarray, keys: np.ndarray, number: int) -> np.ndarray:
    """Removes `count` tokens one by one from each segment, randomly from its front or its end."""
    rows = np.flatnonzero(count)
    if not len(rows):
        return segment
    longest = int(count[rows].max())
    fronts = rng.uniform(rng.fold_in(keys[rows], number), _Stream.FRONT, np.arange(longest)) < 0.5
    front = (fronts & (np.arange(longest) < count[rows, None])).sum(axis=1)
    shorter = segment.copy()
    shorter[rows, 0] += front
    shorter[rows, 1] -= count[rows] - front
    return shorter

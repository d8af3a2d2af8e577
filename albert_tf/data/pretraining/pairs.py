"""Sentences to pairs of segments: lengths drawn, labels drawn, cut to fit.

Source: ALBERT, arXiv 1909.11942, sections 3.1 and 4.1; lengths and cuts as in the original's
create_pretraining_data.py. What differs from it on purpose:

- For sentence order, one sentence that is left over is cut in two between words. The original pairs
  it with another document, under the label of swapped segments (google-research/albert#234).
- A sentence that is too long for an example becomes several; of the original's only a part stays.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from albert_tf.data.pretraining import draws
from albert_tf.data.pretraining.options import SPECIAL_COUNT, ExampleOptions
from albert_tf.data.pretraining.passages import Passages
from albert_tf.data.pretraining.ragged import numbers_within

IN_ORDER: Final = 0
SWAPPED: Final = 1  # for "nsp": the second segment is from another document
NO_LABEL: Final = -100  # counts in no loss
_SHORT, _LENGTH, _END, _OTHER, _DONOR, _PLACE, _FRONT, _SWAP, _ODD = range(9)  # streams of draws


class Pairs(NamedTuple):
    """R pairs of segments of passages.

    Attributes:
        keys: uint64 `[R]`, what the draws of a pair depend on.
        first, second: int64 `[R, 2]`, the pieces of each segment: from, and to before.
        labels: int32 `[R]`, `IN_ORDER`, `SWAPPED` or `NO_LABEL`.
    """

    keys: np.ndarray
    first: np.ndarray
    second: np.ndarray
    labels: np.ndarray

    def part(self, start: int, end: int) -> "Pairs":
        """The pairs from `start` to before `end`."""
        return Pairs(*(array[start:end] for array in self))


def make_pairs(given: Passages, options: ExampleOptions, counts: Counter[str]) -> Pairs:
    """The pairs of passages, cut to fit into `max_seq_length`, in the order of the text.

    The pairs of a document depend on it alone, but for `pair_task="nsp"`, which takes second
    segments from the other passages.

    Args:
        counts: gets `single_words`, chunks that can't be cut in two and are left out.
    """
    sizes = np.diff(given.documents)
    # Of as many chunks as there may be.
    keys = draws.child(np.repeat(given.keys, sizes), numbers_within(sizes))
    found = list(_chunks(given, keys, options))
    counts["single_words"] += sum(row[1] == row[2] or row[3] == row[4] for row in found)
    rows = np.array([row for row in found if row[1] < row[2] and row[3] < row[4]], np.int64)
    rows = rows.reshape(-1, 6)
    labels = rows[:, 5] if options.pair_task != "none" else np.full(len(rows), NO_LABEL)
    pairs = Pairs(keys[rows[:, 0]], rows[:, 1:3], rows[:, 3:5], labels.astype(np.int32))
    return _cut_to_fit(pairs, options.max_seq_length - SPECIAL_COUNT)


def swapped(pairs: Pairs) -> Pairs:
    """The same with the segments of half of the pairs swapped."""
    swap = draws.uniform(pairs.keys, _SWAP, 1)[:, 0] < 0.5
    return pairs._replace(
        first=np.where(swap[:, None], pairs.second, pairs.first),
        second=np.where(swap[:, None], pairs.first, pairs.second),
        labels=np.where(swap, SWAPPED, IN_ORDER).astype(np.int32),
    )


def _target_lengths(keys: np.ndarray, options: ExampleOptions) -> list[int]:
    """Pieces of both segments together, for each document: all there is room for, or fewer."""
    room = options.max_seq_length - SPECIAL_COUNT
    short = draws.uniform(keys, _SHORT, 1)[:, 0] < options.short_seq_prob
    drawn = 2 + (draws.uniform(keys, _LENGTH, 1)[:, 0] * (room - 1)).astype(int)
    return np.where(short, drawn, room).tolist()


def _chunks(
    given: Passages, keys: np.ndarray, options: ExampleOptions
) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Sentences taken together until they reach the target length, and divided at one's end.

    Yields:
        The number of a key, where the first segment begins and ends, the second, and the label.
    """
    bounds, documents = given.bounds.tolist(), given.documents.tolist()
    ends = draws.uniform(keys, _END, 1)[:, 0].tolist()
    takes_others = options.pair_task == "nsp" and len(documents) > 2
    donors = _Donors(given, keys) if takes_others else None
    for document, target in enumerate(_target_lengths(given.keys, options)):
        number = documents[document]
        start, last = documents[document : document + 2]
        while start < last:
            end = bisect_left(bounds, bounds[start] + target, start + 1, last)
            middle = start + 1 + int(ends[number] * (end - start - 1))
            second, label = (bounds[middle], bounds[end]), IN_ORDER
            if donors and (middle == end or donors.wanted[number] < 0.5):
                wanted = target - (bounds[middle] - bounds[start])
                second, label = donors.take(document, number, wanted), SWAPPED
                end = middle  # the sentences that weren't used begin the next chunk
            first_end = bounds[middle]
            if middle == end and label == IN_ORDER:
                first_end = _between_words(given, bounds[start], bounds[end], ends[number])
                second = first_end, bounds[end]
            yield number, bounds[start], first_end, *second, label
            number, start = number + 1, end


def _between_words(given: Passages, start: int, end: int, draw: float) -> int:
    """Where one of the words after the first begins; `end` if there are none."""
    begins = np.flatnonzero(given.starts[start + 1 : end])
    return start + 1 + int(begins[int(draw * len(begins))]) if len(begins) else end


class _Donors:
    """Second segments from other documents."""

    def __init__(self, given: Passages, keys: np.ndarray):
        self.bounds, self.documents = given.bounds.tolist(), given.documents.tolist()
        self.wanted = draws.uniform(keys, _OTHER, 1)[:, 0].tolist()
        self._donors = draws.uniform(keys, _DONOR, 1)[:, 0].tolist()
        self._places = draws.uniform(keys, _PLACE, 1)[:, 0].tolist()

    def take(self, document: int, number: int, length: int) -> tuple[int, int]:
        """Sentences of another document than this, as many as reach the length."""
        donor = int(self._donors[number] * (len(self.documents) - 2))
        donor += donor >= document
        first, last = self.documents[donor : donor + 2]
        start = first + int(self._places[number] * (last - first))
        end = bisect_left(self.bounds, self.bounds[start] + length, start + 1, last)
        return self.bounds[start], self.bounds[end]


def _cut_to_fit(pairs: Pairs, room: int) -> Pairs:
    """Takes pieces away, always from the longer segment, from its front or its end by a draw.

    Of segments that are equally long, a draw tells which loses the odd piece. A rule would tell
    their order: they are swapped after this, where the original swaps before it cuts.
    """
    lengths = np.diff(pairs.first)[:, 0], np.diff(pairs.second)[:, 0]
    excess = np.maximum(lengths[0] + lengths[1] - room, 0)
    longer = lengths[0] - lengths[1]
    until_alike = np.minimum(excess, np.abs(longer))
    rest = excess - until_alike  # from both alike
    odd = rest % 2 * (draws.uniform(pairs.keys, _ODD, 1)[:, 0] < 0.5)
    removed = (
        np.where(longer > 0, until_alike, 0) + rest // 2 + odd,
        np.where(longer > 0, 0, until_alike) + (rest + 1) // 2 - odd,
    )
    segments = [
        _without(segment, count, pairs.keys, stream)
        for stream, (segment, count) in enumerate(
            zip((pairs.first, pairs.second), removed, strict=True)
        )
    ]
    return pairs._replace(first=segments[0], second=segments[1])


def _without(segment: np.ndarray, count: np.ndarray, keys: np.ndarray, part: int) -> np.ndarray:
    """Segments without `count` pieces, each from the front with a probability of one half."""
    rows = np.flatnonzero(count)
    if not len(rows):
        return segment
    longest = int(count[rows].max())
    fronts = draws.uniform(draws.child(keys[rows], part), _FRONT, longest) < 0.5
    front = (fronts & (np.arange(longest) < count[rows, None])).sum(axis=1)
    shorter = segment.copy()
    shorter[rows, 0] += front
    shorter[rows, 1] -= count[rows] - front
    return shorter

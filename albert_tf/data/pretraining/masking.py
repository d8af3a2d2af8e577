"""n-gram masking of whole words.

Source: ALBERT, arXiv 1909.11942, section 4.1, and the original's create_pretraining_data.py. What
differs from the latter on purpose: an n-gram never goes from one segment into the other, and the
random piece is never a special one. `masking_graph` does the same in TensorFlow's graphs.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.data.pretraining import draws
from albert_tf.data.pretraining.options import NUMBER_BITS, ExampleOptions
from albert_tf.data.pretraining.ragged import numbers_within
from albert_tf.data.pretraining.words import WordTable

MASKED: Final = 0.8  # share of the predicted pieces that become [MASK]
KEPT: Final = 0.9  # … up to here they stay, and above this they become a random one
STREAMS: Final = range(16, 21)  # of `Draws`, in its order


class Rows(NamedTuple):
    """Examples before masking.

    Attributes:
        ids: int32 `[R, T]`, `[CLS] A [SEP] B [SEP]` and padding.
        lengths: int32 `[R]`, pieces without padding.
        first: int32 `[R]`, pieces of `[CLS] A [SEP]`.
    """

    ids: np.ndarray
    lengths: np.ndarray
    first: np.ndarray


class Draws(NamedTuple):
    """float64 `[R, T]` in [0, 1) each, by the position of a piece: arrays, or `draws.Uniform`.

    Attributes:
        order: a word's turn, by its first piece: the lowest is the first to be masked.
        ngram: how many words are masked from a word on.
        replace: what becomes of a piece.
        word: the random piece that replaces it.
        shuffle: where it goes in a permutation.
    """

    order: Any
    ngram: Any
    replace: Any
    word: Any
    shuffle: Any


class Masked(NamedTuple):
    """Examples after masking, P the most predictions.

    Attributes:
        ids: int32 `[R, T]`.
        positions: int32 `[R, P]`, increasing; 0 beyond `counts`.
        labels: int32 `[R, P]`, the pieces that stood there; 0 beyond `counts`.
        counts: int32 `[R]`, predictions.
    """

    ids: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    counts: np.ndarray


def draw(keys: np.ndarray) -> Draws:
    """What masking rows needs, for keys uint64 `[R]`."""
    return Draws(*(draws.Uniform(keys, stream) for stream in STREAMS))


def mask(rows: Rows, drawn: Draws, table: WordTable, options: ExampleOptions) -> Masked:
    """Masks rows as `drawn` says."""
    words, budget = _words(rows, table, options), _predictions(rows.lengths, options)
    heads = _pick(words, budget, drawn, options, np.zeros(rows.ids.shape, bool))
    chosen = heads >= 0
    ids = _replaced(rows.ids, heads, drawn, table, options)
    if options.do_permutation:
        more = _pick(words, budget, drawn, options, chosen) >= 0
        ids = _permuted(ids, more, drawn.shuffle)
        chosen = chosen | more
    return _collected(rows.ids, ids, chosen, options.predictions)


class _Words(NamedTuple):
    """The words of rows, W the most of a row; beyond `counts` there are none.

    Attributes:
        counts: int `[R]`.
        begins, ends: int `[R, W]`, the position of the first piece, and after the last.
        left: int `[R, W]`, words from this one to the end of its segment.
    """

    counts: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    left: np.ndarray


def _words(rows: Rows, table: WordTable, options: ExampleOptions) -> _Words:
    at = np.arange(rows.ids.shape[1])
    first, lengths = rows.first[:, None], rows.lengths[:, None]
    inside = (at > 0) & (at != first - 1) & (at < lengths - 1)
    starts = inside & ((at == 1) | (at == first))
    starts |= inside & (table.starts[rows.ids] if options.do_whole_word_mask else True)
    row, begin = np.nonzero(starts)
    counts = starts.sum(axis=1)
    number = numbers_within(counts)
    in_first = begin < rows.first[row]
    of_first = (starts & (at < first)).sum(axis=1)
    last = np.where(in_first, of_first[row], counts[row])
    segment_end = np.where(in_first, rows.first[row] - 1, rows.lengths[row] - 1)
    ends = np.where(number + 1 == last, segment_end, np.append(begin[1:], 0))
    arrays = np.zeros((3, len(counts), int(counts.max(initial=0))), np.int32)
    arrays[:, row, number] = begin, ends, last - number
    return _Words(counts, *arrays)


def _predictions(lengths: np.ndarray, options: ExampleOptions) -> np.ndarray:
    """int `[R]`: pieces to mask."""
    wanted = np.maximum(1, np.rint(options.masked_lm_prob * lengths)).astype(int)
    return (
        np.minimum(wanted, options.masked_predictions)
        if options.masked_lm_prob
        else np.zeros_like(wanted)
    )


def _pick(
    words: _Words, budget: np.ndarray, drawn: Draws, options: ExampleOptions, taken: np.ndarray
) -> np.ndarray:
    """int `[R, T]`: for each piece that gets picked, where its n-gram begins; -1 for the others.

    All rows take their turns side by side: the k-th word of each is looked at in step k.

    Args:
        budget: int `[R]`, pieces to pick.
        taken: bool `[R, T]`, pieces that can't be.
    """
    rows = np.arange(len(budget))[:, None]
    exists = np.arange(words.begins.shape[1]) < words.counts[:, None]
    turns = _order(drawn.order[rows, words.begins], exists)
    limits = np.cumsum(options.ngram_probabilities)[:-1]
    free = exists & ~taken[rows, words.begins]
    remaining, active = budget.copy(), np.flatnonzero((budget > 0) & (words.counts > 0))
    picked: list[tuple[np.ndarray, ...]] = []
    for turn in range(turns.shape[1]):
        word = turns[active, turn]
        begin = words.begins[active, word]
        size = 1 + np.searchsorted(limits, drawn.ngram[active, begin], side="right")
        size = np.minimum(size, words.left[active, word])
        size = _fitting(words, active, word, size, remaining[active] + begin)
        accepted = size > 0
        for offset in range(int(size.max(initial=0))):
            within = offset < size
            accepted[within] &= free[active[within], word[within] + offset]
        row, word, size, begin = (each[accepted] for each in (active, word, size, begin))
        for offset in range(int(size.max(initial=0))):
            within = offset < size
            free[row[within], word[within] + offset] = False
        end = words.ends[row, word + size - 1]
        remaining[row] -= end - begin
        picked.append((row, begin, end))
        active = active[(remaining[active] > 0) & (turn + 1 < words.counts[active])]
        if not len(active):
            break
    return _heads(picked, taken.shape)


def _order(drawn: np.ndarray, exists: np.ndarray) -> np.ndarray:
    """int `[R, W]`: the numbers of the words by their draws, and by themselves where these tie.

    A draw is a multiple of 2**-53; sorting it together with its number is faster than argsort.
    """
    numbers = np.arange(drawn.shape[1], dtype=np.uint64)
    keys = ((drawn * 2.0**53).astype(np.uint64) << np.uint64(NUMBER_BITS)) | numbers
    keys[~exists] = np.iinfo(np.uint64).max
    return (np.sort(keys, axis=1) & np.uint64(2**NUMBER_BITS - 1)).astype(int)


def _fitting(
    words: _Words, row: np.ndarray, word: np.ndarray, size: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """How many of `size` words from `word` on end at or before `end`."""
    fitting = np.zeros_like(size)
    for count in range(1, int(size.max(initial=0)) + 1):
        last = np.minimum(word + count, words.ends.shape[1]) - 1
        fitting += (count <= size) & (words.ends[row, last] <= end)
    return fitting


def _heads(picked: list[tuple[np.ndarray, ...]], shape: tuple[int, ...]) -> np.ndarray:
    heads = np.full(shape, -1)
    if picked:
        row, begin, end = (np.concatenate(arrays) for arrays in zip(*picked, strict=True))
        sizes = end - begin
        head = np.repeat(begin, sizes)
        heads[np.repeat(row, sizes), head + numbers_within(sizes)] = head
    return heads


def _replaced(
    ids: np.ndarray, heads: np.ndarray, drawn: Draws, table: WordTable, options: ExampleOptions
) -> np.ndarray:
    row, position = np.nonzero(heads >= 0)
    decides = heads[row, position] if options.span_masking else position
    replace = drawn.replace[row, decides]
    number = (drawn.word[row, position] * len(table.random_ids)).astype(int)
    other = np.where(replace < KEPT, ids[row, position], table.random_ids[number])
    replaced = ids.copy()
    replaced[row, position] = np.where(replace < MASKED, table.mask_id, other)
    return replaced


def _permuted(ids: np.ndarray, chosen: np.ndarray, shuffle: Any) -> np.ndarray:
    """Pieces at the chosen places of a row change places with one another."""
    row, position = np.nonzero(chosen)
    order = np.lexsort((shuffle[row, position], row))
    permuted = ids.copy()
    permuted[row, position] = ids[row[order], position[order]]
    return permuted


def _collected(before: np.ndarray, after: np.ndarray, chosen: np.ndarray, most: int) -> Masked:
    row, position = np.nonzero(chosen)
    counts = chosen.sum(axis=1, dtype=np.int32)
    number = numbers_within(counts)
    positions, labels = np.zeros((2, len(counts), most), np.int32)
    positions[row, number] = position
    labels[row, number] = before[row, position]
    return Masked(after, positions, labels, counts)

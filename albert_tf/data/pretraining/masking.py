"""n-gram masking of whole words.

Source: ALBERT, arXiv 1909.11942, section 4.1, and the original's create_pretraining_data.py.
Differs from the latter on purpose: an n-gram never crosses from one segment into the other, and the
random piece is never a special one.

`xp` is the module of array operations: `arrays` (NumPy) or `arrays_graph` (TensorFlow).
"""

from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.data.pretraining import arrays, draws
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.pairs import Pairs
from albert_tf.data.pretraining.words import WordTable

MASKED: Final = 0.8  # share of the predicted pieces that become [MASK]
UNCHANGED: Final = 0.9  # … up to here they stay as they are; above, they become a random piece
ORDER, NGRAM, REPLACE, RANDOM, SHUFFLE = range(16, 21)  # streams of draws, by position of a piece


class Unmasked(NamedTuple):
    """Examples before masking.

    Attributes:
        ids: int32 `[R, T]`, `[CLS] A [SEP] B [SEP]` and padding.
        lengths: int32 `[R]`, pieces without padding.
        first: int32 `[R]`, pieces of `[CLS] A [SEP]`.
    """

    ids: Any
    lengths: Any
    first: Any


class Masked(NamedTuple):
    """Examples after masking, P the most predictions.

    Attributes:
        ids: int32 `[R, T]`.
        positions: int32 `[R, P]`, increasing; 0 beyond `counts`.
        labels: int32 `[R, P]`, the pieces that were there; 0 beyond `counts`.
        counts: int32 `[R]`, predictions.
    """

    ids: Any
    positions: Any
    labels: Any
    counts: Any


def as_rows(pairs: Pairs, ids: Any, table: WordTable, length: Any, xp: Any = arrays) -> Unmasked:
    """`[CLS] A [SEP] B [SEP]` and padding for pairs that fit into `length`.

    Args:
        ids: int32 `[N]`, the pieces that `pairs` refer to.
    """
    at = xp.arange(length)
    begins = [xp.cast(segment[:, :1], np.int32) for segment in (pairs.first, pairs.second)]
    ends = [xp.cast(segment[:, 1:], np.int32) for segment in (pairs.first, pairs.second)]
    first = ends[0] - begins[0] + 2
    lengths = first + ends[1] - begins[1] + 1
    source = xp.where(at < first, begins[0] + at - 1, begins[1] + at - first)
    source = xp.minimum(xp.maximum(source, 0), xp.shape(ids)[0] - 1)
    separators = (at == first - 1) | (at == lengths - 1)
    rows = xp.where(separators, table.separate_id, xp.take(ids, source))
    rows = xp.where(at == 0, table.classify_id, xp.where(at < lengths, rows, table.pad_id))
    return Unmasked(xp.cast(rows, np.int32), lengths[:, 0], first[:, 0])


def mask(
    rows: Unmasked, keys: Any, table: WordTable, options: ExampleOptions, xp: Any = arrays
) -> Masked:
    """Masks rows, by draws that depend on their keys alone.

    Args:
        keys: uint64 `[R]`.
    """
    words = _words(rows, keys, table, options, xp)
    budget = _budget(rows.lengths, options, xp)
    heads = _pick(words, budget, xp.minimum(words.bounds, 0) - 1, xp)
    of_pieces = xp.gather(heads, words.numbers)
    chosen = of_pieces >= 0
    at = xp.arange(options.predictions)
    positions, counts = _positions(chosen, options, xp)
    labels = xp.gather(rows.ids, positions)
    new = _replacements(positions, labels, of_pieces, keys, table, options, xp)
    ids = xp.scatter(rows.ids + 0, positions, xp.where(at < counts, new, table.classify_id))
    if options.do_permutation:
        both = xp.gather(_pick(words, budget, heads, xp), words.numbers) >= 0
        ids = _permuted(ids, both & ~chosen, keys, table, options, xp)
        positions, counts = _positions(both, options, xp)
        labels = xp.gather(rows.ids, positions)
    return Masked(ids, positions, xp.where(at < counts, labels, 0), counts[:, 0])


class _Words(NamedTuple):
    """The words of rows. Bounds are the pieces that begin a word, `[CLS]` and each `[SEP]`.

    Attributes:
        bounds: int32 `[R, W]`, positions of the bounds, in order.
        numbers: int32 `[R, T]`, number of the last bound at or before a position.
        counts: int32 `[R, 1]`, words.
        turns: int32 `[R, W]`, numbers of the words in the order in which they are visited.
        ends: int32 `[R, W]`, number of the bound that ends the n-gram that is drawn for a turn.
        longest: words of the longest n-gram.
    """

    bounds: Any
    numbers: Any
    counts: Any
    turns: Any
    ends: Any
    longest: int


def _words(rows: Unmasked, keys: Any, table: WordTable, options: ExampleOptions, xp: Any) -> _Words:
    at = xp.arange(xp.shape(rows.ids)[1])
    first, lengths = rows.first[:, None], rows.lengths[:, None]
    special = (at == 0) | (at == first - 1) | (at >= lengths - 1)
    starts = ~special
    if options.do_whole_word_mask:
        starts &= (at == 1) | (at == first) | xp.take(table.starts, rows.ids)
    is_bound = starts | (special & (at < lengths))
    numbers = xp.cumsum(is_bound) - 1
    bounds = xp.positions(is_bound)
    separators = [xp.gather(numbers, last - 1) for last in (first, lengths)]
    number = xp.arange(xp.shape(bounds)[1])
    is_word = (number > 0) & (number != separators[0]) & (number < separators[1])
    drawn = draws.uniform(keys, ORDER, bounds, xp)
    turns = xp.argsort(xp.where(is_word, drawn, np.inf))
    drawn = draws.uniform(keys, NGRAM, xp.gather(bounds, turns), xp)
    limits = np.cumsum(options.ngram_probabilities)[:-1].tolist()
    ends = turns + 1
    for limit in limits:
        ends += xp.cast(drawn >= limit, np.int32)
    ends = xp.minimum(ends, xp.where(turns < separators[0], *separators))
    return _Words(bounds, numbers, separators[1] - 2, turns, ends, len(limits) + 1)


def _budget(lengths: Any, options: ExampleOptions, xp: Any) -> Any:
    """int32 `[R, 1]`: pieces to mask."""
    if not options.masked_lm_prob:
        return xp.cast(lengths * 0, np.int32)[:, None]
    wanted = xp.cast(xp.round(options.masked_lm_prob * xp.cast(lengths, np.float64)), np.int32)
    return xp.minimum(xp.maximum(wanted, 1), options.masked_predictions)[:, None]


def _pick(words: _Words, budget: Any, heads: Any, xp: Any) -> Any:
    """int32 `[R, W]`: for each picked word the position of the first of its n-gram, else -1.

    Every row is at the same turn: its k-th word is visited in round k. An n-gram that is longer
    than the rest of the budget is shortened; one with a word that is picked already is skipped.

    Args:
        budget: int32 `[R, 1]`, pieces to pick.
        heads: int32 `[R, W]`, as returned: the words that are picked already.
    """
    steps = xp.arange(words.longest)
    begins = xp.gather(words.bounds, words.turns)

    def is_unfinished(turn: Any, remaining: Any, heads: Any) -> Any:
        return xp.any((remaining > 0) & (turn < words.counts))

    def visit(turn: Any, remaining: Any, heads: Any) -> tuple[Any, Any, Any]:
        word, begin, end = (each[:, turn : turn + 1] for each in (words.turns, begins, words.ends))
        places = xp.gather(words.bounds, xp.minimum(word + steps + 1, end))
        size = xp.where(places - begin <= remaining, places - begin, 0)
        # Words of the n-gram, those that fit; [CLS], which is never picked, fills up.
        numbers = xp.where((word + steps < end) & (size > 0), word + steps, 0)
        is_free = xp.all(xp.gather(heads, numbers) < 0, 1, keepdims=True) & (turn < words.counts)
        numbers = xp.where(is_free, numbers, 0)
        heads = xp.scatter(heads, numbers, xp.where(numbers > 0, begin, -1))
        size = xp.where(is_free, xp.max(size, 1, keepdims=True), 0)
        return turn + 1, remaining - size, heads

    return xp.while_loop(is_unfinished, visit, (0, budget, heads))[2]


def _positions(chosen: Any, options: ExampleOptions, xp: Any) -> tuple[Any, Any]:
    """Positions of the chosen pieces, int32 `[R, P]`, and how many they are, `[R, 1]`."""
    counts = xp.sum(xp.cast(chosen, np.int32), 1, keepdims=True)
    return xp.positions(chosen, options.predictions), xp.cast(counts, np.int32)


def _replacements(
    positions: Any,
    labels: Any,
    heads: Any,
    keys: Any,
    table: WordTable,
    options: ExampleOptions,
    xp: Any,
) -> Any:
    """int32 `[R, P]`: `[MASK]`, the piece itself, or a random one."""
    decides = xp.maximum(xp.gather(heads, positions), 0) if options.span_masking else positions
    replace = draws.uniform(keys, REPLACE, decides, xp)
    number = draws.uniform(keys, RANDOM, positions, xp) * len(table.random_ids)
    other = xp.take(table.random_ids, xp.cast(number, np.int32))
    other = xp.where(replace < UNCHANGED, labels, other)
    return xp.where(replace < MASKED, table.mask_id, other)


def _permuted(
    ids: Any, chosen: Any, keys: Any, table: WordTable, options: ExampleOptions, xp: Any
) -> Any:
    """The chosen pieces of a row change places with one another."""
    positions, counts = _positions(chosen, options, xp)
    is_chosen = xp.arange(options.predictions) < counts
    shuffle = draws.uniform(keys, SHUFFLE, positions, xp)
    order = xp.argsort(xp.where(is_chosen, shuffle, np.inf))
    new = xp.gather(ids, xp.gather(positions, order))
    return xp.scatter(ids, positions, xp.where(is_chosen, new, table.classify_id))

"""`masking` as TensorFlow's graph operators: the same masks for the same draws.

It runs in `tf.data`, in `tf.function` and eagerly. Rows do not see one another.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data.pretraining import draws_graph
from albert_tf.data.pretraining.masking import KEPT, MASKED, STREAMS, Draws, Masked, Rows
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.words import WordTable


def draw(keys: Any, length: Any) -> Draws:
    """What masking rows of `length` pieces needs, for keys uint64 `[R]`; float64 `[R, length]`."""
    return Draws(*(draws_graph.uniform(keys, stream, length) for stream in STREAMS))


def mask(rows: Rows, drawn: Draws, table: WordTable, options: ExampleOptions) -> Masked:
    """Masks rows as `drawn` says, all of them tensors as `masking` has arrays."""
    words = _words(rows, table, options)
    budget = _predictions(rows.lengths, options)
    heads = _pick(words, budget, drawn, options, tf.fill(tf.shape(rows.ids), -1))
    chosen = heads >= 0
    ids = _replaced(rows.ids, heads, drawn, table, options)
    if options.do_permutation:
        both = _pick(words, budget, drawn, options, heads) >= 0
        ids = _permuted(ids, both & ~chosen, drawn.shuffle)
        chosen = both
    return _collected(rows.ids, ids, chosen, options.predictions)


class _Words(NamedTuple):
    """The words of rows. Bounds are where words begin, and each segment's `[SEP]`, in order.

    Attributes:
        starts: bool `[R, T]`, pieces that begin a word.
        bounds: int32 `[R, W]`, positions of the bounds.
        numbers: int32 `[R, T]`, of the last bound at or before a position.
        segment_ends: int32 `[R, T]`, number of the bound that ends a position's segment.
    """

    starts: tf.Tensor
    bounds: tf.Tensor
    numbers: tf.Tensor
    segment_ends: tf.Tensor


def _words(rows: Rows, table: WordTable, options: ExampleOptions) -> _Words:
    at = tf.range(tf.shape(rows.ids)[1])
    first, lengths = rows.first[:, None], rows.lengths[:, None]
    separators = (at == first - 1) | (at == lengths - 1)
    starts = (at > 0) & (at < lengths) & ~separators
    if options.do_whole_word_mask:
        starts &= (at == 1) | (at == first) | tf.gather(tf.constant(table.starts), rows.ids)
    is_bound = starts | separators
    numbers = tf.cumsum(tf.cast(is_bound, tf.int32), axis=1) - 1
    ends = [_at(numbers, last - 1) for last in (first, lengths)]
    return _Words(starts, _positions(is_bound), numbers, tf.where(at < first, *ends))


def _predictions(lengths: tf.Tensor, options: ExampleOptions) -> tf.Tensor:
    """int32 `[R]`: pieces to mask."""
    wanted = tf.round(options.masked_lm_prob * tf.cast(lengths, tf.float64))
    wanted = tf.minimum(tf.maximum(1, tf.cast(wanted, tf.int32)), options.masked_predictions)
    return wanted if options.masked_lm_prob else tf.zeros_like(wanted)


def _pick(
    words: _Words, budget: tf.Tensor, drawn: Draws, options: ExampleOptions, heads: tf.Tensor
) -> tf.Tensor:
    """int32 `[R, T]`: for each piece that gets picked, where its n-gram begins; -1 for the others.

    All rows take their turns side by side: the k-th word of each is looked at in step k.

    Args:
        budget: int32 `[R]`, pieces to pick.
        heads: int32 `[R, T]`, as returned: what was picked before, and stays.
    """
    begins = tf.argsort(tf.where(words.starts, drawn.order, np.inf), axis=1, stable=True)
    counts = tf.reduce_sum(tf.cast(words.starts, tf.int32), axis=1, keepdims=True)
    limits = np.cumsum(options.ngram_probabilities)[:-1]
    sizes = 1 + tf.searchsorted(limits, tf.reshape(drawn.ngram, [-1]), side="right")
    last = words.numbers + tf.reshape(sizes, tf.shape(heads))
    last = tf.minimum(last, words.segment_ends)  # the bounds where the drawn n-grams end
    at, steps = tf.range(tf.shape(heads)[1]), tf.range(1, len(limits) + 2)

    def going_on(turn: tf.Tensor, remaining: tf.Tensor, heads: tf.Tensor) -> tf.Tensor:
        return tf.reduce_any((remaining > 0) & (turn < counts))

    def visit(turn: tf.Tensor, remaining: tf.Tensor, heads: tf.Tensor) -> tuple[tf.Tensor, ...]:
        begin = begins[:, turn, None]
        ends = _at(words.bounds, tf.minimum(_at(words.numbers, begin) + steps, _at(last, begin)))
        fitting = tf.where(ends - begin <= remaining, ends, begin)
        end = tf.reduce_max(fitting, axis=1, keepdims=True)
        word = tf.concat([begin, fitting[:, :-1]], axis=1)  # where each of its words begins
        free = tf.reduce_all((_at(heads, word) < 0) | (word >= end), axis=1, keepdims=True)
        end = tf.where(free & (turn < counts), end, begin)
        heads = tf.where((at >= begin) & (at < end), begin, heads)
        return turn + 1, remaining - (end - begin), heads

    return tf.while_loop(going_on, visit, (tf.constant(0), budget[:, None], heads))[2]


def _replaced(
    ids: tf.Tensor, heads: tf.Tensor, drawn: Draws, table: WordTable, options: ExampleOptions
) -> tf.Tensor:
    replace = drawn.replace
    if options.span_masking:
        replace = _at(replace, tf.maximum(heads, 0))
    number = tf.cast(drawn.word * len(table.random_ids), tf.int32)
    other = tf.where(replace < KEPT, ids, tf.gather(tf.constant(table.random_ids), number))
    return tf.where(heads >= 0, tf.where(replace < MASKED, table.mask_id, other), ids)


def _permuted(ids: tf.Tensor, chosen: tf.Tensor, shuffle: tf.Tensor) -> tf.Tensor:
    """Pieces at the chosen places of a row change places with one another."""
    order = tf.argsort(tf.where(chosen, shuffle, np.inf), axis=1, stable=True)
    number = tf.cumsum(tf.cast(chosen, tf.int32), axis=1, exclusive=True)
    return tf.where(chosen, _at(ids, _at(order, tf.minimum(number, tf.shape(ids)[1] - 1))), ids)


def _collected(before: tf.Tensor, after: tf.Tensor, chosen: tf.Tensor, most: int) -> Masked:
    counts = tf.reduce_sum(tf.cast(chosen, tf.int32), axis=1)
    positions = _positions(chosen, most)
    labels = tf.where(tf.range(most) < counts[:, None], _at(before, positions), 0)
    return Masked(after, positions, labels, counts)


def _positions(chosen: tf.Tensor, width: int | None = None) -> tf.Tensor:
    """int32 `[R, width]`: the positions where `chosen` `[R, T]` is True, in order, then 0.

    Without a width, as wide as the row with the most of them.
    """
    at = tf.broadcast_to(tf.range(tf.shape(chosen)[1]), tf.shape(chosen))
    return tf.ragged.boolean_mask(at, chosen).to_tensor(shape=[chosen.shape[0], width])


def _at(values: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Of each row of `values` `[R, T]`, those at `places` `[R, …]`."""
    return tf.gather(values, places, axis=1, batch_dims=1)

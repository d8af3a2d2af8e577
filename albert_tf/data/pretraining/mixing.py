"""Batches of several sets of records in one run; each batch is from one of them."""

from collections.abc import Sequence

import tensorflow as tf

from albert_tf.data.pretraining.batches import pretraining_batches
from albert_tf.data.pretraining.sources import RecordFiles


def mixed_batches(
    sources: Sequence[RecordFiles],
    weights: Sequence[int],
    batch_size: int,
    seed: int,
    start: int,
    part: tuple[int, int],
) -> tf.data.Dataset:
    """Yields batches without end, from each source as often as its weight says.

    Args:
        start: number of batches to skip, to resume a run.
        part: as for `pretraining_batches`.
    Returns:
        Features and labels; T and P are those of the batch's source.
    """
    begin = taken(weights, start)
    datasets = [
        pretraining_batches(source, batch_size, seed + number, begin[number], part=part)
        for number, source in enumerate(sources)
    ]
    if len(datasets) == 1:
        return datasets[0]
    order = turns(weights)
    first = start % len(order)
    choice = tf.data.Dataset.from_tensor_slices(
        tf.constant(order[first:] + order[:first], tf.int64)
    )
    return tf.data.Dataset.choose_from_datasets(datasets, choice.repeat())


def turns(weights: Sequence[int]) -> list[int]:
    """Returns the source of each batch of a round, in which each has as many as its weight.

    The next one is the source that is furthest behind its share.
    """
    total = sum(weights)
    behind, order = [0] * len(weights), []
    for _ in range(total):
        behind = [each + weight for each, weight in zip(behind, weights, strict=True)]
        order.append(behind.index(max(behind)))
        behind[order[-1]] -= total
    return order


def taken(weights: Sequence[int], steps: int) -> list[int]:
    """Returns how many of the first batches each source gives."""
    order = turns(weights)
    rounds, rest = divmod(steps, len(order))
    return [rounds * weight + order[:rest].count(at) for at, weight in enumerate(weights)]

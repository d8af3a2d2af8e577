"""Padded batches of similar lengths, in an order that is a pure function of seed and epoch."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import tensorflow as tf

from albert_tf.data.tasks.rows import Rows

WINDOW: Final = 50  # batches whose examples are sorted together by length


def batch_order(lengths: np.ndarray, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """The rows of each batch of an epoch.

    Shuffles the rows, sorts windows of `WINDOW` batches by length, cuts them into batches, and
    shuffles the batches. One batch may be smaller.
    """
    generator = np.random.default_rng((seed, epoch))
    order = generator.permutation(len(lengths))
    batches: list[np.ndarray] = []
    for start in range(0, len(order), WINDOW * batch_size):
        window = order[start : start + WINDOW * batch_size]
        window = window[np.argsort(lengths[window], kind="stable")]
        batches += np.split(window, range(batch_size, len(window), batch_size))
    return [batches[place] for place in generator.permutation(len(batches))]


def training_batches(data: Rows, batch_size: int, seed: int, start: int = 0) -> tf.data.Dataset:
    """Yields batches epoch after epoch, without end, beginning with batch number `start`."""

    def generate() -> Iterator[Any]:
        epoch, skip = divmod(start, steps_per_epoch(len(data), batch_size))
        while True:
            for rows in batch_order(data.lengths, batch_size, seed, epoch)[skip:]:
                yield data.batch(rows)
            epoch, skip = epoch + 1, 0

    return from_batches(generate, data.batch(np.array([0])))


def from_batches(generate: Callable[[], Iterator[Any]], example: Any) -> tf.data.Dataset:
    """Returns the batches that a function yields, which are as `example` but of any shape."""
    signature = tf.nest.map_structure(
        lambda array: tf.TensorSpec([None] * array.ndim, array.dtype), example
    )
    return tf.data.Dataset.from_generator(generate, output_signature=signature).prefetch(8)


def evaluation_order(lengths: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """The rows of each batch of an evaluation: every row once, sorted by length."""
    order = np.argsort(lengths, kind="stable")
    return np.split(order, range(batch_size, len(order), batch_size))


def steps_per_epoch(examples: int, batch_size: int) -> int:
    """Batches in an epoch, including a smaller one."""
    return -(-examples // batch_size)

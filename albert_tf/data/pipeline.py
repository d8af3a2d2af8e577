"""Padded batches of similar lengths, in an order that is a pure function of seed and epoch."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np
import tensorflow as tf

from albert_tf.data.tasks.rows import SAMPLE_WEIGHT, Rows

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
    return [batches[number] for number in generator.permutation(len(batches))]


def training_batches(
    data: Rows,
    batch_size: int,
    seed: int,
    start: int = 0,
    parts: int = 1,
    part: tuple[int, int] = (0, 1),
    jit_compile: bool = False,
) -> tf.data.Dataset:
    """Yields batches epoch after epoch, without end, beginning with batch number `start`.

    Where replicas or micro-batches share a batch, each one has the same number of rows:
    `filled_size`. The rows that fill it up repeat its own, and their `SAMPLE_WEIGHT` among the
    labels is 0, so that they count neither in a loss nor in its mean, whatever their labels are.

    Args:
        parts: number of replicas times micro-batches.
        part: number of this host, from 0, and of all hosts; each yields its part of every batch.
        jit_compile: whether XLA compiles the step; see `Rows.batch`.
    """
    size, count = filled_size(batch_size, parts), steps_per_epoch(len(data), batch_size)

    @lru_cache(maxsize=1)
    def order(epoch: int) -> list[np.ndarray]:
        return batch_order(data.lengths, batch_size, seed, epoch)

    def batch(rows: np.ndarray) -> Any:
        if parts == 1:
            return data.batch(rows, jit_compile)
        features, labels = data.batch(np.resize(rows, size), jit_compile)
        weights = (np.arange(size) < len(rows)).astype("float32")
        return features, {**labels, SAMPLE_WEIGHT: weights}

    def batch_at(number: int) -> Any:
        epoch, position = divmod(number, count)
        arrays = batch(order(epoch)[position])
        return arrays if part[1] == 1 else tf.nest.map_structure(own, arrays)

    def own(array: np.ndarray) -> np.ndarray:
        return np.split(array, part[1])[part[0]]  # after padding: hosts need equal lengths

    return mapped_batches(tf.data.Dataset.counter(start), batch_at, batch(np.array([0])))


def mapped_batches(
    numbers: tf.data.Dataset, batch_at: Callable[[int], Any], example: Any
) -> tf.data.Dataset:
    """Returns the batches of these numbers, which are as `example` but of any shape.

    `Dataset.from_generator` would make freed memory return to the system at once, for the rest of
    the process (TensorFlow's generator_dataset_op.cc), and slow down steps on short texts.
    """
    arrays = tf.nest.flatten(example)

    def batch(number: tf.Tensor) -> Any:
        tensors = tf.numpy_function(
            lambda number: tf.nest.flatten(batch_at(int(number))),
            [number],
            [array.dtype for array in arrays],
        )
        for tensor, array in zip(tensors, arrays, strict=True):
            tensor.set_shape([None] * array.ndim)
        return tf.nest.pack_sequence_as(example, tensors)

    options = tf.data.Options()
    # tf.data's tuner gains nothing here; on one core an iterator's end waits for it up to a minute.
    options.autotune.enabled = False
    return numbers.map(batch).prefetch(8).with_options(options)


def filled_size(batch_size: int, parts: int) -> int:
    """Returns the rows of a batch that equal parts share."""
    return -(-batch_size // parts) * parts


def evaluation_order(lengths: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """The rows of each batch of an evaluation: every row once, sorted by length."""
    order = np.argsort(lengths, kind="stable")
    return np.split(order, range(batch_size, len(order), batch_size))


def steps_per_epoch(examples: int, batch_size: int) -> int:
    """Batches in an epoch, including a smaller one."""
    return -(-examples // batch_size)

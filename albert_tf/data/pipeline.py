"""Padded batches of similar lengths, in an order that is a pure function of seed and epoch."""

import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import tensorflow as tf

from albert_tf.data.tasks.rows import IGNORED, Rows

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


def batches(
    rows: Rows,
    batch_size: int,
    seed: int,
    *,
    start: int = 0,
    endless: bool = False,
    shuffle: bool = True,
    sample_weight: Sequence[float] | None = None,
    class_weight: Sequence[float] | None = None,
    parts: int = 1,
    part: tuple[int, int] = (0, 1),
    jit_compile: bool = False,
) -> tf.data.Dataset:
    """Returns the batches of an epoch, another one at each iteration; or all of them, without end.

    A batch is what `fit` takes: features, labels (an array, or a dict of other targets than
    `labels`) and weights where there are some. Which rows it has is a pure function of the seed and
    its number.

    Where replicas or micro-batches share a batch, each one has the same number of rows:
    `filled_size`. Rows that fill it up repeat its own and don't count in the loss: their classes
    are `IGNORED`; beside labels that aren't classes their weight is 0, and that of the others makes
    up for them in the mean.

    Args:
        start: number of the first batch.
        shuffle: whether labelled rows are in the order of `batch_order`; others keep their order.
        sample_weight: of each row.
        class_weight: of each class's labels.
        parts: number of replicas times micro-batches.
        part: number of this host, from 0, and of all hosts; each yields its part of every batch.
        jit_compile: whether XLA compiles the step; see `Rows.batch`.
    """
    size, count = filled_size(batch_size, parts), steps_per_epoch(len(rows), batch_size)
    given = None if sample_weight is None else np.asarray(sample_weight, "float32")
    of_class = None if class_weight is None else np.asarray(class_weight, "float32")

    @lru_cache(maxsize=1)
    def order(epoch: int) -> list[np.ndarray]:
        if rows.labels and shuffle:
            return batch_order(rows.lengths, batch_size, seed, epoch)
        return np.split(np.arange(len(rows)), range(batch_size, len(rows), batch_size))

    def batch(chosen: np.ndarray) -> Any:
        filled = chosen if parts == 1 else np.resize(chosen, size)
        features, labels = rows.batch(filled, jit_compile)
        if not labels:
            return features
        weights = None if given is None else given[filled]
        if of_class is not None:
            (classes,) = labels.values()
            weights = of_class[np.maximum(classes, 0)]
        if parts > 1:
            is_filling = np.arange(size) >= len(chosen)
            if all(label.dtype.kind == "i" for label in labels.values()):
                for label in labels.values():
                    label[is_filling] = IGNORED
            else:
                scale = np.where(is_filling, 0, size / len(chosen)).astype("float32")
                weights = scale if weights is None else scale * weights
        targets = labels["labels"] if labels.keys() == {"labels"} else labels
        return (features, targets) if weights is None else (features, targets, weights)

    def batch_at(number: int) -> Any:
        epoch, position = divmod(number, count)
        arrays = batch(order(epoch)[position])
        return arrays if part[1] == 1 else tf.nest.map_structure(own, arrays)

    def own(array: np.ndarray) -> np.ndarray:
        return np.split(array, part[1])[part[0]]  # after padding: hosts need equal lengths

    example = batch(np.array([0]))
    if endless:
        return mapped_batches(tf.data.Dataset.counter(start), batch_at, example)
    begun = itertools.count(start, count)

    def numbers(_: tf.Tensor) -> tf.data.Dataset:
        first = tf.numpy_function(lambda: next(begun), [], tf.int64)
        return tf.data.Dataset.range(first, first + count)

    each_epoch = tf.data.Dataset.range(1).flat_map(numbers)
    # With an unknown length Keras runs an empty step at the end of each epoch on TensorFlow.
    known = tf.data.experimental.assert_cardinality(count)
    return mapped_batches(each_epoch, batch_at, example).apply(known)


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

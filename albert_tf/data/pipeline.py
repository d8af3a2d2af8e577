"""The batches of a run. Each batch depends only on its number and a seed."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data.tasks.rows import Rows, evaluation_order, in_batches
from albert_tf.errors import UserError
from albert_tf.tasks import IGNORED

# Dataset transformations that read one epoch of their input for each epoch of their own.
_BY_EPOCH: Final = ("AssertCardinality", "Filter", "Map", "Options", "ParallelMap", "Prefetch")
WINDOW: Final = 50  # batches whose examples are sorted together by length


class Share(NamedTuple):
    """How each batch is split across replicas, micro-batches, and hosts.

    Attributes:
        parts: number of replicas times number of micro-batches.
        host: 0-based rank of this host.
        hosts: number of hosts.
    """

    parts: int = 1
    host: int = 0
    hosts: int = 1

    def size(self, batch_size: int) -> int:
        """Returns the batch size, rounded up to a multiple of `parts`."""
        return -(-batch_size // self.parts) * self.parts


WHOLE: Final = Share()


class Batches:
    """Padded batches of rows with similar lengths.

    Each batch has the structure that `fit` expects: features, labels (an array, or a dict if there
    are targets other than `labels`), and weights if there are any. All replicas and micro-batches
    get the same number of rows; see `without_padding`.

    Args:
        rows: the encoded examples.
        batch_size: number of rows in a batch; one batch per epoch may be smaller.
        seed: seed for shuffling and masking; None for an evaluation, whose rows aren't shuffled and
            have the same masks in every epoch.
        shuffle: whether to shuffle labeled rows with `batch_order`.
        share: how a batch is split across devices.
        jit_compile: whether XLA compiles the step; see `Rows.batch`.
    Attributes:
        next_epoch: number of the epoch that the next iteration over `epochs()` yields.
    """

    def __init__(
        self,
        rows: Rows,
        batch_size: int,
        seed: int | None = 0,
        *,
        shuffle: bool = True,
        share: Share = WHOLE,
        jit_compile: bool = False,
    ):
        self.rows, self.batch_size, self.seed = rows, batch_size, seed
        self.shuffle, self.share, self.jit_compile = shuffle, share, jit_compile
        self.next_epoch = 0
        self._order = lru_cache(maxsize=1)(self._order_of)

    def __len__(self) -> int:
        return steps_per_epoch(len(self.rows), self.batch_size)

    def __getitem__(self, number: int) -> Any:
        """Returns batch number `epoch * len(self) + position`."""
        epoch, position = divmod(number, len(self))
        batch = self.of(self._order(epoch, self.seed)[position], epoch)
        if self.share.hosts == 1:
            return batch
        # Splits the batch after padding, because the length must be the same on all hosts.
        return tf.nest.map_structure(
            lambda array: np.split(array, self.share.hosts)[self.share.host], batch
        )

    def of(self, chosen: np.ndarray, epoch: int = 0) -> Any:
        """Returns a batch of the rows `chosen`, padded to the longest one."""
        size = len(chosen) if self.share.parts == 1 else self.share.size(self.batch_size)
        rows = self.rows if self.seed is None else self.rows.in_epoch(epoch, self.seed)
        features, labels, weights = rows.batch(np.resize(chosen, size), self.jit_compile)
        if not labels:
            return features
        if self.share.parts > 1:
            labels, weights = without_padding(labels, weights, len(chosen))
        targets = labels["labels"] if labels.keys() == {"labels"} else labels
        return (features, targets) if weights is None else (features, targets, weights)

    def endless(self, start: int = 0) -> tf.data.Dataset:
        """Returns an infinite dataset of batches, starting with batch number `start`."""
        return self._dataset(tf.data.Dataset.counter(start))

    def epochs(self) -> tf.data.Dataset:
        """Returns a dataset that yields one epoch per iteration, starting with `next_epoch`.

        The dataset's attribute `batches` refers to this object.
        """
        count = len(self)

        def first_number() -> int:
            first = self.next_epoch * count
            self.next_epoch += 1
            return first

        def numbers(_: tf.Tensor) -> tf.data.Dataset:
            first = tf.numpy_function(first_number, [], tf.int64)
            return tf.data.Dataset.range(first, first + count)

        each_epoch = tf.data.Dataset.range(1).flat_map(numbers)
        # On TensorFlow, Keras ends each epoch of a dataset of unknown size with an empty step.
        known = tf.data.experimental.assert_cardinality(count)
        dataset = self._dataset(each_epoch).apply(known)
        dataset.batches = self
        return dataset

    def _order_of(self, epoch: int, seed: int | None) -> list[np.ndarray]:
        if self.rows.labels and self.shuffle and seed is not None:
            return batch_order(self.rows.lengths, self.batch_size, seed, epoch)
        return in_batches(np.arange(len(self.rows)), self.batch_size)

    def _dataset(self, numbers: tf.data.Dataset) -> tf.data.Dataset:
        def free(array: np.ndarray) -> tf.TensorSpec:
            return tf.TensorSpec([None] * array.ndim, array.dtype)

        def fixed(array: np.ndarray) -> tf.TensorSpec:
            return tf.TensorSpec([None, *array.shape[1:]], array.dtype)

        example = self.of(np.array([0]))
        specs = tf.nest.map_structure(free, example)
        if isinstance(example, tuple) and not self.rows.has_tags:
            # Metrics such as F1Score require the number of classes.
            specs = (specs[0], *tf.nest.map_structure(fixed, example[1:]))
        return mapped_batches(numbers, self.__getitem__, specs)


def batches_of(dataset: Any) -> Batches | None:
    """Returns the `Batches` that a dataset reads, even after a transformation such as `prefetch`.

    Raises:
        UserError: if a transformation such as `cache` changes which epochs of the `Batches` are
            read.
    """
    if not isinstance(dataset, tf.data.Dataset):
        return None
    if hasattr(dataset, "batches"):  # see `Batches.epochs`
        return dataset.batches
    inputs = map(batches_of, dataset._inputs())  # TensorFlow has no public method for this
    found = next(filter(None, inputs), None)
    kind = type(dataset).__name__.strip("_").removesuffix("Dataset")
    if found is not None and kind not in (*_BY_EPOCH, "Skip", "Take", "Repeat"):
        raise UserError(
            f"Resume can't restore the order of batches from albert_tf.data after {kind}. Drop "
            "this transformation, or pass the texts to fit."
        )
    return found


def batch_order(lengths: np.ndarray, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Returns the row indices of each batch in an epoch.

    The rows are shuffled, sorted by length in windows of `WINDOW` batches, and split into batches.
    The order of the batches is then shuffled. One batch may be smaller.
    """
    generator = np.random.default_rng((seed, epoch))
    order = generator.permutation(len(lengths))
    batches: list[np.ndarray] = []
    for start in range(0, len(order), WINDOW * batch_size):
        window = order[start : start + WINDOW * batch_size]
        batches += evaluation_order(lengths[window], batch_size, window)
    return [batches[number] for number in generator.permutation(len(batches))]


def without_padding(
    labels: dict[str, np.ndarray], weights: np.ndarray | None, count: int
) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """Excludes all but the first `count` rows from the loss, and returns labels and weights.

    The excluded rows are copies that fill up the batch. If all labels are class ids, the labels of
    these rows become `IGNORED`. Otherwise, these rows get a weight of 0, and the other weights are
    scaled so that the mean loss stays the same.
    """
    size = len(next(iter(labels.values())))
    is_padding = np.arange(size) >= count
    if all(label.dtype.kind == "i" for label in labels.values()):
        for label in labels.values():
            label[is_padding] = IGNORED
        return labels, weights
    scale = np.where(is_padding, 0, size / count).astype("float32")
    return labels, scale if weights is None else scale * weights


def weighted_by_class(dataset: tf.data.Dataset, weights: Mapping[int, float]) -> tf.data.Dataset:
    """Adds the weight of each label's class to batches of features and labels.

    Unlike in Keras, labels can also be `IGNORED`.

    Args:
        weights: weights keyed by class id. Classes without a weight get a weight of 1.
    Raises:
        UserError: if the batches already have weights.
    """
    if len(dataset.element_spec) > 2:
        raise UserError(
            "class_weight and sample_weight can't be combined. Multiply sample_weight by the "
            "weight of each example's class, and omit class_weight."
        )
    count = max(weights, default=0) + 1
    by_class = tf.constant([weights.get(number, 1.0) for number in range(count)], tf.float32)

    def with_weights(features: Any, labels: Any) -> Any:
        (classes,) = tf.nest.flatten(labels)
        if len(classes.shape) > 1 and classes.shape[-1] != 1:  # probabilities
            classes = tf.argmax(classes, axis=-1)
        classes = tf.cast(tf.reshape(classes, [-1]), tf.int32)
        exists = (classes >= 0) & (classes < count)
        found = tf.gather(by_class, tf.where(exists, classes, 0))
        return features, labels, tf.where(exists, found, 1.0)

    return dataset.map(with_weights)


def mapped_batches(
    numbers: tf.data.Dataset, batch_at: Callable[[int], Any], specs: Any
) -> tf.data.Dataset:
    """Maps batch numbers to batches.

    `Dataset.from_generator` isn't used, because it would slow down steps on short texts: it makes
    the process return freed memory to the system immediately (see generator_dataset_op.cc).

    Args:
        batch_at: function that returns the batch with a given index.
        specs: `tf.TensorSpec`s with the structure of a batch.
    """

    def batch(number: tf.Tensor) -> Any:
        tensors = tf.numpy_function(
            lambda number: tf.nest.flatten(batch_at(int(number))),
            [number],
            [spec.dtype for spec in tf.nest.flatten(specs)],
        )
        for tensor, spec in zip(tensors, tf.nest.flatten(specs), strict=True):
            tensor.set_shape(spec.shape)
        return tf.nest.pack_sequence_as(specs, tensors)

    options = tf.data.Options()
    # Autotuning doesn't help. On one core, it can delay the end of an iterator by a minute.
    options.autotune.enabled = False
    return numbers.map(batch).prefetch(8).with_options(options)


def steps_per_epoch(examples: int, batch_size: int) -> int:
    """Returns the number of batches in an epoch, including a smaller last batch."""
    return -(-examples // batch_size)

"""Padded batches of similar lengths, in an order that is a pure function of seed and epoch."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from albert_tf.data import features
from albert_tf.data.readers import Example
from albert_tf.text.base_tokenizer import BaseTokenizer

WINDOW: Final = 50  # batches whose examples are sorted together by length
MULTIPLE: Final = 8  # lengths are rounded up to it, so that few shapes are traced


class EncodedExamples:
    """Examples as ids without padding, and their labels.

    Args:
        examples: texts or pairs of texts.
        tokenizer: encodes them.
        max_length: longest row in pieces, special tokens included.
        label: returns the class or the score of an example.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        tokenizer: BaseTokenizer,
        max_length: int,
        label: Callable[[Example], float],
    ):
        pairs = [example.text_pair for example in examples]
        encoded = tokenizer(
            [example.text for example in examples],
            None if pairs[0] is None else [pair or "" for pair in pairs],
            truncation=True,
            max_length=max_length,
            split_special_tokens=True,
        )
        self.input_ids = [np.asarray(row, "int32") for row in encoded["input_ids"]]
        self.token_type_ids = [np.asarray(row, "int32") for row in encoded["token_type_ids"]]
        self.pad_id = tokenizer.pad_token_id
        self.labels = np.asarray([label(example) for example in examples])
        self.lengths = np.asarray([len(row) for row in self.input_ids])

    def __len__(self) -> int:
        return len(self.input_ids)

    def batch(self, rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Features `[B, T]` padded to the longest of `rows` (rounded up), and labels `[B]`."""
        length = -(-int(self.lengths[rows].max()) // MULTIPLE) * MULTIPLE
        shape = (len(rows), length)
        batch = {feature.name: np.zeros(shape, feature.dtype) for feature in features.INPUTS}
        batch[features.INPUT_IDS.name].fill(self.pad_id)
        for place, row in enumerate(rows):
            end = self.lengths[row]
            batch[features.INPUT_IDS.name][place, :end] = self.input_ids[row]
            batch[features.TOKEN_TYPE_IDS.name][place, :end] = self.token_type_ids[row]
            batch[features.ATTENTION_MASK.name][place, :end] = 1
        return batch, self.labels[rows]


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


def training_batches(
    data: EncodedExamples, batch_size: int, seed: int, start: int = 0
) -> tf.data.Dataset:
    """Yields batches epoch after epoch, without end, beginning with batch number `start`."""

    def generate() -> Iterator[Any]:
        epoch, skip = divmod(start, steps_per_epoch(len(data), batch_size))
        while True:
            for rows in batch_order(data.lengths, batch_size, seed, epoch)[skip:]:
                yield data.batch(rows)
            epoch, skip = epoch + 1, 0

    return _dataset(generate, data)


def evaluation_batches(data: EncodedExamples, batch_size: int) -> tf.data.Dataset:
    """Yields every example once, sorted by length: in `evaluation_order`."""
    order = evaluation_order(data)
    batches = np.split(order, range(batch_size, len(order), batch_size))
    dataset = _dataset(lambda: map(data.batch, batches), data)
    return dataset.apply(tf.data.experimental.assert_cardinality(len(batches)))


def evaluation_order(data: EncodedExamples) -> np.ndarray:
    """The rows in the order of `evaluation_batches`."""
    return np.argsort(data.lengths, kind="stable")


def steps_per_epoch(examples: int, batch_size: int) -> int:
    """Batches in an epoch, including a smaller one."""
    return -(-examples // batch_size)


def _dataset(generate: Callable[[], Any], data: EncodedExamples) -> tf.data.Dataset:
    label = features.SCORE_LABEL if data.labels.dtype.kind == "f" else features.CLASS_LABEL
    inputs = {
        feature.name: tf.TensorSpec(feature.shape, feature.dtype) for feature in features.INPUTS
    }
    signature = inputs, tf.TensorSpec(label.shape, label.dtype)
    return tf.data.Dataset.from_generator(generate, output_signature=signature).prefetch(8)

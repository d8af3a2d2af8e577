"""Metrics for `compile` that run on every backend."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from albert_tf.errors import UserError, listed
from albert_tf.evaluation.entities import parsed, unprefixed


@keras.saving.register_keras_serializable("albert_tf")
class ExactMatch(keras.metrics.Mean):
    """Computes how often both start and end are correct, for `AlbertForQuestionAnswering`.

    Args:
        name: (Optional) string name of the metric instance.
        dtype: (Optional) data type of the metric result.
    Call arguments:
        y_true: start and end positions, int `[B, 2]`. Windows with a negative position are ignored.
        y_pred: logits or probabilities, `[B, 2, T]`.

    Example:
        >>> from albert_tf import AlbertForQuestionAnswering, ExactMatch
        >>> model = AlbertForQuestionAnswering.from_pretrained("small")
        >>> model.compile(metrics=[ExactMatch()])
    """

    def __init__(self, name: str = "exact_match", dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        self._direction = "up"  # tells Keras callbacks that higher is better

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        true = ops.cast(y_true, "int32")
        right = ops.all(ops.equal(ops.cast(ops.argmax(y_pred, axis=-1), "int32"), true), axis=-1)
        weights = ops.cast(ops.all(true >= 0, axis=-1), self.dtype)
        if sample_weight is not None:
            weights *= ops.reshape(ops.cast(sample_weight, self.dtype), (-1,))
        super().update_state(ops.cast(right, self.dtype), weights)


@keras.saving.register_keras_serializable("albert_tf")
class EntityF1(keras.metrics.Metric):
    """Computes the entity F1 over an epoch, as conlleval and seqeval do.

    An entity is correct if its type and all of its words are correct. Positions with the label -100
    are ignored, so that only the first token of each word counts.

    Args:
        labels: label names of the model, in the order of their class ids.
        name: (Optional) string name of the metric instance.
        dtype: (Optional) data type of the metric result.
    Call arguments:
        y_true: class ids, int `[B, T]`.
        y_pred: logits or probabilities, `[B, T, C]`.
    Raises:
        UserError: if a label other than "O" has no prefix such as "B-".

    Example:
        >>> from albert_tf import AlbertForTokenClassification, EntityF1
        >>> names = ["O", "B-PER", "I-PER"]
        >>> model = AlbertForTokenClassification.from_pretrained(
        ...     "small", id2label=dict(enumerate(names)))
        >>> model.compile(metrics=[EntityF1(names)])
    """

    def __init__(self, labels: Sequence[str], name: str = "entity_f1", dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        self._direction = "up"  # tells Keras callbacks that higher is better
        self.labels = list(labels)
        if stray := unprefixed(self.labels):
            raise UserError(
                "Entity F1 requires a prefix such as B- on every label except O. Received: "
                f"{listed(stray)}. Use metrics=['accuracy'] for such labels."
            )
        known = parsed(self.labels)
        tags = [known[label] for label in self.labels]
        kinds = ["", *sorted({tag.kind for tag in tags} - {""})]
        self._kinds = np.array([kinds.index(tag.kind) for tag in tags], "int32")
        self._continuing = np.array([tag.prefix in "IE" for tag in tags])
        self._open = np.array([tag.prefix in "BI" for tag in tags])
        self.counts = self.add_weight(shape=(3,), initializer="zeros", name="counts")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Accumulates the entities of a batch; `sample_weight` is `[B]`, one per sentence."""
        labels = ops.cast(y_true, "int32")
        is_word = labels >= 0
        order = _to_the_front(is_word)
        is_word = ops.take_along_axis(is_word, order, axis=1)
        expected, predicted = (
            self._spans(ops.take_along_axis(ops.cast(tags, "int32"), order, axis=1), is_word)
            for tags in (labels, ops.argmax(y_pred, axis=-1))
        )
        right = expected[2] & predicted[2]  # both end here
        for one, other in zip(expected[:2], predicted[:2], strict=True):
            right = right & (one == other)
        ends = (right, expected[2], predicted[2])
        counts = ops.stack([ops.sum(ops.cast(each, self.dtype), axis=1) for each in ends], axis=-1)
        if sample_weight is not None:
            counts *= ops.reshape(ops.cast(sample_weight, self.dtype), (-1, 1))
        self.counts.assign_add(ops.sum(counts, axis=0))

    def result(self) -> Any:
        return 2 * self.counts[0] / ops.maximum(self.counts[1] + self.counts[2], 1.0)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "labels": self.labels}

    def _spans(self, tags: Any, is_word: Any) -> tuple[Any, Any, Any]:
        """Returns each word's entity type (0 for none) and start, and whether the entity ends."""
        tags = ops.where(is_word, tags, 0)
        kinds = ops.where(is_word, ops.take(self._kinds, tags), 0)
        open_before = ops.pad(ops.take(self._open, tags)[:, :-1], ((0, 0), (1, 0)))
        kinds_before = ops.pad(kinds[:, :-1], ((0, 0), (1, 0)))
        continues = ops.take(self._continuing, tags) & open_before & (kinds == kinds_before)
        is_entity = kinds > 0
        begins = is_entity & ops.logical_not(continues)
        ends = is_entity & ops.logical_not(ops.pad(continues[:, 1:], ((0, 0), (0, 1))))
        number = ops.cumsum(ops.cast(begins, "int32"), axis=1) - 1
        starts = ops.take_along_axis(_to_the_front(begins), ops.maximum(number, 0), axis=1)
        return kinds, starts, ends


def _to_the_front(chosen: Any) -> Any:
    """Returns indices that move the True positions of bool `[B, T]` to the front, in order."""
    positions = ops.cumsum(ops.ones_like(chosen, dtype="int32"), axis=1)
    keys = ops.where(chosen, positions, positions + ops.shape(chosen)[1])
    return ops.cast(ops.argsort(keys, axis=1), "int32")

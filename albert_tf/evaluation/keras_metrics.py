"""Metrics for `compile`, on every backend."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("albert_tf")
class MatthewsCorrelation(keras.metrics.Metric):
    """Matthews' correlation of the classes of an epoch, from their confusion matrix.

    It equals scikit-learn's `matthews_corrcoef` over all examples at once, whatever the batches; 0
    if all labels, or all predictions, are of one class.

    Args:
        num_classes: C, the model's `num_labels`.
        name, dtype: as in `keras.metrics.Metric`.
    Call arguments:
        y_true: classes, int `[B]`.
        y_pred: logits or probabilities, `[B, C]`.

    Example:
        >>> from albert_tf import AlbertForSequenceClassification, MatthewsCorrelation
        >>> model = AlbertForSequenceClassification.from_pretrained("small", num_labels=2)
        >>> model.compile("adam", metrics=[MatthewsCorrelation(num_classes=2)])
    """

    def __init__(self, num_classes: int = 2, name: str = "matthews_correlation", dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        self.num_classes = num_classes
        self.confusion = self.add_weight(
            shape=(num_classes, num_classes), initializer="zeros", name="confusion"
        )

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        true = ops.one_hot(ops.reshape(ops.cast(y_true, "int32"), (-1,)), self.num_classes)
        found = ops.one_hot(ops.argmax(y_pred, axis=-1), self.num_classes)
        true = ops.cast(true, self.dtype)
        if sample_weight is not None:
            true *= ops.reshape(ops.cast(sample_weight, self.dtype), (-1, 1))
        self.confusion.assign_add(ops.matmul(ops.transpose(true), ops.cast(found, self.dtype)))

    def result(self) -> Any:
        # Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient",
        # as sums over one class against the others, in which float32 loses no rare class.
        shares = self.confusion / ops.maximum(ops.sum(self.confusion), 1.0)
        others = 1.0 - ops.eye(self.num_classes, dtype=self.dtype)
        missed = ops.diagonal(ops.matmul(shares, others))
        false = ops.diagonal(ops.matmul(others, shares))
        rest = ops.diagonal(ops.matmul(ops.matmul(others, shares), others))
        right = ops.diagonal(shares)
        covariance = ops.sum(right * rest - missed * false)
        variances = ops.sum((right + missed) * (false + rest)) * ops.sum(
            (right + false) * (missed + rest)
        )
        known = variances > 0
        return ops.where(known, covariance / ops.sqrt(ops.where(known, variances, 1.0)), 0.0)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_classes": self.num_classes}


@keras.saving.register_keras_serializable("albert_tf")
class ExactMatch(keras.metrics.Mean):
    """Share of windows whose start and end are both right, for `AlbertForQuestionAnswering`.

    Args:
        name, dtype: as in `keras.metrics.Metric`.
    Call arguments:
        y_true: positions of start and end, int `[B, 2]`; a window with a negative one is ignored.
        y_pred: logits or probabilities, `[B, 2, T]`.

    Example:
        >>> from albert_tf import AlbertForQuestionAnswering, ExactMatch
        >>> model = AlbertForQuestionAnswering.from_pretrained("small")
        >>> model.compile("adam", metrics=[ExactMatch()])
    """

    def __init__(self, name: str = "exact_match", dtype: Any = None):
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        true = ops.cast(y_true, "int32")
        right = ops.all(ops.equal(ops.cast(ops.argmax(y_pred, axis=-1), "int32"), true), axis=-1)
        weights = ops.cast(ops.all(true >= 0, axis=-1), self.dtype)
        if sample_weight is not None:
            weights *= ops.reshape(ops.cast(sample_weight, self.dtype), (-1,))
        super().update_state(ops.cast(right, self.dtype), weights)

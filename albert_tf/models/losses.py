"""Losses as weighted means, for every backend."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from albert_tf.layers.embedding import whole_numbers
from albert_tf.tasks import IGNORED


class Term(NamedTuple):
    """A term of a loss: a weighted mean.

    Attributes:
        values: float32 `[B, …]`.
        weights: weights `[B, …]`. A value with a weight of 0 is ignored.
        weight: factor by which the mean is multiplied.
    """

    values: Any
    weights: Any
    weight: float = 1.0


def total(terms: Sequence[Term]) -> Any:
    """Returns the sum of the terms' means."""
    return sum(map(mean, terms))


def mean(term: Term, sample_weight: Any = None, count: Any = None) -> Any:
    """Returns a term's mean times the term's factor. As in Keras, sample weights aren't normalized.

    Args:
        sample_weight: weights of the examples `[B]`, or of their values `[B, …]`.
        count: divisor of the sum. Default: the sum of the term's weights.
    """
    weighted = term.values * term.weights
    if sample_weight is not None:
        weighted = weighted * per_example(sample_weight, weighted)
    count = ops.sum(term.weights) if count is None else count
    return term.weight * ops.sum(weighted) / ops.maximum(count, keras.config.epsilon())


def per_example(weights: Any, values: Any) -> Any:
    """Converts weights `[B]` or `[B, …]` to the dtype and rank of `values` `[B, …]`."""
    factor = ops.cast(weights, values.dtype)
    if len(factor.shape) > len(values.shape):  # the last axis has size 1
        return ops.reshape(factor, ops.shape(values))
    shape = (*ops.shape(factor), *[1] * (len(values.shape) - len(factor.shape)))
    return ops.reshape(factor, shape)


def per_label(weight: Any, labels: Any) -> Any:
    """Broadcasts weights of examples `[B]` to labels `[B, …]`; returns other weights unchanged."""
    if len(labels.shape) <= len(getattr(weight, "shape", ())):
        return weight
    ones = ops.ones_like(labels)
    return per_example(weight, ones) * ones


def counted(labels: Any, rank: int, length: Any = None) -> Any:
    """Returns which labels contribute to the loss: bool, with `rank` axes.

    Args:
        labels: class ids (`IGNORED` doesn't count) or positions, with or without a last axis of
            size 1; or probabilities, whose last axis is the class axis. Probabilities whose first
            value is `IGNORED` don't count.
        rank: number of axes of class ids: 1 for `[B]`, 2 for `[B, T]`.
        length: sequence length, if the labels are positions. Positions outside it don't count.
    """
    if len(labels.shape) > rank:
        length = length if labels.shape[-1] == 1 else None
        labels = labels[..., 0]
    if length is not None:
        return ops.logical_and(labels >= 0, ops.less(labels, length))
    return ops.not_equal(labels, IGNORED)


def agree(shape: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Returns whether two shapes can be equal. Sizes that aren't ints are unknown."""
    return len(shape) == len(expected) and all(
        size == other or not (isinstance(size, int) and isinstance(other, int))
        for size, other in zip(shape, expected, strict=True)
    )


def _are_probabilities(labels: Any, logits: Any) -> bool:
    """Returns whether labels are probabilities `[B, …, C]` rather than class ids `[B, …, 1]`."""
    same_rank = len(labels.shape) == len(logits.shape)
    is_integer = "int" in keras.backend.standardize_dtype(labels.dtype)
    return same_rank and not is_integer and labels.shape[-1] != 1


def soft_cross_entropy(probabilities: Any, logits: Any, weight: float = 1.0) -> Term:
    """Returns the cross-entropy between `probabilities` and `logits`, both `[B, …, C]`.

    Rows of `probabilities` whose first value is `IGNORED` are ignored.

    Source: Hinton et al., arXiv 1503.02531.
    """
    sizes = {values.shape[-1] for values in (probabilities, logits)} - {None}
    if len(sizes) > 1:
        raise ValueError(
            "Labels given as probabilities must have the shape of the logits. Received: shape "
            f"{tuple(probabilities.shape)} for logits of shape {tuple(logits.shape)}."
        )
    target = ops.cast(probabilities, logits.dtype)
    counts = ops.cast(counted(probabilities, len(logits.shape) - 1), logits.dtype)
    target = target * ops.expand_dims(counts, -1)
    return Term(-ops.sum(target * ops.log_softmax(logits), axis=-1), counts, weight)


def cross_entropy(labels: Any, logits: Any, weight: float = 1.0) -> Term:
    """Returns the cross-entropy between `labels` and `logits` `[B, …, C]`.

    Args:
        labels: class ids `[B, …]` (`IGNORED` is ignored), or float probabilities `[B, …, C]`.
    """
    if _are_probabilities(labels, logits):
        return soft_cross_entropy(labels, logits, weight)
    reject_one_hot(labels, logits)
    if len(labels.shape) == len(logits.shape):  # the last axis has size 1
        labels = labels[..., 0]
    return _class_cross_entropy(labels, logits, counted(labels, len(labels.shape)), weight)


def reject_one_hot(labels: Any, logits: Any) -> None:
    """Rejects labels `[B, …, C]` where class ids `[B, …]` or `[B, …, 1]` are expected."""
    if len(labels.shape) == len(logits.shape) and labels.shape[-1] not in (1, None):
        raise not_ids(labels.shape)


def not_ids(shape: Sequence[Any]) -> ValueError:
    """Returns the error for labels with a class axis where class ids are expected."""
    return ValueError(
        f"labels must be class ids, without a class axis. Received shape {tuple(shape)}. Pass "
        "labels.argmax(axis=-1) for one-hot labels. The model's own loss also accepts float "
        "probabilities."
    )


def span_cross_entropy(positions: Any, logits: Any, weight: float) -> Term:
    """Returns the cross-entropy between `positions` and `logits` `[B, T]`.

    Args:
        positions: int `[B]`, ignored outside `[0, T)`; or float probabilities `[B, T]`.
    """
    if _are_probabilities(positions, logits):
        return soft_cross_entropy(positions, logits, weight)
    positions = ops.reshape(positions, (-1,))
    counts = counted(positions, 1, ops.shape(logits)[-1])
    return _class_cross_entropy(positions, logits, counts, weight)


def squared_error(targets: Any, predictions: Any) -> Term:
    """Returns the squared error of float `targets` and `predictions` `[B, C]`, averaged over C."""
    targets = _reshape_labels(targets, predictions)
    return unweighted(ops.mean(ops.square(predictions - targets), axis=-1))


def sigmoid_cross_entropy(targets: Any, logits: Any, weight: float = 1.0) -> Term:
    """Returns the cross-entropy between `targets` and `logits` `[B, C]`, averaged over C.

    Args:
        targets: 0, 1, or a probability for each label. Other values, such as `IGNORED`, result in
            NaN.
    """
    targets = _reshape_labels(targets, logits)
    losses = ops.binary_crossentropy(targets, logits, from_logits=True)
    is_valid = ops.abs(targets - 0.5) < 0.50001  # some probabilities are rounded
    losses = ops.where(is_valid, losses, float("nan"))
    return unweighted(ops.mean(ops.reshape(losses, (ops.shape(losses)[0], -1)), axis=-1), weight)


def _reshape_labels(targets: Any, outputs: Any) -> Any:
    """Converts labels to the shape and dtype of `outputs`, `[B, C]` or `[B]`."""
    shapes = [tuple(values.shape) for values in (targets, outputs)]
    core = [shape[:-1] if len(shape) == 2 and shape[-1] == 1 else shape for shape in shapes]
    if not agree(*core):
        raise ValueError(
            f"labels must have the shape of the outputs, {shapes[1]}. Received shape {shapes[0]}."
        )
    return ops.reshape(ops.cast(targets, outputs.dtype), ops.shape(outputs))


def unweighted(values: Any, weight: float = 1.0) -> Term:
    """Returns a term in which every value has a weight of 1."""
    return Term(values, ops.ones_like(values), weight)


def _class_cross_entropy(labels: Any, logits: Any, counts: Any, weight: float) -> Term:
    known = ops.where(counts, whole_numbers(labels), 0)
    values = ops.sparse_categorical_crossentropy(known, logits, from_logits=True)
    exists = ops.logical_and(known >= 0, known < ops.shape(logits)[-1])
    values = ops.where(exists, values, float("nan"))  # JAX would return 0
    return Term(values, ops.cast(counts, values.dtype), weight)

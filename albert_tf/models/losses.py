"""Losses as weighted means, on every backend."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import keras
from keras import ops

from albert_tf.layers.embedding import whole_numbers

IGNORED: Final = -100  # label of a position that doesn't count, as in transformers


class Term(NamedTuple):
    """A part of a loss: a weighted mean.

    Attributes:
        values: float32 `[B, …]`.
        weights: of the same shape; 0 ignores a value.
        weight: factor of this term.
    """

    values: Any
    weights: Any
    weight: float = 1.0


def total(terms: Sequence[Term]) -> Any:
    """Returns the sum of the terms' means."""
    return sum(map(mean, terms))


def mean(term: Term, sample_weight: Any = None, count: Any = None) -> Any:
    """Returns a term's mean times its factor.

    As everywhere in Keras, the mean doesn't divide by sample weights.

    Args:
        sample_weight: of the examples, `[B]` or more axes.
        count: what to divide the sum by; default: the sum of the term's weights.
    """
    weighted = term.values * term.weights
    if sample_weight is not None:
        weighted = weighted * per_example(sample_weight, weighted)
    count = ops.sum(term.weights) if count is None else count
    return term.weight * ops.sum(weighted) / ops.maximum(count, keras.config.epsilon())


def per_example(weights: Any, values: Any) -> Any:
    """Returns weights `[B]`, or of more axes, in the dtype of `values` `[B, …]` and of its rank."""
    factor = ops.cast(weights, values.dtype)
    if len(factor.shape) > len(values.shape):  # an axis of 1 at the end
        return ops.reshape(factor, ops.shape(values))
    shape = (*ops.shape(factor), *[1] * (len(values.shape) - len(factor.shape)))
    return ops.reshape(factor, shape)


def per_label(weight: Any, labels: Any) -> Any:
    """Returns weights of examples `[B]` as weights of labels `[B, …]`; others are unchanged."""
    if len(labels.shape) <= len(getattr(weight, "shape", ())):
        return weight
    ones = ops.ones_like(labels)
    return per_example(weight, ones) * ones


def is_class(labels: Any) -> bool:
    """Whether labels are numbers of classes: integers."""
    return "int" in keras.backend.standardize_dtype(labels.dtype)


def count(labels: Any, by_token: bool = False) -> Any:
    """Returns how many of a batch's labels count: the sum of their term's weights.

    Args:
        by_token: whether labels are numbers `[B, T]`, or probabilities `[B, T, C]`.
    """
    if by_token and len(labels.shape) == 3:
        labels = labels[..., 0]
    if not by_token and not is_class(labels):
        return ops.cast(ops.shape(labels)[0], "float32")
    return ops.sum(ops.cast(ops.not_equal(labels, IGNORED), "float32"))


def agree(shape: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Whether two shapes may be equal; a size that isn't a number is unknown."""
    return len(shape) == len(expected) and all(
        size == other or not (isinstance(size, int) and isinstance(other, int))
        for size, other in zip(shape, expected, strict=True)
    )


def count_positions(labels: Any, length: Any) -> Any:
    """Returns how many positions count: those in `[0, length)`, or all probabilities `[B, T]`."""
    if len(labels.shape) > 1 and labels.shape[-1] != 1:
        return count(labels)
    return ops.sum(ops.cast(are_inside(labels, length), "float32"))


def _are_probabilities(labels: Any, logits: Any) -> bool:
    """Whether labels are probabilities, float `[B, …, C]`, and not numbers with an axis of 1."""
    same_rank = len(labels.shape) == len(logits.shape)
    return same_rank and not is_class(labels) and labels.shape[-1] != 1


def soft_cross_entropy(probabilities: Any, logits: Any, weight: float = 1.0) -> Term:
    """Returns the term of `probabilities` and `logits`, both `[B, …, C]`.

    Positions `[B, T]` of `[B, T, C]` whose values are `IGNORED` don't count.

    Source: Hinton et al., arXiv 1503.02531.
    """
    sizes = {values.shape[-1] for values in (probabilities, logits)} - {None}
    if len(sizes) > 1:
        raise ValueError(
            "Probabilities must have a value for each of the logits. Received: labels of shape "
            f"{tuple(probabilities.shape)} for logits of shape {tuple(logits.shape)}."
        )
    target = ops.cast(probabilities, logits.dtype)
    counts = ops.ones_like(target[..., 0])
    if len(target.shape) == 3:
        counts = ops.cast(ops.not_equal(probabilities[..., 0], IGNORED), target.dtype)
        target = target * ops.expand_dims(counts, -1)
    return Term(-ops.sum(target * ops.log_softmax(logits), axis=-1), counts, weight)


def cross_entropy(labels: Any, logits: Any, weight: float = 1.0) -> Term:
    """Returns the term of `labels` and `logits` `[B, …, C]`.

    Args:
        labels: int `[B, …]`, except `IGNORED`; or probabilities, float `[B, …, C]`.
    """
    if _are_probabilities(labels, logits):
        return soft_cross_entropy(labels, logits, weight)
    refuse_one_hot(labels, logits)
    if len(labels.shape) == len(logits.shape):  # with an axis of 1 at the end
        labels = labels[..., 0]
    numbers = whole_numbers(labels)
    return _counted(numbers, logits, ops.not_equal(numbers, IGNORED), weight)


def refuse_one_hot(labels: Any, logits: Any) -> None:
    """Rejects labels `[B, …, C]` where class ids `[B, …]` or `[B, …, 1]` are expected."""
    if len(labels.shape) == len(logits.shape) and labels.shape[-1] not in (1, None):
        raise not_ids(labels.shape)


def not_ids(shape: Sequence[Any]) -> ValueError:
    """Returns the error for labels of this shape where class ids are expected."""
    return ValueError(
        "labels must be class ids, without an axis of classes. Received: labels of shape "
        f"{tuple(shape)}. Pass labels.argmax(axis=-1) for one-hot labels. With the model's own "
        "loss, labels may also be probabilities as floats."
    )


def span_cross_entropy(positions: Any, logits: Any, weight: float) -> Term:
    """Returns the term of `positions` and `logits` `[B, T]`.

    Args:
        positions: int `[B]`, except outside `[0, T)`; or probabilities, float `[B, T]`.
    """
    if _are_probabilities(positions, logits):
        return soft_cross_entropy(positions, logits, weight)
    positions = ops.reshape(positions, (-1,))
    counts = are_inside(positions, ops.shape(logits)[-1])
    return _counted(whole_numbers(positions), logits, counts, weight)


def are_inside(positions: Any, length: Any) -> Any:
    """Returns whether positions lie in `[0, length)`, and so count."""
    return ops.logical_and(positions >= 0, ops.less(positions, length))


def squared_error(targets: Any, predictions: Any) -> Term:
    """Returns the term of float `targets` and `predictions` `[B, C]`, a mean per example."""
    targets = _in_shape(targets, predictions)
    return unweighted(ops.mean(ops.square(predictions - targets), axis=-1))


def sigmoid_cross_entropy(targets: Any, logits: Any, weight: float = 1.0) -> Term:
    """Returns the term of 0s and 1s and `logits`, both `[B, C]` or `[B]`, a mean per example."""
    targets = _in_shape(targets, logits)
    losses = ops.binary_crossentropy(targets, logits, from_logits=True)
    return unweighted(ops.mean(ops.reshape(losses, (ops.shape(losses)[0], -1)), axis=-1), weight)


def _in_shape(targets: Any, outputs: Any) -> Any:
    """Returns labels in the shape and dtype of outputs `[B, C]`, or `[B]` for one per example."""
    shapes = [tuple(values.shape) for values in (targets, outputs)]
    core = [shape[:-1] if len(shape) == 2 and shape[-1] == 1 else shape for shape in shapes]
    if not agree(*core):
        raise ValueError(
            f"Labels must have the shape of the outputs, {shapes[1]}. Received: {shapes[0]}."
        )
    return ops.reshape(ops.cast(targets, outputs.dtype), ops.shape(outputs))


def unweighted(values: Any, weight: float = 1.0) -> Term:
    """Returns a term in which every value counts."""
    return Term(values, ops.ones_like(values), weight)


def _counted(labels: Any, logits: Any, counts: Any, weight: float) -> Term:
    known = ops.where(counts, labels, 0)
    values = ops.sparse_categorical_crossentropy(known, logits, from_logits=True)
    exists = ops.logical_and(known >= 0, known < ops.shape(logits)[-1])
    values = ops.where(exists, values, float("nan"))  # JAX would give 0
    return Term(values, ops.cast(counts, values.dtype), weight)

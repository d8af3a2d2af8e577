"""Class weights and label smoothing, and the loss that any model reaches without its input."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.data.tasks.rows import IGNORED, Rows
from albert_tf.errors import UserError, listed, short_repr
from albert_tf.tasks import BY_MODEL

BALANCED: Final = "balanced"


class Objective(NamedTuple):
    """Changes of the cross-entropy; they apply to labels that are numbers of classes.

    Attributes:
        class_weights: factor of the loss of each class; means don't divide by them, as in Keras.
        label_smoothing: share of the label that all classes divide among them.
    """

    class_weights: tuple[float, ...] | None = None
    label_smoothing: float = 0.0


def check_objective(options: Any, task: Any, config: Any) -> None:
    """Checks `class_weights` and `label_smoothing` of fine-tuning without the rows.

    Raises:
        UserError: the task has no classes, or a class or a weight isn't one.
    """
    if not options.class_weights and not options.label_smoothing:
        return
    if not BY_MODEL[task.model].has_classes or config.problem_type not in (
        None,
        "single_label_classification",
    ):
        raise UserError(
            "--class-weights and --label-smoothing need one class for each text or word. "
            f"Received: --task {options.task}, whose labels are others. Omit them."
        )
    _given_weights(options.class_weights, config.labels)


def objective(options: Any, task: Any, config: Any, rows: Rows) -> Objective:
    """Returns the objective of fine-tuning.

    Args:
        config: the model's.
        rows: of training, whose classes are counted for balanced weights.
    Raises:
        UserError: as for `check_objective`.
    """
    check_objective(options, task, config)
    given = tuple(options.class_weights)
    weights: Sequence[float] | None = None
    if given == (BALANCED,):
        counts = np.bincount(_classes(rows), minlength=config.num_labels)
        present = np.count_nonzero(counts)
        weights = np.where(counts, counts.sum() / (present * np.maximum(counts, 1)), 1.0).tolist()
    elif given:
        weights = _given_weights(given, config.labels)
    return Objective(None if weights is None else tuple(weights), options.label_smoothing)


def constant_loss(rows: Rows, config: Any, objective: Objective) -> float | None:
    """Returns the least loss of a model that gives every example the same prediction.

    Returns:
        the entropy of the labels, or their variance in regression; None if it is 0, or if rows
        have several targets, such as a span's two ends.
    """
    if len(rows.labels) != 1:
        return None
    (labels,) = rows.labels.values()
    if labels[0].dtype.kind == "f":
        values = np.stack(labels).astype("float64")
        several = config.problem_type == "multi_label_classification"
        loss = _entropies(values.mean(axis=0)).mean() if several else values.var()
    else:
        counts = np.bincount(_classes(rows), minlength=config.num_labels)
        shares = counts / counts.sum()
        if objective.class_weights is not None:
            shares = shares * np.array(objective.class_weights)
        shares = shares + objective.label_smoothing * (shares.mean() - shares)
        known = shares[shares > 0]
        loss = -(known * np.log(known / known.sum())).sum()
    return float(loss) or None


def _entropies(shares: np.ndarray) -> np.ndarray:
    sure = np.clip(shares, 1e-12, 1 - 1e-12)
    return -(sure * np.log(sure) + (1 - sure) * np.log(1 - sure))


def _classes(rows: Rows) -> np.ndarray:
    """Returns the class of each label that counts."""
    (labels,) = rows.labels.values()
    found = np.concatenate([np.ravel(label) for label in labels])
    return found[found != IGNORED]


def _given_weights(given: Sequence[str], labels: Sequence[str]) -> list[float] | None:
    """Reads LABEL=WEIGHT each; other labels weigh 1."""
    if tuple(given) in ((), (BALANCED,)):
        return None
    weights = dict.fromkeys(labels, 1.0)
    for each in given:
        label, _, text = each.rpartition("=")
        try:
            weight = float(text)
        except ValueError:
            weight = -1.0
        if label not in weights or not 0 <= weight < float("inf"):
            raise UserError(
                f"--class-weights must be {BALANCED}, or LABEL=WEIGHT each, with labels of "
                f"{listed(labels)}. Received: {short_repr(each)}."
            )
        weights[label] = weight
    return list(weights.values())

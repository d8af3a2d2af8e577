"""GLUE metrics by name, scores per class, and label thresholds."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from scipy import stats
from sklearn import metrics

logger = logging.getLogger(__name__)
# Scores by class name, with the names and in the layout of scikit-learn's `classification_report`.
ClassReport = dict[str, dict[str, float]]
CLASS_SCORES: Final = ("precision", "recall", "f1-score")
SUPPORT: Final = "support"


def _correlation(
    correlate: Callable[[np.ndarray, np.ndarray], tuple[float, float]],
) -> Callable[[np.ndarray, np.ndarray], float]:
    """Wraps a correlation so that constant predictions score 0 instead of NaN."""

    def score(labels: np.ndarray, predictions: np.ndarray) -> float:
        if np.ptp(predictions) == 0:
            return 0.0
        return correlate(labels, predictions)[0]

    return score


# Metrics that are undefined if all labels are equal.
_COMPARING: Final = ("matthews", "pearson", "spearman")
METRICS: Final[Mapping[str, Callable[[np.ndarray, np.ndarray], float]]] = {
    "accuracy": metrics.accuracy_score,
    "f1": lambda labels, predictions: metrics.f1_score(labels, predictions, zero_division=0.0),
    "macro_f1": lambda labels, predictions: metrics.f1_score(labels, predictions, average="macro"),
    "matthews": metrics.matthews_corrcoef,
    "pearson": _correlation(stats.pearsonr),
    "spearman": _correlation(stats.spearmanr),
}


def evaluate(names: Sequence[str], labels: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """Computes the named metrics. An undefined metric is 0, and a warning is logged.

    Args:
        names: keys of `METRICS`. The first one selects the best checkpoint.
        labels, predictions: class ids or scores, `[N]`.
    """
    undefined = [name for name in names if name in _COMPARING and np.ptp(labels) == 0]
    if undefined:
        logger.warning(
            "%s can't be computed, because all %d labels are %g; the score is set to 0. Evaluate "
            "more examples.",
            " and ".join(undefined),
            len(labels),
            labels[0],
        )
    return {
        name: 0.0 if name in undefined else float(METRICS[name](labels, predictions))
        for name in names
    }


def evaluate_labels(
    labels: np.ndarray, probabilities: np.ndarray, chosen: np.ndarray
) -> dict[str, float]:
    """Computes `micro_f1`, `macro_f1`, and `mean_average_precision` of a multi-label task.

    The mean average precision covers the labels that occur in the examples. If no label occurs, all
    three scores are 0.

    Args:
        labels, probabilities, chosen: `[N, C]`; `labels` and `chosen` are 0 or 1.
    """
    one_label = labels.shape[1] == 1  # scikit-learn would count the absence of the label as a class
    scores = {
        f"{average}_f1": metrics.f1_score(
            labels, chosen, average="binary" if one_label else average, zero_division=0.0
        )
        for average in ("micro", "macro")
    }
    occur = labels.any(axis=0)
    precisions = [
        metrics.average_precision_score(labels[:, label], probabilities[:, label])
        for label in np.flatnonzero(occur)
    ]
    scores["mean_average_precision"] = np.mean(precisions) if precisions else 0.0
    return {name: float(value) for name, value in scores.items()}


def by_class(names: Sequence[str], labels: np.ndarray, predictions: np.ndarray) -> ClassReport:
    """Returns the scores of each class in the layout of scikit-learn's `classification_report`.

    Args:
        names: name of each class.
        labels, predictions: class ids `[N]`, or `[N, C]` of 0 and 1.
    """
    ids: Sequence[int] = range(len(names))
    if labels.shape[1:] == (1,):  # scikit-learn would count the absence of the label as a class
        labels, predictions, ids = labels[:, 0], predictions[:, 0], [1]
    precision, recall, f1, support = metrics.precision_recall_fscore_support(
        labels, predictions, labels=ids, zero_division=0.0
    )
    return class_report(names, precision, recall, f1, support)


def class_report(
    names: Sequence[str],
    precision: Sequence[float],
    recall: Sequence[float],
    f1: Sequence[float],
    support: Sequence[int],
) -> ClassReport:
    """Returns a row per class and per average. A class named like an average replaces it."""
    columns = np.array([precision, recall, f1], "float64")
    rows = [*zip(names, columns.T, support, strict=True)]
    total = int(np.sum(support))
    if names:
        averages = {"macro avg": None, "weighted avg": support if total else None}
        rows += [
            (name, np.average(columns, axis=1, weights=weights), total)
            for name, weights in averages.items()
            if name not in names
        ]
    return {
        name: {**dict(zip(CLASS_SCORES, map(float, scores), strict=True)), SUPPORT: int(count)}
        for name, scores, count in rows
    }


def best_thresholds(labels: np.ndarray, probabilities: np.ndarray) -> list[float]:
    """Returns the threshold with the best F1 for each label, or 0.5 for labels that don't occur.

    Args:
        labels, probabilities: `[N, C]`; labels are 0 or 1.
    """
    chosen = []
    for truths, values in zip(labels.T, probabilities.T, strict=True):
        if not truths.any():
            chosen.append(0.5)
            continue
        precision, recall, thresholds = metrics.precision_recall_curve(truths, values)
        f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
        between = (thresholds + np.concatenate(([0.0], thresholds[:-1]))) / 2
        chosen.append(float(between[f1[:-1].argmax()]))
    return chosen

"""The metrics that GLUE reports, by name, from predictions and labels."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from scipy import stats
from sklearn import metrics

logger = logging.getLogger(__name__)


def _correlation(
    correlate: Callable[[np.ndarray, np.ndarray], tuple[float, float]],
) -> Callable[[np.ndarray, np.ndarray], float]:
    """Returns a correlation that is 0, not undefined, if all predictions are the same."""

    def score(labels: np.ndarray, predictions: np.ndarray) -> float:
        if np.ptp(predictions) == 0:
            return 0.0
        return correlate(labels, predictions)[0]

    return score


# Metrics that compare unlike labels.
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
    """Returns each named metric; 0, and a warning, for one that the labels leave undefined.

    Args:
        names: keys of `METRICS`; the first is the one that chooses the best checkpoint.
        labels, predictions: `[N]`: classes, or scores.
    """
    undefined = [name for name in names if name in _COMPARING and np.ptp(labels) == 0]
    if undefined:
        logger.warning(
            "No value for %s, so 0 is shown: all %d labels are %g. Evaluate more examples.",
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
    """Returns `micro_f1`, `macro_f1` and `mean_average_precision` of several labels.

    The mean is over the labels that an example has; without any it is 0, as is F1.

    Args:
        labels, probabilities, chosen: `[N, C]`: 0 or 1, probabilities, and decisions.
    """
    scores = {
        f"{average}_f1": metrics.f1_score(labels, chosen, average=average, zero_division=0.0)
        for average in ("micro", "macro")
    }
    occur = labels.any(axis=0)
    precisions = [
        metrics.average_precision_score(labels[:, label], probabilities[:, label])
        for label in np.flatnonzero(occur)
    ]
    scores["mean_average_precision"] = np.mean(precisions) if precisions else 0.0
    return {name: float(value) for name, value in scores.items()}

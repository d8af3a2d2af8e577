"""The metrics that GLUE reports, by name, from predictions and labels."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from scipy import stats
from sklearn import metrics


def _correlation(
    correlate: Callable[[np.ndarray, np.ndarray], tuple[float, float]],
) -> Callable[[np.ndarray, np.ndarray], float]:
    """Returns a correlation that is 0, not undefined, if all predictions are the same."""

    def score(labels: np.ndarray, predictions: np.ndarray) -> float:
        if np.ptp(predictions) == 0 or np.ptp(labels) == 0:
            return 0.0
        return correlate(labels, predictions)[0]

    return score


METRICS: Final[Mapping[str, Callable[[np.ndarray, np.ndarray], float]]] = {
    "accuracy": metrics.accuracy_score,
    "f1": metrics.f1_score,
    "macro_f1": lambda labels, predictions: metrics.f1_score(labels, predictions, average="macro"),
    "matthews": metrics.matthews_corrcoef,
    "pearson": _correlation(stats.pearsonr),
    "spearman": _correlation(stats.spearmanr),
}


def evaluate(names: Sequence[str], labels: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """Returns each named metric.

    Args:
        names: keys of `METRICS`; the first is the one that chooses the best checkpoint.
        labels, predictions: `[N]`: classes, or scores.
    """
    return {name: float(METRICS[name](labels, predictions)) for name in names}

"""The metrics that GLUE reports, by name, and SQuAD's official ones.

SQuAD's are exact match and F1 over normalized words, in percent. Source: Rajpurkar et al., arXiv
1606.05250 and 1806.03822; the definition of evaluate-v2.0.py. evaluate-v1.1.py differs only where a
right answer has no words but articles.
"""

import logging
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

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
    one_label = labels.shape[1] == 1  # scikit-learn would count its absence as a class
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


def best_thresholds(labels: np.ndarray, probabilities: np.ndarray) -> list[float]:
    """Returns the threshold with the best F1 for each label; 0.5 for labels that don't occur.

    Args:
        labels, probabilities: `[N, C]`: 0 or 1, and probabilities.
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


_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


class AnswerScore(NamedTuple):
    """A question's scores in `[0, 1]`: F1 of the words, and whether the answer is exactly right."""

    f1: float
    exact_match: float


def normalized(text: str) -> str:
    """Lower-cases a text; drops punctuation of ASCII, articles and superfluous white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def judge(answer: str, golds: Sequence[str]) -> AnswerScore:
    """Compares an answer with each right one, and returns the best scores.

    Args:
        answer: the predicted text; "" for no answer.
        golds: the right answers; none, or none of a word, for a question without an answer.
    """
    given = normalized(answer)
    right = [gold for gold in map(normalized, golds) if gold] or [""]
    f1 = max(_f1(given.split(), gold.split()) for gold in right)
    return AnswerScore(f1, float(given in right))


def _f1(given: Sequence[str], gold: Sequence[str]) -> float:
    if not given or not gold:
        return float(given == gold)
    common = sum((Counter(given) & Counter(gold)).values())
    return 2 * common / (len(given) + len(gold))


def by_threshold(
    scores: Sequence[float], null_scores: Sequence[float], has_answer: Sequence[bool]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the mean score for each threshold of the null scores, above which no answer is given.

    Args:
        scores: for each question the score of its answer.
        null_scores: for each question, the score of "no answer" minus that of the best answer.
        has_answer: whether a question has one; if not, no answer scores 1.
    Returns:
        Rising thresholds, the first below all of them, then each of them; and the mean at each.
        For the first one evaluate-v2.0.py returns 0, whatever the null scores are.
    """
    known, which = np.unique(np.asarray(null_scores, "float64"), return_inverse=True)
    unanswered = 1.0 - np.asarray(has_answer, "float64")
    gains = np.asarray(scores) - unanswered  # from no answer to the answer
    totals = np.cumsum([unanswered.sum(), *np.bincount(which, gains)])
    return np.array([np.nextafter(known[0], -np.inf), *known]), totals / len(gains)

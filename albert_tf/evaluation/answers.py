"""The official SQuAD metrics.

SQuAD reports exact match and F1 over normalized words, in percent. Source: Rajpurkar et al., arXiv
1606.05250 and 1806.03822, as defined in evaluate-v2.0.py. evaluate-v1.1.py differs only for gold
answers that consist entirely of articles.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


class AnswerScore(NamedTuple):
    """The scores of a question in `[0, 1]`: word-level F1 and exact match."""

    f1: float
    exact_match: float


def normalized(text: str) -> str:
    """Lowercases a text and drops ASCII punctuation, articles, and extra whitespace."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def judge(answer: str, golds: Sequence[str]) -> AnswerScore:
    """Compares an answer with each gold answer, and returns the best scores.

    Args:
        answer: predicted text; "" for no answer.
        golds: gold answers; for an unanswerable question, an empty list (or only empty strings).
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
    """Computes the mean score at each null-score threshold.

    A question whose null score is above the threshold gets no answer.

    Args:
        scores: score of the answer to each question.
        null_scores: score of "no answer" minus the score of the best answer, for each question.
        has_answer: whether each question is answerable; if it isn't, "no answer" scores 1.
    Returns:
        The thresholds in ascending order (one below all null scores, then every null score), and
        the mean score at each. evaluate-v2.0.py always returns 0 as the first threshold.
    """
    known, which = np.unique(np.asarray(null_scores, "float64"), return_inverse=True)
    unanswered = 1.0 - np.asarray(has_answer, "float64")
    gains = np.asarray(scores) - unanswered  # score of the answer minus score of no answer
    totals = np.cumsum([unanswered.sum(), *np.bincount(which, gains)])
    return np.array([np.nextafter(known[0], -np.inf), *known]), totals / len(gains)

"""SQuAD's official metrics: exact match and F1 over normalized words, in percent.

Source: Rajpurkar et al., arXiv 1606.05250 and 1806.03822; the definition of evaluate-v2.0.py.
evaluate-v1.1.py differs only where a right answer has no words but articles.
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

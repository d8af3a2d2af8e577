"""SQuAD's official metrics: exact match and F1 over normalized words, in percent.

Source: Rajpurkar et al., arXiv 1606.05250 and 1806.03822; evaluate-v2.0.py's definition, which for
SQuAD 1.1 gives the numbers of evaluate-v1.1.py.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


class Judgement(NamedTuple):
    """A question's scores, each in [0, 1]: whether an answer is right, and its words' F1."""

    exact: float
    f1: float


def normalized(text: str) -> str:
    """Lower-cases a text; drops punctuation of ASCII, articles and superfluous white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def judge(answer: str, golds: Sequence[str]) -> Judgement:
    """Compares an answer with each right one, and returns the best scores.

    Args:
        answer: the predicted text; "" for no answer.
        golds: the right answers; none, or none of a word, for a question without an answer.
    """
    given = normalized(answer)
    right = [gold for gold in map(normalized, golds) if gold] or [""]
    return Judgement(float(given in right), max(_f1(given.split(), gold.split()) for gold in right))


def _f1(given: Sequence[str], gold: Sequence[str]) -> float:
    if not given or not gold:
        return float(given == gold)
    common = sum((Counter(given) & Counter(gold)).values())
    return 2 * common / (len(given) + len(gold))


def best_threshold(
    scores: Sequence[float], odds: Sequence[float], has_answer: Sequence[bool]
) -> tuple[float, float]:
    """Finds the threshold of odds, above which a question is left without an answer.

    Args:
        scores: for each question the score of its answer; counts where it `has_answer`.
        odds: for each question how far "no answer" is ahead.
        has_answer: whether a question has one; if not, 1 is scored where none is given.
    Returns:
        The best mean score in percent, and its smallest threshold: one of the odds, or a number
        below all of them. The official script gives 0 there, whatever the odds are.
    """
    order = np.argsort(odds, kind="stable")
    gains = np.where(has_answer, scores, -1.0)[order]
    totals = np.append(0.0, np.cumsum(gains)) + (len(has_answer) - np.sum(has_answer))
    known = np.asarray(odds, "float64")[order]
    is_last = np.append(True, np.append(known[1:] != known[:-1], True))  # of those of equal odds
    best = int(np.argmax(np.where(is_last, totals, -np.inf)))
    threshold = known[best - 1] if best else np.nextafter(known[0], -np.inf)
    return 100 * float(totals[best]) / len(totals[1:]), float(threshold)

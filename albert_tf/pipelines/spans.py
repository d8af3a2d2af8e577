"""Start and end scores to answers, and answers of several windows to one list."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.special import softmax

NOWHERE: Final = -1e4  # the logit of a place that an answer can't start or end at
CLS: Final = 0  # the place of [CLS], which stands for "no answer"


class Span(NamedTuple):
    """Places of a row, `end` included, with the probability that they are the answer."""

    start: int
    end: int
    score: float


def best_spans(
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    possible: np.ndarray,
    count: int,
    longest: int,
) -> tuple[list[Span], float]:
    """The best spans of a row, best first, and the probability of none.

    A span's score is the product of its start's and its end's probability; the distributions are
    over the places that are possible and `[CLS]`, whose product is that of no answer.

    Args:
        start_logits, end_logits: float `[T]`.
        possible: bool `[T]`, where an answer can start and end.
        count: how many spans at most.
        longest: pieces of a span at most.
    """
    seen = possible.copy()
    seen[CLS] = True
    starts, ends = (
        softmax(np.where(seen, logits.astype("float64"), NOWHERE))
        for logits in (start_logits, end_logits)
    )
    null = float(starts[CLS] * ends[CLS])
    products = np.outer(starts * possible, ends * possible)
    products = np.tril(np.triu(products), longest - 1)
    order = np.argsort(-products, axis=None, kind="stable")[:count]
    places = zip(*np.unravel_index(order, products.shape), strict=True)
    spans = [Span(int(start), int(end), float(products[start, end])) for start, end in places]
    return [span for span in spans if span.score > 0], null


def beam_spans(outputs: Mapping[str, Any], possible: np.ndarray, longest: int) -> list[Span]:
    """The spans of the SQuAD 2.0 head's beam that can be answers, best first.

    Args:
        outputs: of one row: `start_top_log_probs`, `start_top_index` `[K]`, and for each start in
            turn its ends, `end_top_log_probs`, `end_top_index` `[K·K]`.
        possible, longest: see `best_spans`.
    """
    beam = len(outputs["start_top_index"])
    starts = np.repeat(outputs["start_top_index"], beam)
    ends = outputs["end_top_index"]
    log_probs = np.repeat(outputs["start_top_log_probs"], beam) + outputs["end_top_log_probs"]
    spans = [
        Span(int(start), int(end), float(np.exp(log_prob)))
        for start, end, log_prob in zip(starts, ends, log_probs, strict=True)
        if start <= end < min(start + longest, len(possible)) and possible[start] and possible[end]
    ]
    return sorted(spans, key=lambda span: -span.score)


def collected(answers: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Answers of one window; those that read alike are one, and their scores add up."""
    by_text: dict[str, dict[str, Any]] = {}
    for answer in answers:
        known = by_text.setdefault(answer["answer"].lower(), answer)
        if known is not answer:
            known["score"] += answer["score"]
    return list(by_text.values())


def surest(windows: Iterable[Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Answers of all windows, best first; of those that read alike the one of the surest window."""
    by_text: dict[str, dict[str, Any]] = {}
    for answer in (answer for window in windows for answer in window):
        known = by_text.setdefault(answer["answer"].lower(), answer)
        if answer["score"] > known["score"]:
            by_text[answer["answer"].lower()] = answer
    return sorted(by_text.values(), key=lambda answer: -answer["score"])

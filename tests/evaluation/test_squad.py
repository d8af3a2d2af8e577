import math
import re
import string
from collections import Counter

import numpy as np
import pytest

from albert_tf.evaluation.squad import best_threshold, judge, normalized


@pytest.mark.parametrize(
    ("answer", "golds", "exact", "f1"),
    [
        ("The Cat.", ["cat"], 1, 1),  # article, case, punctuation
        ("a  big\n cat", ["Big cat!"], 1, 1),  # white space
        ("308", ["308 points", "308"], 1, 1),  # the best of several
        ("the big cat", ["big dog", "small cat food"], 0, 2 * (1 / 2 * 1 / 2) / (1 / 2 + 1 / 2)),
        ("cat cat", ["cat"], 0, 2 * (1 / 2 * 1) / (1 / 2 + 1)),  # words count as often as they come
        ("theatre", ["atre"], 0, 0),  # an article is a whole word
        ("", ["cat"], 0, 0),
        ("", [], 1, 1),  # rightly no answer
        ("the", [], 1, 1),
        ("cat", [], 0, 0),
        ("cat", ["the"], 0, 0),  # a gold without a word doesn't count
        ("$3.50", ["350"], 1, 1),
        ("co-op", ["coop"], 1, 1),
        ("«cat»", ["cat"], 0, 0),  # only ASCII's punctuation is dropped
    ],
)
def test_by_hand(answer, golds, exact, f1):
    assert judge(answer, golds) == (exact, pytest.approx(f1))


def independent(answer, golds):
    """Returns exact match and F1 from the words that two texts share, one word at a time."""

    def words(text):
        kept = "".join(each for each in text.lower() if each not in string.punctuation)
        return [word for word in re.split(r"\s+", kept) if word and word not in ("a", "an", "the")]

    given = words(answer)
    targets = [target for target in map(words, golds) if target] or [[]]
    best = 0.0
    for target in targets:
        left = Counter(target)
        common = 0
        for word in given:
            if left[word]:
                left[word] -= 1
                common += 1
        if common:
            precision, recall = common / len(given), common / len(target)
            best = max(best, 2 * precision * recall / (precision + recall))
        elif given == target:
            best = 1.0
    return float(given in targets), best


def test_random_perturbations():
    generator = np.random.default_rng(5)
    pool = [
        "The",
        "cat",
        "an",
        "Old",
        "dog's",
        "a",
        "hill,",
        "in",
        "1999",
        "(New",
        "York)",
        "£3.50",
    ]
    pool += ["—", "the", "THE", "über", "'twas"]

    def text(most):
        words = generator.choice(pool, generator.integers(0, most))
        joined = "".join(f"{word}{generator.choice([' ', '  ', ', ', chr(10)])}" for word in words)
        return generator.choice([joined, joined.upper(), joined.strip() + "."])

    seen = set()
    for _ in range(3000):
        answer, golds = text(5), [text(4) for _ in range(generator.integers(0, 4))]
        found = judge(answer, golds)
        assert found == pytest.approx(independent(answer, golds)), (answer, golds)
        seen.add((found.exact, 0 < found.f1 < 1))
    assert seen == {(0, False), (0, True), (1, False)}


def test_normalized():
    assert normalized("  The Old\tcat's (an)  hat ") == "old cats hat"


def brute_force(scores, odds, has_answer):
    """Returns the best mean over all thresholds, and the mean at a threshold."""

    def mean(threshold):
        return 100 * np.mean(
            [
                (not answered) if odd > threshold else (score if answered else 0)
                for score, odd, answered in zip(scores, odds, has_answer, strict=True)
            ]
        )

    return max(map(mean, [-math.inf, *odds])), mean


def test_the_best_threshold_by_trying_all():
    generator = np.random.default_rng(3)
    for size in (1, 2, 9, 30):
        for _ in range(30):
            scores = generator.random(size).tolist()
            odds = generator.integers(-4, 5, size).astype(float).tolist()  # several are equal
            has_answer = (generator.random(size) < 0.6).tolist()
            best, threshold = best_threshold(scores, odds, has_answer)
            expected, mean = brute_force(scores, odds, has_answer)
            assert best == pytest.approx(expected)
            assert mean(threshold) == pytest.approx(expected)


def test_a_threshold_that_leaves_all_without_an_answer():
    best, threshold = best_threshold([0.1, 0.2, 1.0], [-3.0, -2.0, 5.0], [True, True, False])
    assert best == pytest.approx(100 / 3 * 1.3) and threshold == -2.0
    best, threshold = best_threshold([0.9, 0.2], [-3.0, -2.0], [False, False])
    assert best == 100 and threshold < -3.0

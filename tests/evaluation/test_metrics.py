import re
import string
from collections import Counter

import numpy as np
import pytest

from albert_tf.evaluation.metrics import METRICS, by_threshold, evaluate, judge, normalized

LABELS = np.array([1, 0, 1, 1, 0, 1])
PREDICTIONS = np.array([1, 0, 0, 1, 1, 1])


def test_by_hand():
    # 3 true positives, 1 true negative, 1 false positive, 1 false negative
    found = evaluate(("accuracy", "f1", "matthews"), LABELS, PREDICTIONS)
    assert found["accuracy"] == pytest.approx(4 / 6)
    assert found["f1"] == pytest.approx(2 * 3 / (2 * 3 + 1 + 1))
    assert found["matthews"] == pytest.approx((3 * 1 - 1 * 1) / np.sqrt(4 * 4 * 2 * 2))
    assert list(found) == ["accuracy", "f1", "matthews"]


def test_correlations():
    scores = np.array([1.0, 2.0, 3.0, 5.0])
    assert evaluate(("pearson", "spearman"), scores, scores**3)["spearman"] == pytest.approx(1)
    assert evaluate(("pearson",), scores, -2 * scores + 1)["pearson"] == pytest.approx(-1)


@pytest.mark.filterwarnings("error")
def test_a_constant_prediction_correlates_with_nothing():
    assert evaluate(("pearson", "spearman"), LABELS, np.ones(6)) == {
        "pearson": 0.0,
        "spearman": 0.0,
    }


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("prediction", [0, 1])
def test_one_row(label, prediction, caplog):
    """Gives a number for each metric, and says which ones it can't compute."""
    found = evaluate(tuple(METRICS), np.array([label]), np.array([prediction]))
    assert np.isfinite(list(found.values())).all()
    assert found["accuracy"] == (label == prediction)
    assert "No value for matthews and pearson and spearman" in caplog.text
    assert f"all 1 labels are {label}" in caplog.text


def test_every_metric_is_a_number():
    for name in METRICS:
        assert 0 < evaluate((name,), LABELS, PREDICTIONS)[name] < 1


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
def test_answers_by_hand(answer, golds, exact, f1):
    assert judge(answer, golds) == (pytest.approx(f1), exact)


def independent(answer, golds):
    """Returns F1 and exact match from the words that two texts share, one word at a time."""

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
    return best, float(given in targets)


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
        seen.add((found.exact_match, 0 < found.f1 < 1))
    assert seen == {(0, False), (0, True), (1, False)}


def test_normalized():
    assert normalized("  The Old\tcat's (an)  hat ") == "old cats hat"


def test_thresholds_by_trying_all():
    generator = np.random.default_rng(3)
    for size in (1, 2, 9, 30):
        for _ in range(30):
            scores = generator.random(size)
            odds = generator.integers(-4, 5, size).astype(float)  # several are equal
            has_answer = generator.random(size) < 0.6
            thresholds, means = by_threshold(scores.tolist(), odds.tolist(), has_answer.tolist())
            assert thresholds[0] < odds.min()
            assert thresholds[1:].tolist() == sorted(set(odds))
            for threshold, mean in zip(thresholds, means, strict=True):
                each = np.where(odds > threshold, ~has_answer, scores)
                assert mean == pytest.approx(each.mean())


def test_thresholds_by_hand():
    thresholds, means = by_threshold([0.1, 0.2, 0.0], [-3.0, -2.0, 5.0], [True, True, False])
    assert thresholds[1:].tolist() == [-3, -2, 5]
    assert (3 * means).tolist() == pytest.approx([1, 1.1, 1.3, 0.3])

import numpy as np
import pytest

from albert_tf.evaluation.answers import by_threshold, judge


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
        ("the  Old\tcat's (an)  hat", ["old cats hat"], 1, 1),
        ("«cat»", ["cat"], 0, 0),  # only ASCII's punctuation is dropped
    ],
)
def test_answers_by_hand(answer, golds, exact, f1):
    assert judge(answer, golds) == (pytest.approx(f1), exact)


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

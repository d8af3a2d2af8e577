import numpy as np
import pytest
from sklearn.metrics import classification_report

from albert_tf.evaluation.metrics import METRICS, by_class, evaluate

LABELS = np.array([1, 0, 1, 1, 0, 1])
PREDICTIONS = np.array([1, 0, 0, 1, 1, 1])


def test_by_hand():
    # 3 true positives, 1 true negative, 1 false positive, 1 false negative
    found = evaluate(("accuracy", "f1", "matthews"), LABELS, PREDICTIONS)
    assert found["accuracy"] == pytest.approx(4 / 6)
    assert found["f1"] == pytest.approx(2 * 3 / (2 * 3 + 1 + 1))
    assert found["matthews"] == pytest.approx((3 * 1 - 1 * 1) / np.sqrt(4 * 4 * 2 * 2))
    assert list(found) == ["accuracy", "f1", "matthews"]


@pytest.mark.filterwarnings("error")
def test_correlations():
    scores = np.array([1.0, 2.0, 3.0, 5.0])
    assert evaluate(("pearson", "spearman"), scores, scores**3)["spearman"] == pytest.approx(1)
    assert evaluate(("pearson",), scores, -2 * scores + 1)["pearson"] == pytest.approx(-1)
    constant = evaluate(("pearson", "spearman"), scores, np.ones(4))
    assert constant == {"pearson": 0.0, "spearman": 0.0}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("prediction", [0, 1])
def test_one_row(label, prediction, caplog):
    """Returns a number for each metric, and logs which ones it can't compute."""
    found = evaluate(tuple(METRICS), np.array([label]), np.array([prediction]))
    assert np.isfinite(list(found.values())).all()
    assert found["accuracy"] == (label == prediction)
    assert "matthews and pearson and spearman can't be computed" in caplog.text
    assert f"all 1 labels are {label}" in caplog.text


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("several", [False, True])
def test_scores_of_classes_are_scikit_learns(seed, several):
    """One class doesn't occur."""
    generator, names = np.random.default_rng(seed), ["a", "b", "c", "d"]
    shape = (20, 4) if several else 20
    labels, predictions = generator.integers(0, 2 if several else 3, (2, *np.atleast_1d(shape)))
    if several:
        labels[:, 3] = predictions[:, 3] = 0
    options = {"target_names": names, "output_dict": True, "zero_division": 0.0}
    if not several:
        options["labels"] = range(4)
    expected = classification_report(labels, predictions, **options)
    found = by_class(names, labels, predictions)
    assert [*found] == [*names, "macro avg", "weighted avg"]
    for name, scores in found.items():
        assert scores == pytest.approx(expected[name])
        assert list(scores) == ["precision", "recall", "f1-score", "support"]


def test_scores_of_a_single_label():
    found = by_class(["urgent"], np.array([[1], [0], [1]]), np.array([[1], [1], [0]]))
    assert found["urgent"] == {"precision": 0.5, "recall": 0.5, "f1-score": 0.5, "support": 2}


def test_a_class_with_the_name_of_an_average():
    found = by_class(["macro avg", "b"], np.array([0, 1]), np.array([0, 0]))
    assert [*found] == ["macro avg", "b", "weighted avg"]
    assert found["macro avg"]["support"] == 1

import numpy as np
import pytest

from albert_tf.evaluation.metrics import METRICS, evaluate

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

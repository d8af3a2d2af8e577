import keras
import numpy as np
import pytest
from sklearn.metrics import matthews_corrcoef

from albert_tf import ExactMatch, MatthewsCorrelation


def over_batches(metric, true, logits, size=7):
    for start in range(0, len(true), size):
        metric.update_state(true[start : start + size], logits[start : start + size])
    return float(metric.result())


@pytest.mark.parametrize(("classes", "rare"), [(2, 0.5), (2, 0.002), (5, 0.3)])
def test_matthews_equals_scikit_learns(classes, rare):
    generator = np.random.default_rng(classes)
    true = np.where(generator.random(3000) < rare, generator.integers(1, classes, 3000), 0)
    found = true.copy()
    found[::499] = (true[::499] + 1) % classes
    logits = generator.random((3000, classes)) + np.eye(classes)[found]
    expected = matthews_corrcoef(true, found)
    assert 0.01 < abs(expected) < 0.999
    metric = MatthewsCorrelation(classes)
    assert over_batches(metric, true, logits) == pytest.approx(expected, abs=1e-6)
    metric.reset_state()
    assert over_batches(metric, true[::-1, None], logits[::-1], 11) == pytest.approx(
        expected, abs=1e-6
    )


def test_matthews_of_one_class_is_0():
    metric = MatthewsCorrelation(3)
    assert float(metric.result()) == 0
    assert over_batches(metric, np.array([0, 1, 2]), np.eye(3)[[1, 1, 1]]) == 0


def test_matthews_is_restored_from_its_configuration():
    metric = keras.metrics.get(keras.metrics.serialize(MatthewsCorrelation(4, name="mcc")))
    assert (metric.num_classes, metric.name) == (4, "mcc")


def test_exact_match_needs_both_positions():
    true = np.array([[1, 2], [0, 0], [3, 3], [-100, 2]])
    found = np.array([[1, 2], [0, 1], [3, 3], [0, 2]])
    metric = ExactMatch()
    metric.update_state(true[:2], np.eye(5)[found[:2]])
    metric.update_state(true[2:], np.eye(5)[found[2:]])
    assert float(metric.result()) == pytest.approx(2 / 3)
    metric.reset_state()
    metric.update_state(true, np.eye(5)[found], sample_weight=np.array([1, 2, 0, 1]))
    assert float(metric.result()) == pytest.approx(1 / 3)
    again = keras.metrics.get(keras.metrics.serialize(ExactMatch(name="em")))
    assert again.name == "em" and isinstance(again, ExactMatch)

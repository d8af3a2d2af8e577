import json

import keras
import numpy as np
import pytest
from sklearn.metrics import matthews_corrcoef

from albert_tf import EntityF1, ExactMatch, MatthewsCorrelation
from tests.conftest import GOLDEN


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


LABELS = ["B-PER", "O", *(f"{prefix}-LOC" for prefix in "BIES"), "E-PER", "S-PER", "I-PER"]


def padded(sentences, fill=-100):
    """Returns the tags' numbers with gaps, as pieces that don't begin a word make them."""
    rows = np.full((len(sentences), 3 * max(map(len, sentences)) + 1), fill)
    for row, tags in zip(rows, sentences, strict=True):
        places = np.arange(len(tags)) * 2 + np.arange(len(tags)) % 3 // 2 + 1
        row[places] = [LABELS.index(tag) for tag in tags]
    return rows


def test_entity_f1_equals_seqevals():
    """Accumulates over sentences; seqeval's scores are in tests/golden/G_entities."""
    lines = (GOLDEN / "G_entities" / "seqeval.jsonl").read_text("utf-8").splitlines()
    generator = np.random.default_rng(0)
    metric = EntityF1(LABELS)
    for case in map(json.loads, lines):
        metric.reset_state()
        for expected, predicted in zip(case["expected"], case["predicted"], strict=True):
            true, found = padded([expected]), padded([predicted], generator.integers(len(LABELS)))
            metric.update_state(true, generator.random((*true.shape, 9)) + np.eye(9)[found])
        assert float(metric.result()) == pytest.approx(case["scores"]["f1"], abs=1e-6)


def test_entity_f1_of_a_batch_and_weights():
    true = padded([["B-PER", "I-PER", "O"], ["S-LOC"], ["O", "O"]])
    found = padded([["B-PER", "O", "O"], ["S-LOC"], ["O", "S-PER"]], 0)
    metric = EntityF1(LABELS)
    metric.update_state(true, np.eye(9)[found])
    assert float(metric.result()) == pytest.approx(2 * 1 / (2 + 3))
    metric.reset_state()
    metric.update_state(true, np.eye(9)[found], sample_weight=np.array([0.0, 1.0, 1.0]))
    assert float(metric.result()) == pytest.approx(2 * 1 / (1 + 2))
    again = keras.metrics.get(keras.metrics.serialize(EntityF1(LABELS, name="f1")))
    assert (again.labels, again.name) == (LABELS, "f1")
    assert float(again.result()) == 0

import json

import keras
import numpy as np
import pytest

from albert_tf import EntityF1, ExactMatch
from albert_tf.errors import UserError
from tests.conftest import GOLDEN


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
    """Returns the tags' class ids, with gaps for pieces that don't begin a word."""
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
    for number, case in enumerate(map(json.loads, lines[::6])):  # each call takes time
        metric.reset_state()
        in_two = number < 4 and len(case["expected"]) > 1
        for part in (slice(1), slice(1, None)) if in_two else (slice(None),):
            true = padded(case["expected"][part])
            found = padded(case["predicted"][part], generator.integers(len(LABELS)))
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


@pytest.mark.parametrize(
    ("labels", "stray"), [(["O", "B-PER", "I-PER", "MISC"], "MISC"), (["NN", "VB"], "NN, VB")]
)
def test_entity_f1_needs_prefixes(labels, stray):
    with pytest.raises(UserError, match=f"Received: {stray}.*metrics="):
        EntityF1(labels)

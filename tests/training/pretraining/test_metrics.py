import math

import numpy as np
import pytest
from keras import ops

from albert_tf.training.pretraining.metrics import NAMES, NOTHING, Sums, added, reported, sums

B, P, V = 3, 4, 7
LABELS = np.array([[5, 0, -100, -100], [1, -100, -100, -100], [6, 6, 2, -100]], "int32")
ORDER = np.array([1, 0, 1], "int32")


def drawn():
    generator = np.random.default_rng(1)
    return {
        "prediction_logits": ops.convert_to_tensor(
            generator.standard_normal((B, P, V)).astype("float32")
        ),
        "sop_logits": ops.convert_to_tensor(generator.standard_normal((B, 2)).astype("float32")),
    }


def by_hand(labels, logits):
    """Sums over labels that count, one at a time."""
    loss = right = count = 0.0
    for place in np.ndindex(labels.shape):
        if labels[place] == -100:
            continue
        row = logits[place].astype("float64")
        loss += math.log(np.exp(row).sum()) - row[labels[place]]
        right += row.argmax() == labels[place]
        count += 1
    return loss, right, count


def test_sums_are_of_what_counts():
    outputs = drawn()
    found = sums({"labels": LABELS, "sentence_order_label": ORDER}, outputs)
    expected = [
        *by_hand(LABELS, ops.convert_to_numpy(outputs["prediction_logits"])),
        *by_hand(ORDER, ops.convert_to_numpy(outputs["sop_logits"])),
    ]
    assert expected[2] == 6 and expected[5] == B
    np.testing.assert_allclose([float(value) for value in found], expected, rtol=1e-5)


def test_without_sentence_order_its_sums_are_0():
    found = sums({"labels": LABELS}, drawn())
    assert [float(value) for value in found[3:]] == [0, 0, 0] and float(found.predictions) == 6
    means = reported(found)
    assert means["sentence_order_accuracy"] == 0 and means["loss"] == means["masked_lm_loss"]


def test_means_are_of_all_predictions_not_of_parts():
    """Two parts with 1 and 9 predictions: the mean of their means would be 3."""
    few, many = Sums(1.0, 1.0, 1.0, 0.5, 0.0, 1.0), Sums(45.0, 0.0, 9.0, 0.7, 1.0, 1.0)
    means = reported(added([few, many]))
    assert means["masked_lm_loss"] == pytest.approx(4.6)
    assert means["masked_lm_accuracy"] == pytest.approx(0.1)
    assert means["sentence_order_loss"] == pytest.approx(0.6)
    assert means["sentence_order_accuracy"] == pytest.approx(0.5)
    assert means["loss"] == pytest.approx(5.2)
    assert means["perplexity"] == pytest.approx(math.exp(4.6))
    assert set(NAMES) < means.keys()


def test_of_nothing():
    assert added([]) == NOTHING and reported(NOTHING)["loss"] == 0


def test_a_loss_without_bounds_has_a_perplexity():
    assert reported(Sums(1e6, 0.0, 1.0, 0.0, 0.0, 0.0))["perplexity"] > 1e300
    assert math.isnan(reported(Sums(math.nan, 0.0, 1.0, 0.0, 0.0, 0.0))["loss"])

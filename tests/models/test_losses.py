import functools
import re

import keras
import numpy as np
import pytest
from keras import ops
from scipy.special import log_softmax, softmax

from albert_tf.models import losses
from albert_tf.tasks import IGNORED

GENERATOR = np.random.default_rng(4)
LOGITS = GENERATOR.standard_normal((2, 5, 3)).astype("float32")
LABELS = np.array([[0, -100, 2, -100, 1], [-100, -100, -100, -100, 2]])


def value(*terms):
    return float(losses.total(terms))


def test_pieces_that_do_not_count():
    rows, columns = np.nonzero(LABELS >= 0)
    expected = -log_softmax(LOGITS, axis=-1)[rows, columns, LABELS[rows, columns]]
    assert value(losses.cross_entropy(LABELS, LOGITS)) == pytest.approx(expected.mean(), rel=1e-6)
    assert ops.convert_to_numpy(losses.counted(LABELS, 2)).sum() == 4
    assert value(losses.cross_entropy(np.full((2, 5), -100), LOGITS)) == 0.0


def test_positions_outside_do_not_count():
    logits, positions = LOGITS[:, :, 0], np.array([4, 5])
    expected = -log_softmax(logits[0])[4]
    assert value(losses.span_cross_entropy(positions, logits, 1.0)) == pytest.approx(expected)
    assert value(losses.span_cross_entropy(np.array([-1, 7]), logits, 1.0)) == 0.0


def test_probabilities_of_one_class_are_its_number():
    one_hot = np.eye(3, dtype="float32")[np.maximum(LABELS, 0)]
    soft = np.where(LABELS[..., None] == -100, np.float32(-100), one_hot)
    expected = value(losses.cross_entropy(LABELS, LOGITS))
    assert value(losses.cross_entropy(soft, LOGITS)) == pytest.approx(expected, rel=1e-6)
    positions, logits = np.array([4, 1]), LOGITS[:, :, 0]
    found = value(losses.span_cross_entropy(np.eye(5, dtype="float32")[positions], logits, 1.0))
    expected = value(losses.span_cross_entropy(positions, logits, 1.0))
    assert found == pytest.approx(expected, rel=1e-6)


def test_probabilities_spread_over_classes():
    soft = softmax(GENERATOR.standard_normal((2, 3)), axis=-1).astype("float32")
    expected = -(soft * log_softmax(LOGITS[:, 0], axis=-1)).sum(axis=-1).mean()
    assert value(losses.cross_entropy(soft, LOGITS[:, 0])) == pytest.approx(expected, rel=1e-5)


def test_probabilities_of_other_classes():
    with pytest.raises(ValueError, match=r"\(2, 2\) for logits of shape \(2, 3\)"):
        losses.cross_entropy(np.eye(2, dtype="float32"), LOGITS[:, 0])


@pytest.mark.parametrize(
    ("term", "label"),
    [(losses.cross_entropy, label) for label in (3, -1, 1.9)]
    + [(functools.partial(losses.span_cross_entropy, weight=1.0), 1.9)],
)
def test_labels_of_a_dataset_outside_the_classes(term, label):
    """Their values aren't known before the step: an error of TensorFlow's, or a loss of NaN."""
    labels = ops.convert_to_tensor(np.array([label, 2]))
    logits = ops.convert_to_tensor(np.eye(3, dtype="float32")[:2])
    try:
        loss = value(term(labels, logits))
    except Exception as error:
        assert keras.backend.backend() != "jax"
        message = r"outside the valid range of \[0, 3\)|Target -?[0-9] is out of bounds"
        assert re.search(message, str(error))
    else:
        assert np.isnan(loss)


@pytest.mark.parametrize("wrong", [IGNORED, -0.1, 1.1])
def test_targets_of_a_dataset_that_are_no_probabilities(wrong):
    targets = np.array([[0, 1, 0.3], [1, 0, np.nextafter(1, 2)]], "float32")
    assert np.isfinite(value(losses.sigmoid_cross_entropy(targets, LOGITS[:, 0])))
    targets[0, 2] = wrong
    assert np.isnan(value(losses.sigmoid_cross_entropy(targets, LOGITS[:, 0])))


def test_shares_add_up():
    term = losses.unweighted(ops.convert_to_tensor(np.array([1.0, 3.0], "float32")), weight=0.5)
    other = losses.unweighted(ops.convert_to_tensor(np.array([10.0, 20.0], "float32")))
    assert value(term, other) == pytest.approx(0.5 * 2 + 15)
    means = [float(losses.mean(each, np.array([2.0, 0.0]))) for each in (term, other)]
    assert means == pytest.approx([0.5 * 1, 10])


def test_weights_of_single_pieces():
    labels = np.zeros((2, 5), "int32")
    weights = GENERATOR.random((2, 5)).astype("float32")
    expected = (-log_softmax(LOGITS, axis=-1)[..., 0] * weights).sum() / 10
    found = float(losses.mean(losses.cross_entropy(labels, LOGITS), weights))
    assert found == pytest.approx(expected, rel=1e-5)

"""Heads, in cases that tests/models/test_golden.py does not have: it compares all outputs."""

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.layers import AnswerSpans, ClassificationHead
from albert_tf.layers.heads import at_positions

B, T, H = 2, 9, 20


@pytest.fixture
def hidden():
    return np.random.default_rng(1).standard_normal((B, T, H)).astype("float32")


def test_states_at_positions(hidden):
    positions = np.array([[0, 6, 3], [2, 2, 5]])
    expected = hidden[np.arange(B)[:, None], positions]
    np.testing.assert_array_equal(at_positions(hidden, positions), expected)
    fractions = ops.convert_to_tensor(positions + 0.5)  # as in a graph: outside of the rows
    if keras.backend.backend() == "jax":
        assert np.isnan(at_positions(hidden, fractions)).all()
    elif keras.backend.backend() == "tensorflow":  # torch has no graph: the model's call refuses
        for wrong in (fractions, ops.convert_to_tensor(positions + 2**32)):
            with pytest.raises(Exception, match=r"not in \[0, 9\)|out of bounds"):
                at_positions(hidden, wrong)


def test_the_classifier_drops_out_in_training_alone(small_config, hidden):
    head = ClassificationHead(small_config.replace(classifier_dropout_prob=0.5), units=4)
    head.build()
    expected = hidden @ ops.convert_to_numpy(head.dense.kernel)
    np.testing.assert_allclose(head(hidden), expected, atol=1e-6)
    assert np.abs(ops.convert_to_numpy(head(hidden, training=True)) - expected).max() > 1e-3


def test_a_text_shorter_than_the_beam(small_config, hidden):
    head = AnswerSpans(small_config)
    head.build()
    found = head(hidden[:, :3], np.zeros((B, 3), "float32"))
    assert found["start_top_index"].shape == (B, 3)
    assert found["end_top_index"].shape == (B, 9)

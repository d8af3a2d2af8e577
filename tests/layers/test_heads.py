import dataclasses

import numpy as np
import pytest
from keras import ops

from albert_tf.layers import ClassificationHead, MaskedLMHead, SpanHead
from albert_tf.layers.heads import at_positions

B, T, H, V, E = 2, 7, 20, 31, 6


@pytest.fixture
def hidden():
    return np.random.default_rng(1).standard_normal((B, T, H)).astype("float32")


def test_states_at_positions(hidden):
    positions = np.array([[0, 6, 3], [2, 2, 5]])
    expected = hidden[np.arange(B)[:, None], positions]
    np.testing.assert_array_equal(at_positions(hidden, positions), expected)


def test_masked_words_are_scored_by_the_word_table(small_config, hidden):
    head = MaskedLMHead(dataclasses.replace(small_config, hidden_act="tanh"))
    head.build()
    generator = np.random.default_rng(2)
    for variable in head.weights:
        variable.assign(generator.standard_normal(variable.shape))
    table = generator.standard_normal((V, E)).astype("float32")
    kernel, dense_bias, gamma, beta, bias = (
        ops.convert_to_numpy(variable)
        for variable in (*head.dense.weights, *head.layer_norm.weights, head.bias)
    )
    x = np.tanh(hidden @ kernel + dense_bias)
    x = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True) * gamma + beta
    expected = x @ table.T + bias
    np.testing.assert_allclose(head(hidden, table), expected, atol=2e-5)
    positions = np.array([[1, 4], [6, 0]])
    np.testing.assert_allclose(
        head(hidden, table, positions), expected[np.arange(B)[:, None], positions], atol=2e-5
    )


def test_spans_are_the_two_columns_of_one_map(small_config, hidden):
    head = SpanHead(small_config)
    head.build()
    head.dense.bias.assign(np.array([1.0, -2.0]))
    expected = hidden @ ops.convert_to_numpy(head.dense.kernel) + [1.0, -2.0]
    for found, column in zip(head(hidden), (0, 1), strict=True):
        np.testing.assert_allclose(found, expected[..., column], atol=1e-6)


def test_the_classifier_drops_out_in_training_alone(small_config, hidden):
    head = ClassificationHead(
        dataclasses.replace(small_config, classifier_dropout_prob=0.5), units=4
    )
    head.build()
    expected = hidden @ ops.convert_to_numpy(head.dense.kernel)
    np.testing.assert_allclose(head(hidden), expected, atol=1e-6)
    assert np.abs(ops.convert_to_numpy(head(hidden, training=True)) - expected).max() > 1e-3

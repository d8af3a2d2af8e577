import dataclasses

import keras
import numpy as np
import pytest
from keras import ops
from scipy.special import log_softmax, softmax

from albert_tf.layers import AnswerSpans, ClassificationHead, MaskedLMHead, SpanHead
from albert_tf.layers.heads import at_positions

B, T, H, V, E = 2, 9, 20, 31, 6


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
        with pytest.raises(Exception, match=r"not in \[0, 9\)|out of bounds"):
            at_positions(hidden, fractions)


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


@pytest.fixture
def head(small_config):
    layer = AnswerSpans(small_config)
    layer.build()
    generator = np.random.default_rng(3)
    for variable in layer.weights:
        variable.assign(0.5 * generator.standard_normal(variable.shape))
    return layer


@pytest.fixture
def p_mask():
    mask = np.zeros((B, T), "float32")
    mask[0, 1:3] = mask[1, 7:] = 1
    return mask


def affine(layer, x):
    kernel, *bias = (ops.convert_to_numpy(variable) for variable in layer.weights)
    return x @ kernel + (bias[0] if bias else 0)


def end_log_probs(head, hidden, p_mask, start):
    """`[B, T]`, given a start for each row."""
    chosen = np.repeat(hidden[np.arange(B), start][:, None], T, axis=1)
    x = np.tanh(affine(head.end_0, np.concatenate([hidden, chosen], axis=-1)))
    gamma, beta = (ops.convert_to_numpy(variable) for variable in head.layer_norm.weights)
    x = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True) * gamma + beta
    return log_softmax(affine(head.end_1, x)[..., 0] - 1e30 * p_mask, axis=-1)


def test_given_the_start(head, hidden, p_mask):
    starts = np.array([4, 2])
    found = head(hidden, p_mask, starts)
    logits = affine(head.start, hidden)[..., 0] - 1e30 * p_mask
    possible = p_mask == 0
    for name, expected in (
        ("start_log_probs", log_softmax(logits, axis=-1)),
        ("end_log_probs", end_log_probs(head, hidden, p_mask, starts)),
    ):
        ours = ops.convert_to_numpy(found[name])
        np.testing.assert_allclose(ours[possible], expected[possible], atol=2e-5)
        assert (ours[~possible] < -1e29).all()
    summary = np.einsum("bt,bth->bh", softmax(logits, axis=-1), hidden)
    features = np.tanh(affine(head.answer_0, np.concatenate([summary, hidden[:, 0]], axis=-1)))
    np.testing.assert_allclose(
        found["cls_logits"], affine(head.answer_1, features)[:, 0], atol=2e-5
    )


def test_the_beam_follows_the_best_starts(head, hidden, p_mask):
    found = {name: ops.convert_to_numpy(value) for name, value in head(hidden, p_mask).items()}
    start_log_probs = log_softmax(affine(head.start, hidden)[..., 0] - 1e30 * p_mask, axis=-1)
    order = np.argsort(-start_log_probs, axis=-1, kind="stable")[:, :5]
    np.testing.assert_array_equal(found["start_top_index"], order)
    for rank in range(5):
        expected = end_log_probs(head, hidden, p_mask, order[:, rank])
        ends = np.argsort(-expected, axis=-1, kind="stable")[:, :5]
        slots = slice(5 * rank, 5 * rank + 5)
        np.testing.assert_array_equal(found["end_top_index"][:, slots], ends)
        np.testing.assert_allclose(
            found["end_top_log_probs"][:, slots],
            np.take_along_axis(expected, ends, axis=-1),
            atol=2e-5,
        )


def test_a_text_shorter_than_the_beam(head, hidden):
    found = head(hidden[:, :3], np.zeros((B, 3), "float32"))
    assert found["start_top_index"].shape == (B, 3)
    assert found["end_top_index"].shape == (B, 9)

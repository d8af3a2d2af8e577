import dataclasses

import numpy as np
import pytest
from keras import ops

from albert_tf.layers import SelfAttention, attention_bias

B, T, H, A = 2, 7, 20, 5


def test_bias_of_both_ranks():
    mask = np.array([[1, 1, 0]])
    assert np.array_equal(attention_bias(mask, "float32"), [[[[0, 0, -10000]]]])
    square = np.tril(np.ones((1, 3, 3)))
    bias = np.asarray(attention_bias(square, "float32"))
    assert bias.shape == (1, 1, 3, 3)
    assert bias[0, 0, 0].tolist() == [0, -10000, -10000]
    with pytest.raises(
        ValueError, match=r"\[batch, length\] or \[batch, length, length\]. Received shape \(3,\)"
    ):
        attention_bias(np.ones(3), "float32")


def test_probabilities_sum_to_one_and_leave_masked_keys_out(
    small_config, small_features, scrambled
):
    layer = SelfAttention(small_config)
    layer.build()
    hidden = np.random.default_rng(1).standard_normal((B, T, H)).astype("float32")
    output, probabilities = scrambled(layer)(
        hidden, attention_bias(small_features["attention_mask"], "float32")
    )
    assert output.shape == (B, T, H)
    assert probabilities.shape == (B, A, T, T)
    np.testing.assert_allclose(ops.sum(probabilities, axis=-1), 1, atol=1e-6)
    assert np.all(np.asarray(probabilities)[1, :, :, 4:] == 0)


def test_what_is_masked_does_not_matter(small_config, small_features, scrambled):
    layer = SelfAttention(small_config)
    layer.build()
    scrambled(layer)
    hidden = np.random.default_rng(1).standard_normal((B, T, H)).astype("float32")
    changed = hidden.copy()
    changed[1, 4:] += 1
    bias = attention_bias(small_features["attention_mask"], "float32")
    np.testing.assert_allclose(
        layer(hidden, bias)[0][1, :4], layer(changed, bias)[0][1, :4], atol=1e-6
    )


def test_attention_in_numpy(small_config, small_features, scrambled):
    layer = SelfAttention(small_config)
    layer.build()
    scrambled(layer)
    hidden = np.random.default_rng(1).standard_normal((B, T, H)).astype("float32")
    bias = ops.convert_to_numpy(attention_bias(small_features["attention_mask"], "float32"))

    def affine(part, inputs):
        kernel, shift = (ops.convert_to_numpy(each) for each in (part.kernel, part.bias))
        return inputs @ kernel + shift

    query, key, value = (
        affine(part, hidden).reshape(B, T, A, H // A).transpose(0, 2, 1, 3)
        for part in (layer.query, layer.key, layer.value)
    )
    scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(H // A) + bias
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    joined = (weights @ value).transpose(0, 2, 1, 3).reshape(B, T, H)
    output, probabilities = layer(hidden, bias)
    np.testing.assert_allclose(ops.convert_to_numpy(probabilities), weights, atol=1e-5)
    expected = layer.layer_norm(hidden + affine(layer.dense, joined))
    np.testing.assert_allclose(output, expected, atol=2e-5)


@pytest.mark.parametrize("name", ["attention_probs_dropout_prob", "hidden_dropout_prob"])
def test_dropout_of_probabilities_and_of_the_output(small_config, small_features, name):
    """With a rate near 1 each of them leaves only the input; biases are 0 at the start."""
    rates = {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0, name: 0.999999}
    layer = SelfAttention(dataclasses.replace(small_config, **rates))
    layer.build()
    hidden = np.random.default_rng(1).standard_normal((B, T, H)).astype("float32")
    bias = attention_bias(small_features["attention_mask"], "float32")
    trained, used = (layer(hidden, bias, training=training)[0] for training in (True, False))
    np.testing.assert_allclose(trained, layer.layer_norm(hidden), atol=1e-6)
    assert np.abs(ops.convert_to_numpy(used) - ops.convert_to_numpy(trained)).max() > 1e-4

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

import dataclasses

import numpy as np
from keras import ops

from albert_tf.layers import FeedForward


def test_widens_narrows_adds_and_normalises(small_config):
    layer = FeedForward(dataclasses.replace(small_config, hidden_act="relu"))
    layer.build()
    generator = np.random.default_rng(6)
    for variable in layer.weights:
        variable.assign(generator.standard_normal(variable.shape))
    hidden = generator.standard_normal((2, 7, 20)).astype("float32")
    wide, wide_bias, narrow, narrow_bias, gamma, beta = (
        ops.convert_to_numpy(variable)
        for part in (layer.intermediate, layer.output_dense, layer.layer_norm)
        for variable in part.weights
    )
    assert wide.shape == (20, 24)
    x = hidden + np.maximum(hidden @ wide + wide_bias, 0) @ narrow + narrow_bias
    expected = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True) * gamma + beta
    np.testing.assert_allclose(layer(hidden), expected, atol=2e-5)


def test_dropout_comes_before_the_residual_connection(small_config):
    """With a rate near 1 only the input is left."""
    layer = FeedForward(dataclasses.replace(small_config, hidden_dropout_prob=0.999999))
    hidden = np.random.default_rng(6).standard_normal((2, 7, 20)).astype("float32")
    trained, used = layer(hidden, training=True), layer(hidden, training=False)
    np.testing.assert_allclose(trained, layer.layer_norm(hidden), atol=1e-6)
    assert np.abs(ops.convert_to_numpy(used) - ops.convert_to_numpy(trained)).max() > 1e-3

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.layers import FactorizedEmbedding

B, T = 2, 7


@pytest.fixture
def embedding(small_config, scrambled):
    layer = FactorizedEmbedding(small_config)
    layer.build()
    return scrambled(layer)


def test_defaults(embedding, small_features):
    ids = small_features["input_ids"]
    types, positions = np.zeros((B, T), "int32"), np.arange(T, dtype="int32")[None]
    explicit = embedding(ids, token_type_ids=types, position_ids=positions)
    np.testing.assert_allclose(embedding(ids), explicit, atol=1e-6)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="only TensorFlow has sparse gradients"
)
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_arrive_dense_with_repeated_rows_summed(embedding, compiled):
    import tensorflow as tf

    repeated = tf.constant([[4, 4, 4, 9]])

    def gradient():
        with tf.GradientTape() as tape:
            total = ops.sum(embedding(repeated) ** 2)
        return tape.gradient(total, embedding.word_embeddings.value)

    found = tf.function(gradient)() if compiled else gradient()
    assert isinstance(found, tf.Tensor)
    assert sorted(np.flatnonzero(np.abs(found).sum(axis=1))) == [4, 9]

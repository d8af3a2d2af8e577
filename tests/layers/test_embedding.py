import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.layers import FactorizedEmbedding

B, T, H = 2, 7, 20


@pytest.fixture
def embedding(small_config, scrambled):
    layer = FactorizedEmbedding(small_config)
    layer.build()
    return scrambled(layer)


def ids(**features):
    return {
        name: ops.convert_to_tensor(np.asarray(values, "int32"))
        for name, values in features.items()
    }


def test_shape_and_defaults(embedding, small_features):
    given = ids(
        input_ids=small_features["input_ids"],
        token_type_ids=np.zeros((B, T)),
        position_ids=np.arange(T)[None],
    )
    explicit = embedding(**given)
    assert explicit.shape == (B, T, H)
    np.testing.assert_allclose(embedding(given["input_ids"]), explicit, atol=1e-6)


def test_inputs_embeds_replace_the_word_rows(embedding, small_features):
    rows = ops.convert_to_numpy(embedding.word_embeddings)[small_features["input_ids"]]
    np.testing.assert_allclose(
        embedding(inputs_embeds=ops.convert_to_tensor(rows)),
        embedding(small_features["input_ids"]),
        atol=1e-6,
    )


def test_position_and_type_count(embedding, small_features):
    words = small_features["input_ids"]
    plain = ops.convert_to_numpy(embedding(words))
    types = ops.convert_to_numpy(embedding(words, token_type_ids=np.ones((B, T), "int32")))
    shifted = ops.convert_to_numpy(
        embedding(words, position_ids=np.arange(T)[None].astype("int32") + 4)
    )
    assert np.abs(plain - types).min(axis=(0, 2)).size and np.abs(plain - types).max() > 0.01
    assert np.abs(plain - shifted).max() > 0.01


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

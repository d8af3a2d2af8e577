import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.layers import AlbertEncoder


def test_weights_are_made_once_for_a_group_and_inner_block(small_config):
    def parameters(**changes):
        encoder = AlbertEncoder(dataclasses.replace(small_config, **changes))
        encoder.build()
        return encoder.count_params()

    one = parameters()
    assert one == parameters(num_hidden_layers=9)
    assert parameters(num_hidden_groups=2) == parameters(inner_group_num=2) == 2 * one
    assert parameters(num_hidden_groups=3, inner_group_num=2) == 6 * one


@pytest.mark.parametrize(
    "changes", [{}, {"num_hidden_layers": 5, "num_hidden_groups": 2, "inner_group_num": 3}]
)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("unroll", [False, "last"])
def test_a_loop_of_the_graph_gives_what_the_unrolled_layers_give(
    small_config, small_features, scrambled, changes, compiled, unroll
):
    config = dataclasses.replace(small_config, **changes)
    encoder = AlbertEncoder(config)
    encoder.build()
    scrambled(encoder)
    hidden = np.random.default_rng(1).standard_normal((2, 7, 20)).astype("float32")
    states, attentions = encoder(hidden, small_features["attention_mask"])
    blocks = config.num_hidden_layers * config.inner_group_num
    assert (len(states), len(attentions)) == (blocks + 1, blocks)

    def looped(hidden):
        mask = small_features["attention_mask"]
        return encoder(hidden, mask, unroll=unroll, first_only=True)[0][-1]

    if compiled and keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        looped = tf.function(looped, input_signature=[tf.TensorSpec([None, None, 20])])
    result = ops.convert_to_numpy(looped(hidden))
    rows = 1 if unroll == "last" else 7
    assert result.shape == (2, rows, 20)
    np.testing.assert_allclose(result, states[-1][:, :rows], atol=2e-6)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_first_position_alone_is_what_it_is_among_all(
    small_config, small_features, scrambled, rank, checkpointing
):
    encoder = AlbertEncoder(small_config, gradient_checkpointing=checkpointing)
    encoder.build()
    scrambled(encoder)
    hidden = np.random.default_rng(1).standard_normal((2, 7, 20)).astype("float32")
    mask = small_features["attention_mask"]
    mask = mask if rank == 2 else np.tril(np.ones((7, 7), "int32")) * mask[:, None]
    expected, _ = encoder(hidden, mask, training=True)
    states, attentions = encoder(hidden, mask, first_only=True, training=True)
    assert [state.shape[1] for state in states[-2:]] == [7, 1]
    assert attentions[-1].shape[2:] == (1, 7)
    np.testing.assert_allclose(
        ops.convert_to_numpy(states[-1]), ops.convert_to_numpy(expected[-1])[:, :1], atol=1e-5
    )

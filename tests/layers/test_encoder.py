import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.layers import AlbertEncoder, FeedForward, SelfAttention, attention_bias

B, T, H, A = 2, 7, 20, 5
HIDDEN = np.random.default_rng(1).standard_normal((B, T, H)).astype("float32")


@pytest.mark.parametrize(
    "changes",
    [
        {"share": "attention"},
        {"num_hidden_layers": 3, "num_hidden_groups": 2, "inner_group_num": 2},
    ],
)
def test_a_loop_of_the_graph_gives_what_the_unrolled_layers_give(
    small_config, small_features, scrambled, changes
):
    encoder = AlbertEncoder(small_config.replace(**changes))
    encoder.build()
    scrambled(encoder)
    mask = small_features["attention_mask"]
    states, _ = encoder(HIDDEN, mask)
    for unroll, rows in ((False, T), ("last", 1)):

        def looped(hidden, unroll=unroll):
            return encoder(hidden, mask, unroll=unroll, cls_only=True)[0][-1]

        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            looped = tf.function(looped, input_signature=[tf.TensorSpec([None, None, H])])
        result = ops.convert_to_numpy(looped(ops.convert_to_tensor(HIDDEN)))
        assert result.shape == (B, rows, H)
        np.testing.assert_allclose(result, states[-1][:, :rows], atol=2e-6)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_first_position_alone_is_what_it_is_among_all(
    small_config, small_features, scrambled, rank, checkpointing
):
    encoder = AlbertEncoder(small_config, gradient_checkpointing=checkpointing)
    encoder.build()
    scrambled(encoder)
    mask = small_features["attention_mask"]
    mask = mask if rank == 2 else np.tril(np.ones((7, 7), "int32")) * mask[:, None]
    expected, _ = encoder(HIDDEN, mask, training=True)
    states, attentions = encoder(HIDDEN, mask, cls_only=True, training=True)
    assert [state.shape[1] for state in states[-2:]] == [7, 1]
    assert attentions[-1].shape[2:] == (1, 7)
    np.testing.assert_allclose(
        ops.convert_to_numpy(states[-1]), ops.convert_to_numpy(expected[-1])[:, :1], atol=1e-5
    )


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


def test_attention_in_numpy(small_config, small_features, scrambled):
    layer = SelfAttention(small_config)
    layer.build()
    scrambled(layer)
    bias = ops.convert_to_numpy(attention_bias(small_features["attention_mask"], "float32"))

    def affine(part, inputs):
        kernel, shift = (ops.convert_to_numpy(each) for each in (part.kernel, part.bias))
        return inputs @ kernel + shift

    query, key, value = (
        affine(part, HIDDEN).reshape(B, T, A, H // A).transpose(0, 2, 1, 3)
        for part in (layer.query, layer.key, layer.value)
    )
    scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(H // A) + bias
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    joined = (weights @ value).transpose(0, 2, 1, 3).reshape(B, T, H)
    output, probabilities = layer(HIDDEN, bias)
    np.testing.assert_allclose(ops.convert_to_numpy(probabilities), weights, atol=1e-5)
    expected = layer.layer_norm(HIDDEN + affine(layer.dense, joined))
    np.testing.assert_allclose(output, expected, atol=2e-5)


@pytest.mark.parametrize("name", ["attention_probs_dropout_prob", "hidden_dropout_prob"])
def test_dropout_of_probabilities_and_of_the_output(small_config, small_features, name):
    """With a rate near 1 each of them leaves only the input; biases are 0 at the start."""
    rates = {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0, name: 0.999999}
    layer = SelfAttention(small_config.replace(**rates))
    layer.build()
    bias = attention_bias(small_features["attention_mask"], "float32")
    trained, used = (layer(HIDDEN, bias, training=training)[0] for training in (True, False))
    np.testing.assert_allclose(trained, layer.layer_norm(HIDDEN), atol=1e-6)
    assert np.abs(ops.convert_to_numpy(used) - ops.convert_to_numpy(trained)).max() > 1e-4


def test_dropout_comes_before_the_residual_connection(small_config):
    """With a rate near 1 only the input is left."""
    layer = FeedForward(small_config.replace(hidden_dropout_prob=0.999999))
    trained, used = layer(HIDDEN, training=True), layer(HIDDEN, training=False)
    np.testing.assert_allclose(trained, layer.layer_norm(HIDDEN), atol=1e-6)
    assert np.abs(ops.convert_to_numpy(used) - ops.convert_to_numpy(trained)).max() > 1e-3


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    # `expected` is the number of functions, and of the layers outside of functions. A recomputed
    # layer counts twice. In the second case, these are the layers of the second block: one is
    # frozen, so it isn't recomputed, and the last one reads only the first position.
    ("changes", "options", "checkpointing", "expected"),
    [
        ({"num_hidden_layers": 4}, {}, False, (1, 0)),
        ({"num_hidden_layers": 4, "inner_group_num": 2}, {"cls_only": True}, True, (1, 7)),
    ],
)
def test_a_graph_contains_a_block_once_that_many_layers_apply(
    small_config, scrambled, changes, options, checkpointing, expected
):
    """Outputs and gradients are those of layers in eager mode, with dropout."""
    import tensorflow as tf

    keras.utils.set_random_seed(5)  # for the dropout
    rates = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.3)
    encoder = AlbertEncoder(small_config.replace(**changes, **rates), checkpointing)
    encoder.build()
    scrambled(encoder)
    encoder.frozen_layers = 1
    seeds = [variable for variable in encoder.variables if "seed" in variable.path]
    before = [variable.numpy() for variable in seeds]

    def step(hidden):
        with tf.GradientTape() as tape:
            states, attentions = encoder(hidden, training=True, **options)
            loss = tf.reduce_sum(states[-1] ** 2) + tf.reduce_sum(attentions[-1] ** 2)
        weights = [each.value for each in encoder.trainable_weights]
        gradients = tape.gradient(loss, weights, unconnected_gradients="zero")
        return states, attentions, gradients

    one_by_one = [step(HIDDEN) for _ in range(2)]
    for variable, value in zip(seeds, before, strict=True):
        variable.assign(value)
    function = tf.function(step).get_concrete_function(HIDDEN)
    graph = function.graph.as_graph_def()
    names = [each.signature.name for each in graph.library.function]
    functions = sum(name.startswith("__forward") for name in names)
    assert (functions, sum(node.op == "Softmax" for node in graph.node)) == expected

    def compare(one, other):  # rounding errors are relative to the largest terms of a sum
        largest = max(1, np.abs(other).max())
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * largest)

    keras.tree.map_structure(compare, [function(tf.constant(HIDDEN)) for _ in range(2)], one_by_one)


def test_each_layer_draws_its_own_dropout(small_config, monkeypatch):
    rates = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.3)
    encoder = AlbertEncoder(small_config.replace(num_hidden_layers=3, **rates))
    seeds, dropout = [], keras.random.dropout

    def recorded(inputs, rate, seed):
        seeds.append(tuple(np.ravel(ops.convert_to_numpy(seed.next()))))
        return dropout(inputs, rate, seed=seed)

    monkeypatch.setattr(keras.random, "dropout", recorded)
    encoder(HIDDEN, training=True)
    assert len(set(seeds)) == len(seeds) == 9
    encoder(HIDDEN, training=True)
    assert len(set(seeds)) == 18

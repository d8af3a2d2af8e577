"""Each layer works alone in a functional model, which is saved and loaded in safe mode."""

import keras
import numpy as np

from albert_tf import layers

H, E, V = 20, 6, 31


def ids(name):
    return keras.Input((None,), dtype="int32", name=name)


def states():
    return keras.Input((None, H))


def embedded(config):
    inputs = [ids("input_ids"), ids("token_type_ids")]
    return inputs, layers.FactorizedEmbedding(config)(inputs[0], token_type_ids=inputs[1])


def encoded(config):
    inputs = [states(), ids("attention_mask")]
    hidden_states, attentions = layers.AlbertEncoder(config)(*inputs)
    return inputs, [hidden_states[-1], attentions[0]]


def block(config):
    inputs = [states(), keras.Input((1, 1, None), name="bias")]
    parts = layers.SelfAttention(config), layers.FeedForward(config)
    return inputs, layers.AlbertBlock(*parts)(*inputs)[0]


def classified(config):
    inputs = [states()]
    return inputs, layers.ClassificationHead(config, units=4)(*inputs)


def masked_lm(config):
    inputs = [states(), keras.Input(batch_shape=(V, E), name="table"), ids("positions")]
    return inputs, layers.MaskedLMHead(config)(*inputs)


def spans(config):
    inputs = [states()]
    return inputs, layers.SpanHead(config)(*inputs)


def answers(config):
    inputs = [states(), keras.Input((None,), name="p_mask")]
    return inputs, layers.AnswerSpans(config)(*inputs)


def example(tensor):
    """Values for an input: B = 2, or its own first size, and T = 7."""
    shape = [tensor.shape[0] or 2, *(size or 7 for size in tensor.shape[1:])]
    if tensor.dtype == "int32":
        return np.random.default_rng(1).integers(0, 2, shape).astype("int32")
    return np.random.default_rng(2).standard_normal(shape).astype("float32")


def test_layers_alone(small_config, scrambled, tmp_path):
    inputs, outputs = [], []
    for make in (embedded, encoded, block, classified, masked_lm, spans, answers):
        more, output = make(small_config.replace(num_hidden_layers=2))
        inputs += more
        outputs += keras.tree.flatten(output)
    model = scrambled(keras.Model(inputs, outputs))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras", safe_mode=True)
    given = [example(tensor) for tensor in inputs]
    for ours, theirs in zip(again(given), model(given), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_configuration_round_trip(small_config):
    encoder = layers.AlbertEncoder(small_config, True, name="deep", dtype="mixed_bfloat16")
    again = layers.AlbertEncoder.from_config(encoder.get_config())
    assert again.config == small_config
    assert (again.name, again.compute_dtype) == ("deep", "bfloat16")
    assert again.gradient_checkpointing

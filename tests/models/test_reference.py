"""The whole forward pass against NumPy in float64, written after the paper and the original."""

import dataclasses
import math

import keras
import numpy as np
import pytest

from albert_tf.checkpoints.weights import extract
from albert_tf.models import AlbertForSequenceClassification

ACTIVATIONS = {
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "gelu_new": lambda x: x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
}


def norm(x, weights, name):
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def affine(x, weights, name):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def block(x, mask, weights, name, config):
    batch, length, hidden = x.shape
    heads, size = config.num_attention_heads, hidden // config.num_attention_heads

    def split(part):
        projected = affine(x, weights, f"{name}.attention.{part}")
        return projected.reshape(batch, length, heads, size).transpose(0, 2, 1, 3)

    scores = split("query") @ split("key").transpose(0, 1, 3, 2) / math.sqrt(size)
    scores = scores - 10000 * (1 - mask[:, None, None, :])
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    probabilities = exponents / exponents.sum(-1, keepdims=True)
    joined = (probabilities @ split("value")).transpose(0, 2, 1, 3).reshape(x.shape)
    x = norm(
        x + affine(joined, weights, f"{name}.attention.dense"),
        weights,
        f"{name}.attention.LayerNorm",
    )
    inner = ACTIVATIONS[config.hidden_act](affine(x, weights, f"{name}.ffn"))
    x = norm(
        x + affine(inner, weights, f"{name}.ffn_output"), weights, f"{name}.full_layer_layer_norm"
    )
    return x, probabilities


def reference(weights, features, config):
    tables = [
        weights[f"embeddings.{kind}_embeddings.weight"]
        for kind in ("word", "token_type", "position")
    ]
    length = features["input_ids"].shape[1]
    x = (
        tables[0][features["input_ids"]]
        + tables[1][features["token_type_ids"]]
        + tables[2][:length]
    )
    x = norm(x, weights, "embeddings.LayerNorm")
    x = affine(x, weights, "encoder.embedding_hidden_mapping_in")
    states, attentions = [x], []
    for layer in range(config.num_hidden_layers):
        group = layer * config.num_hidden_groups // config.num_hidden_layers
        for inner in range(config.inner_group_num):
            name = f"encoder.albert_layer_groups.{group}.albert_layers.{inner}"
            x, probabilities = block(x, features["attention_mask"], weights, name, config)
            states.append(x)
            attentions.append(probabilities)
    pooled = np.tanh(affine(x[:, 0], weights, "pooler"))
    return {
        "hidden_states": states,
        "attentions": attentions,
        "logits": affine(pooled, weights, "classifier"),
    }


@pytest.mark.parametrize("hidden_act", ACTIVATIONS)
@pytest.mark.parametrize(("groups", "inner"), [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_every_layer_agrees(small_config, small_features, scrambled, hidden_act, groups, inner):
    config = dataclasses.replace(
        small_config, hidden_act=hidden_act, num_hidden_groups=groups, inner_group_num=inner
    )
    model = scrambled(AlbertForSequenceClassification(config))
    weights = {name: tensor.astype("float64") for name, tensor in extract(model).items()}
    expected = reference(weights, small_features, config)
    outputs = model(small_features, output_hidden_states=True, output_attentions=True)
    np.testing.assert_allclose(outputs["logits"], expected["logits"], atol=2e-5)
    for name in ("hidden_states", "attentions"):
        assert len(outputs[name]) == len(expected[name])
        for ours, theirs in zip(outputs[name], expected[name], strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_stays_near(small_config, small_features, scrambled, policy):
    model = scrambled(AlbertForSequenceClassification(small_config))
    half = scrambled(AlbertForSequenceClassification(small_config, dtype=policy))
    logits = half(small_features)["logits"]
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    np.testing.assert_allclose(logits, model(small_features)["logits"], atol=0.05)

"""Formulas agree with models, and with TensorFlow's graphs."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from albert_tf import counting, models
from albert_tf.config import ACTIVATIONS, SHARING, AlbertConfig
from benchmarks.training_memory import kept_bytes

B, T = 3, 50


@pytest.fixture
def config():
    """Widths that a norm's single numbers do not weigh against."""
    return AlbertConfig(
        vocab_size=70,
        embedding_size=24,
        hidden_size=160,
        num_hidden_layers=3,
        num_attention_heads=8,
        intermediate_size=420,
        max_position_embeddings=T,
        classifier_dropout_prob=0.0,
    )


@pytest.mark.parametrize("share", SHARING)
def test_the_table_of_sharing(share):
    """docs/models.md has the parameters in millions."""
    page = (Path(__file__).resolve().parents[1] / "docs" / "models.md").read_text("utf-8")
    (row,) = re.findall(rf"^\| `share=\"{share}\"`.*", page, re.MULTILINE)
    sizes = [AlbertConfig.from_size(size) for size in ("base", "large", "xlarge", "xxlarge")]
    counts = [counting.parameters(size.replace(share=share)) / 1e6 for size in sizes]
    assert row.strip(" |").split(" | ")[2:] == [f"{count:,.1f}" for count in counts]


@pytest.mark.parametrize("share", SHARING)
@pytest.mark.parametrize(("groups", "inner"), [(1, 1), (2, 3)])
def test_a_model_has_as_many(config, share, groups, inner):
    """Every variable once, and every kernel as often as a pass applies it."""
    config = dataclasses.replace(
        config, share=share, num_hidden_groups=groups, inner_group_num=inner
    )
    model = models.AlbertModel(config)
    assert counting.parameters(config) == model.count_params()
    visited = [block for group in model.encoder.schedule for block in model.encoder.group(group)]
    layers = [model.embedding.projection, *visited, model.pooler]
    kernels = [each for layer in layers for each in layer.weights if each.name == "kernel"]
    applied = [model.embedding.word_embeddings, *kernels]
    assert counting.applied_parameters(config) == sum(np.prod(each.shape) for each in applied)


@pytest.mark.parametrize(
    ("size", "parameters", "applied"),
    [
        ("base", 11_683_584, 89e6),
        ("large", 17_683_968, 307e6),
        ("xlarge", 58_724_864, 1216e6),
        ("xxlarge", 222_595_584, 2437e6),
    ],
)
def test_published_sizes(size, parameters, applied):
    """Parameters: the released checkpoints'. Applied: the figures in the paper's notes."""
    for version in ("", "-v1", "-v2"):
        assert counting.parameters(AlbertConfig.from_size(size + version)) == parameters
    found = counting.applied_parameters(AlbertConfig.from_size(size))
    assert found == pytest.approx(applied, abs=5e5)


@pytest.mark.parametrize(
    ("act", "dropout", "checkpointing"),
    [
        ("gelu", 0.0, False),
        *(
            pytest.param(act, 0.0, False, marks=pytest.mark.slow)
            for act in ACTIVATIONS
            if act != "gelu"
        ),
        ("gelu_new", 0.1, False),
        ("gelu_new", 0.0, True),
        ("gelu", 0.1, True),
    ],
)
def test_activations_agree_with_the_graph(config, act, dropout, checkpointing):
    config = dataclasses.replace(
        config,
        hidden_act=act,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        classifier_dropout_prob=0.0,
        inner_group_num=2 if act == "gelu" else 1,
    )
    model = models.AlbertForTokenClassification(config)
    model.gradient_checkpointing_enable(checkpointing)
    kept = kept_bytes(model, B, T)
    counted = counting.activations(config, B, T, checkpointing)
    if checkpointing:
        counted -= counting.recomputed(config, B, T)
    counted += 4 * B * T * config.hidden_size  # the classifier's input, at every position
    assert kept == pytest.approx(counted, rel=0.02)


def test_activations_with_checkpointing(config):
    """An input for each block, and all of one of them."""
    without = counting.activations(config, B, T)
    blocks = config.num_hidden_layers
    embedding = without - blocks * (
        without
        - counting.activations(dataclasses.replace(config, num_hidden_layers=blocks - 1), B, T)
    )
    one = (without - embedding) // blocks
    inputs = 4 * B * T * config.hidden_size
    assert counting.activations(config, B, T, True) == embedding + (blocks - 1) * inputs + one


@pytest.mark.tensorflow
@pytest.mark.parametrize("share", SHARING)
def test_waiting_gradients_are_the_graphs(config, share):
    import tensorflow as tf

    config = dataclasses.replace(config, share=share, num_hidden_layers=3)
    model = models.AlbertModel(config)
    sums = []

    def step(ids):
        with tf.GradientTape() as tape:
            outputs = model(ids, training=True)["pooler_output"]
        variables = [variable.value for variable in model.encoder.trainable_variables]
        for gradient in tape.gradient(outputs, variables):
            while gradient.op.type in ("Reshape", "Identity"):
                gradient = gradient.op.inputs[0]
            if gradient.op.type == "AddN":
                sums.append(4 * gradient.shape.num_elements() * (len(gradient.op.inputs) - 1))

    tf.function(step).get_concrete_function(tf.TensorSpec((B, T), tf.int32))
    assert counting.unsummed_gradients(config) == sum(sums)
    assert bool(sums) == (share != "none")


def test_large_gradients_wait_in_fives():
    """From TensorFlow's tape: sums once more than 4 wait and exceed 128 MiB. 24 layers each."""
    large = counting.unsummed_gradients(AlbertConfig.from_size("large"))
    small = 23 * 4 * (4 * 1024**2 + 9 * 1024 + 4096)
    assert large == small + 8 * 4 * 2 * 4 * 1024**2
    assert counting._most_waiting(24, 10**9) == 5
    assert counting._most_waiting(3, 10**9) == 3


def test_training_memory_adds_up(config):
    memory = counting.training_memory(config, B, T, True)
    assert memory.weights == 4 * counting.parameters(config)
    assert (memory.gradients, memory.slots) == (memory.weights, 2 * memory.weights)
    assert memory.activations == counting.activations(config, B, T, True)
    assert memory.waiting == counting.unsummed_gradients(config)

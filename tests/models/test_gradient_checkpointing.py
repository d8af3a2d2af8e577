"""Gradient checkpointing changes the memory of training, and nothing else."""

import keras
import numpy as np
import pytest

from albert_tf.layers.common import Dropout
from albert_tf.models import AlbertForSequenceClassification, AlbertModel

LABELS = np.array([2, 0], "int32")
ROUNDING = 16 * 2.0**-23  # other masks differ by a hundred times as much


@pytest.fixture
def config(small_config):
    """Every rate another one; weights large enough for dropped places to matter."""
    return small_config.replace(
        hidden_dropout_prob=0.3,
        attention_probs_dropout_prob=0.25,
        classifier_dropout_prob=0.2,
        initializer_range=0.2,
    )


def step(model, features, enabled, seed=3, **options):
    """Returns a step's loss and the moves of the weights; equal seeds drop equal places."""
    start = model.get_weights()
    dropouts = [layer for layer in model._flatten_layers() if isinstance(layer, Dropout)]
    for number, dropout in enumerate(dropouts):
        if dropout.rate > 0:
            dropout.seed_generator.state.assign([seed, number])
            # Without one, Keras' torch backend drops as torch's own generator says.
            dropout.seed_generator._initial_seed = seed
    model.gradient_checkpointing_enable(enabled)
    optimizer = keras.optimizers.SGD(1.0)
    if model.dtype_policy.name == "mixed_float16":  # the default scale overflows for some weights
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**10)
    model.compile(optimizer, **options)
    loss = model.train_on_batch(features, LABELS)
    moves = [new - old for new, old in zip(model.get_weights(), start, strict=True)]
    model.set_weights(start)
    return loss, moves


def assert_alike(some, others, tolerance):
    assert some[0] == pytest.approx(others[0], rel=tolerance)
    largest = max(np.abs(move).max() for move in others[1])
    assert largest > 0.1
    for one, other in zip(some[1], others[1], strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance * largest)


def test_same_gradients_with_dropout(config, small_features):
    """Fails where a block draws seeds inside: TensorFlow would draw again for the gradient."""
    keras.utils.set_random_seed(2)
    config = config.replace(num_hidden_layers=2, share="attention")
    model = AlbertForSequenceClassification(config)
    eagerly = {"run_eagerly": keras.backend.backend() != "jax"}
    plain = step(model, small_features, enabled=False, **eagerly)
    assert_alike(step(model, small_features, enabled=True, **eagerly), plain, ROUNDING)
    other = step(model, small_features, enabled=True, seed=4, **eagerly)
    assert abs(other[0] - plain[0]) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "epsilon"), [("float32", 2.0**-23), ("mixed_float16", 2.0**-10)]
)
def test_same_step_of_fit(config, small_features, policy, epsilon):
    """One compiled step moves the weights alike, but for the last bits of what computes them."""
    model = AlbertForSequenceClassification(config.replace(num_hidden_layers=2), dtype=policy)
    again, plain = (step(model, small_features, enabled) for enabled in (True, False))
    assert_alike(again, plain, 4 * epsilon)


def test_on_and_off(small_config, small_features, monkeypatch):
    """It applies only in training, for the encoder alone and for tasks, until it is disabled."""
    visits, remat = [], keras.remat
    monkeypatch.setattr(keras, "remat", lambda run: visits.append(run) or remat(run))
    config = small_config.replace(num_hidden_layers=2)
    for model in (AlbertModel(config), AlbertForSequenceClassification(config)):
        model.train_function = "traced without it"
        model.gradient_checkpointing_enable()
        assert model.train_function is None
        model(small_features)
        assert not visits
        model(small_features, training=True)
        assert len(visits) == 2
        visits.clear()
        model.gradient_checkpointing_disable()
        model(small_features, training=True)
        assert not visits

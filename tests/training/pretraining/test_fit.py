"""Pretraining by `Model.fit`, on JAX and on torch: run with KERAS_BACKEND."""

import keras
import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForPreTraining
from albert_tf.training.optimizers import AlbertAdamW, Lamb
from albert_tf.training.pretraining.fit import Evaluation, fit
from albert_tf.training.schedules import WarmupPolynomialDecay
from albert_tf.training.state import load_state, save_state

pytestmark = [
    pytest.mark.skipif(
        keras.backend.backend() == "tensorflow", reason="step.py is what trains on TensorFlow"
    ),
    pytest.mark.filterwarnings("error:Your input ran out of data"),
]
STEPS, B, T, P, V = 4, 6, 7, 5, 31
# Keras' torch backend draws dropout from torch's own generator, which a state doesn't hold.
DROPOUT = 0.2


@pytest.fixture(scope="module")
def batches():
    """Batches in which examples have from one to five predictions."""
    import tensorflow as tf

    generator = np.random.default_rng(3)

    def draw(low, high, *shape):
        return generator.integers(low, high, (STEPS, B, *shape)).astype("int32")

    features = {
        "input_ids": draw(5, V, T),
        "attention_mask": np.ones((STEPS, B, T), "int32"),
        "token_type_ids": draw(0, 2, T),
        "masked_lm_positions": draw(0, T, P),
    }
    labels = {"labels": draw(5, V, P), "sentence_order_label": draw(0, 2)}
    labels["labels"][:, np.arange(P) > np.arange(B)[:, None]] = -100
    return tf.data.Dataset.from_tensor_slices((features, labels)).repeat()


def compiled(optimizer=None, dropout=0.0, dtype=None):
    keras.utils.set_random_seed(5)
    config = AlbertConfig.from_size(
        "tiny", vocab_size=V, num_hidden_layers=1, hidden_dropout_prob=dropout
    )
    model = AlbertForPreTraining(config, dtype=dtype)
    model.compile(optimizer or Lamb(WarmupPolynomialDecay(0.02, 2, 5), global_clipnorm=0.3))
    return model


def values(variables):
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


def assert_near(found, expected, atol=2e-6):
    for one, other in zip(values(found), values(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


def averaging(**options):
    return AlbertAdamW(WarmupPolynomialDecay(0.02, 2, 5), use_ema=True, ema_momentum=0.5, **options)


def trained(batches, model, steps=STEPS, micro_batches=1):
    found = []
    fit(model, batches, steps, found.append, micro_batches)
    return found


@pytest.fixture(scope="module")
def whole(batches):
    """A model trained without micro-batches, and the sums of its steps."""
    model = compiled()
    return model, trained(batches, model)


def test_a_step_is_that_of_keras_on_the_whole_batch(batches, whole):
    """Against Keras' own step with the model's own loss; the sums are of before the update."""
    model, expected = compiled(), []
    for features, labels in batches.take(STEPS).as_numpy_iterator():
        expected.append(model.evaluate(features, labels, batch_size=B, verbose=0))
        model.train_on_batch(features, labels)
    assert_near(whole[0].weights, model.weights)
    found = [
        step.masked_lm_loss / step.predictions + step.sentence_order_loss / step.sentences
        for step in whole[1]
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert [(step.predictions, step.sentences) for step in whole[1]] == [(20, B)] * STEPS


def test_micro_batches_are_one_step(batches, whole):
    """Gradients, clipping, the schedule and the count of steps; parts have unlike predictions."""
    model = compiled()
    found = trained(batches, model, micro_batches=3)
    assert_near(model.weights, whole[0].weights)
    assert_near(model.optimizer.variables, whole[0].optimizer.variables)
    assert int(keras.ops.convert_to_numpy(model.optimizer.iterations)) == STEPS
    np.testing.assert_allclose(found, whole[1], rtol=1e-5)


def test_the_average_counts_steps(batches):
    """By hand: Keras' accumulation would move it for every part."""
    model, expected = compiled(averaging()), None

    def after(_):
        nonlocal expected
        weights = values(model.trainable_variables)
        before = weights if expected is None else expected
        expected = [
            0.5 * average + 0.5 * weight for average, weight in zip(before, weights, strict=True)
        ]

    fit(model, batches, STEPS, after, micro_batches=3)
    with_average = [v for v in model.optimizer.variables if v.path.endswith("_average")]
    assert len(with_average) == len(model.trainable_variables)
    assert_near(with_average, expected)


def test_accumulation_of_keras_is_refused(batches):
    model = compiled(AlbertAdamW(0.1, gradient_accumulation_steps=3))
    with pytest.raises(ValueError, match="gradient_accumulation_steps=3. Give micro_batches"):
        fit(model, batches, STEPS, lambda sums: None)


def test_a_second_fit_goes_on_from_the_weights_and_not_their_average(batches):
    """On JAX it would fail, with weights and averages in one buffer."""
    model, parts = compiled(averaging(), dropout=DROPOUT), compiled(averaging(), dropout=DROPOUT)
    trained(batches, model)
    trained(batches, parts, 2)  # after one, the average is the weights
    trained(batches.skip(2), parts, STEPS - 2)
    assert_near(parts.weights, model.weights, atol=0)
    assert_near(parts.optimizer.variables, model.optimizer.variables, atol=0)


def test_saved_and_scored_after_a_step(batches, tmp_path):
    """What `after` saves goes on exactly, and what it scores is the model of that step."""
    model, scores = compiled(dropout=DROPOUT), []
    evaluate = Evaluation(model)

    def after(_):
        if not scores:
            save_state(tmp_path / "state", model, {}, {"step": 1})
        scores.append(evaluate(batches.take(2)))

    fit(model, batches, STEPS, after)
    other = compiled(dropout=DROPOUT)
    assert load_state(tmp_path / "state", other, {}) == {"step": 1}
    assert Evaluation(other)(batches.take(2)) == scores[0] != scores[1]
    assert scores[0].predictions == 2 * 20
    trained(batches.skip(1), other, STEPS - 1)
    assert_near(other.weights, model.weights, atol=0)


def test_evaluation_of_batches_of_any_size(batches):
    import tensorflow as tf

    evaluate = Evaluation(compiled())
    expected = evaluate(batches.take(2))
    assert (expected.predictions, expected.sentences) == (2 * 20, 2 * B)
    others = batches.take(2).unbatch().batch(5).apply(tf.data.experimental.assert_cardinality(3))
    np.testing.assert_allclose(evaluate(others), expected, rtol=1e-5)


def test_half_precision(batches, whole):
    """The scale of the loss enters neither weights nor clipping."""
    model = compiled(dtype="mixed_float16")
    trained(batches, model, micro_batches=2)
    assert_near(model.trainable_variables, whole[0].trainable_variables, atol=0.02)
    moved = zip(values(model.weights), values(compiled().weights), strict=True)
    assert max(np.abs(new - old).max() for new, old in moved) > 0.05


def test_an_interruption_gets_through(batches):
    model, steps = compiled(), []

    def after(sums):
        steps.append(sums)
        if len(steps) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(model, batches, STEPS, after)
    assert len(steps) == 2

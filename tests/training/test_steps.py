"""The training step, run for each backend by KERAS_BACKEND."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import names
from albert_tf.checkpoints.weights import extract
from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForPreTraining
from albert_tf.optimizers import AlbertAdamW, Lamb, WarmupPolynomialDecay, averaged_weights
from albert_tf.training import steps
from albert_tf.training.checkpoints import load_state, save_state
from albert_tf.training.distribution import PARALLEL_SLICES, strategy_for
from albert_tf.training.loss import COUNT, LOSS, pretraining_means

B, T, P, V = 6, 9, 3, 31
STEPS = 4
NAMES = {AlbertAdamW: "adamw", Lamb: "lamb"}  # in the references
# Key biases have no true gradient: rounding alone moves them. In float64, ten steps of AdamW move
# the kernel to 3.7e-5 from the original's: so much is the rounding of its float32.
ROUNDED = {
    AlbertAdamW: ("self/key/bias", "cls/predictions/transform/dense/kernel"),
    Lamb: ("self/key/bias",),
}
# Keras' torch backend draws dropout from torch's generator, which a state doesn't contain.
DROPOUT = 0.0 if keras.backend.backend() == "torch" else 0.2


def batch_of(recorded, step):
    features = {
        "input_ids": recorded["input_ids"][step],
        "attention_mask": recorded["input_mask"][step],
        "token_type_ids": recorded["segment_ids"][step],
        "masked_lm_positions": recorded["masked_lm_positions"][step],
    }
    weights = recorded["masked_lm_weights"][step]
    assert set(np.unique(weights)) <= {0, 1}
    labels = {
        "labels": np.where(weights > 0, recorded["masked_lm_ids"][step], -100),
        "sentence_order_label": recorded["next_sentence_labels"][step][:, 0],
    }
    return tf.nest.map_structure(tf.constant, (features, labels))


def in_the_originals_names(model):
    tensors = extract(model)
    return {
        name: tensors[tensor].T if transposed else tensors[tensor]
        for name, (tensor, transposed) in names.google(model.config).items()
        if tensor in tensors
    }


@pytest.mark.tensorflow
@pytest.mark.parametrize("kind", [Lamb, AlbertAdamW])
def test_ten_steps_of_the_original(golden, kind):
    """Compares the loss curve, and every weight after steps 1, 2 and 10."""
    model = AlbertForPreTraining.from_pretrained(
        golden / "B_original_tf1" / "c1_base_gelu" / "pretrain",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    recorded = np.load(golden / "D_optimizers" / "batches.npz")
    run = np.load(golden / "D_optimizers" / f"run_{NAMES[kind]}_onehot_c1.npz")
    model.compile(kind(WarmupPolynomialDecay(0.01, 4, 20)))
    step = steps.TrainingStep(model, strategy_for("none"))
    for number in range(10):
        means = pretraining_means(step(batch_of(recorded, number)))
        for name in ("masked_lm_loss", "sentence_order_loss"):
            assert means[name] == pytest.approx(run[name][number], abs=2e-5), number
        assert means["loss"] == pytest.approx(run["total_loss"][number], abs=2e-5)
        if number + 1 not in (1, 2, 10):
            continue
        found = in_the_originals_names(model)
        expected = {
            name.removeprefix(f"step{number + 1}/"): run[name]
            for name in run.files
            if name.startswith(f"step{number + 1}/") and "/adam_" not in name
        }
        assert found.keys() == expected.keys() and len(found) == 32
        for name, value in expected.items():
            tolerance = 5e-5 if name.endswith(ROUNDED[kind]) else 1e-5
            np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance, err_msg=name)


@pytest.fixture(scope="module")
def batches():
    """Returns batches whose examples have 0 to 3 predictions; some lack the pair's label."""
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
    labels["labels"][:, np.arange(P) >= np.arange(B)[:, None] % (P + 1)] = -100
    labels["sentence_order_label"][:, 4:] = -100
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


def trained(batches, model, count=STEPS, after=lambda: None, **options):
    """Trains some steps; returns their sums."""
    step, found = steps.TrainingStep(model, strategy_for("none"), **options), []
    for _, batch in zip(
        range(count), steps.batches(batches, strategy_for("none"), B), strict=False
    ):
        found.append(keras.ops.convert_to_numpy(step(batch)))
        after()
    return found


@pytest.fixture(scope="module")
def whole(batches):
    """Returns a model trained without micro-batches, and the sums of its steps."""
    model = compiled()
    return model, trained(batches, model)


def test_a_step_is_that_of_keras_on_the_whole_batch(batches, whole):
    """Compares with Keras' step and the model's loss; the sums precede the update."""
    model, expected = compiled(), []
    for features, labels in batches.take(STEPS).as_numpy_iterator():
        expected.append(model.train_on_batch(features, labels))
    assert_near(whole[0].weights, model.weights)
    found = [sum(row[LOSS] / row[COUNT] for row in sums) for sums in whole[1]]
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    assert [sums[:, COUNT].tolist() for sums in whole[1]] == [[7, 4]] * STEPS


def test_micro_batches_are_one_step(batches, whole):
    """Covers gradients, clipping, schedule and step count; parts have unequal predictions."""
    model = compiled()
    found = trained(batches, model, micro_batches=3)
    assert_near(model.weights, whole[0].weights)
    assert_near(model.optimizer.variables, whole[0].optimizer.variables)
    assert int(keras.ops.convert_to_numpy(model.optimizer.iterations)) == STEPS
    np.testing.assert_allclose(found, whole[1], rtol=1e-5)


@pytest.mark.tensorflow
@pytest.mark.slow
def test_xla_does_not_change_the_training(batches, whole):
    model = compiled()
    trained(batches, model, jit_compile=True)
    assert_near(model.weights, whole[0].weights, atol=1e-5)


@pytest.mark.usefixtures("without_graphs")
def test_the_average_counts_steps(batches):
    """Averages by hand; Keras' accumulation would update the average for every part."""
    model, expected = compiled(averaging()), None

    def after():
        nonlocal expected
        weights = values(model.trainable_variables)
        before = weights if expected is None else expected
        expected = [
            0.5 * average + 0.5 * weight for average, weight in zip(before, weights, strict=True)
        ]

    trained(batches, model, after=after, micro_batches=3)
    own = values(model.trainable_variables)
    with averaged_weights(model):
        assert_near(model.trainable_variables, expected)
    assert_near(model.trainable_variables, own, atol=0)


def test_accumulation_of_keras_is_refused(batches):
    model = compiled(AlbertAdamW(0.1, gradient_accumulation_steps=3))
    with pytest.raises(ValueError, match="gradient_accumulation_steps=3. Give micro_batches"):
        steps.TrainingStep(model, strategy_for("none"))


@pytest.mark.usefixtures("without_graphs")
def test_a_saved_step_resumes_exactly_and_scores_as_it_did(batches, tmp_path):
    """Saves dropout seeds and the average of weights between two steps."""
    model, scores = compiled(averaging(), dropout=DROPOUT), []
    evaluation = steps.Evaluation(model, strategy_for("none"))

    def after():
        if not scores:
            model.save_pretrained(tmp_path)
            save_state(tmp_path, model, {}, {"step": 1})
        with averaged_weights(model):
            scores.append(keras.ops.convert_to_numpy(evaluation(batches.take(2))))

    trained(batches, model, after=after)
    other = compiled(averaging(), dropout=DROPOUT)
    assert load_state(tmp_path, other, {}) == {"step": 1}
    with averaged_weights(other):
        again = steps.Evaluation(other, strategy_for("none"))(batches.take(2))
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(again), scores[0])
    assert (scores[0] != scores[1]).any() and scores[0][0, COUNT] == 2 * 7
    trained(batches.skip(1), other, STEPS - 1)
    assert_near(other.weights, model.weights, atol=0)
    assert_near(other.optimizer.variables, model.optimizer.variables, atol=0)


@pytest.mark.usefixtures("without_graphs")
def test_evaluation_of_batches_of_any_size(batches):
    model = compiled()
    before = values(model.variables)
    evaluation = steps.Evaluation(model, strategy_for("none"))
    expected = keras.ops.convert_to_numpy(evaluation(batches.take(2)))
    assert expected[:, COUNT].tolist() == [2 * 7, 2 * 4]
    found = keras.ops.convert_to_numpy(evaluation(batches.take(2).unbatch().batch(5)))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert_near(model.variables, before, atol=0)


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision(batches, whole, policy):
    """The loss scale changes neither weights nor clipping."""
    model = compiled(dtype=policy)
    assert (type(model.optimizer).__name__ == "LossScaleOptimizer") == (policy == "mixed_float16")
    trained(batches, model, micro_batches=2)
    assert_near(model.trainable_variables, whole[0].trainable_variables, atol=0.02)
    moved = zip(values(model.weights), values(compiled().weights), strict=True)
    assert max(np.abs(new - old).max() for new, old in moved) > 0.05


def test_an_overflow_skips_the_step_and_lowers_the_scale(batches):
    """Skips the update for gradients beyond float16."""
    scaled = keras.optimizers.LossScaleOptimizer(AlbertAdamW(0.01), initial_scale=2.0**40)
    model = compiled(scaled, dtype="mixed_float16")
    before = values(model.trainable_variables)
    trained(batches, model, 1)
    assert float(scaled.dynamic_scale) == 2.0**39
    assert_near(model.trainable_variables, before, atol=0)


@pytest.mark.tensorflow
def test_batches_of_other_shapes_are_traced_once(batches):
    """Traces a signature with open dimensions; a shorter batch gives the same step."""
    model, traces = compiled(), []
    model.loss_terms = lambda *given: traces.append(1) or type(model).loss_terms(model, *given)
    several = [batches.unbatch().batch(size).take(1) for size in (B, 2, 5, 1)]
    dataset = functools.reduce(tf.data.Dataset.concatenate, several)
    found = trained(dataset, model, 4, signature=dataset.element_spec)
    assert len(traces) == PARALLEL_SLICES
    assert [sums[0, COUNT] for sums in found] == [7, 1, 6, 0]
    assert np.isfinite(found).all()


@pytest.mark.tensorflow
def test_gradients_of_the_word_table_are_summed_over_repeated_rows(batches):
    """Unsummed IndexedSlices would change the moments and the clip norm."""
    model = compiled()
    ((features, _),) = batches.take(1)
    features["input_ids"] = tf.fill([B, T], 7)
    with tf.GradientTape() as tape:
        outputs = model(features, training=True)
        loss = tf.reduce_sum(outputs["sop_logits"] ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    tables = [
        gradient
        for gradient, variable in zip(gradients, model.trainable_variables, strict=True)
        if "embeddings" in variable.path
    ]
    assert len(tables) == 3 and all(isinstance(gradient, tf.Tensor) for gradient in tables)

"""The step of training against the original's runs, and against itself in other parts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import names
from albert_tf.checkpoints.weights import extract
from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForPreTraining
from albert_tf.training.optimizers import AlbertAdamW, Lamb
from albert_tf.training.pretraining.metrics import reported
from albert_tf.training.pretraining.step import EvaluationStep, TrainingStep
from albert_tf.training.schedules import WarmupPolynomialDecay

pytestmark = pytest.mark.tensorflow
CONFIG = AlbertConfig.from_size("tiny", vocab_size=31)
B, T, P = 6, 9, 3


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
    tensors = {name.removeprefix("albert."): tensor for name, tensor in extract(model).items()}
    return {
        name: tensors[tensor].T if transposed else tensors[tensor]
        for name, (tensor, transposed) in names.google(model.config).items()
        if tensor in tensors
    }


@pytest.mark.parametrize("kind", [Lamb, AlbertAdamW])
def test_ten_steps_of_the_original(golden, kind):
    """Its loss curve, and every weight after steps 1, 2 and 10.

    Key biases have no true gradient: what moves them is rounding.
    """
    model = AlbertForPreTraining.from_pretrained(
        golden / "B_original_tf1" / "c1_base_gelu" / "pretrain",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    recorded = np.load(golden / "D_optimizers" / "batches.npz")
    run = np.load(
        golden
        / "D_optimizers"
        / f"run_{kind.__name__.removeprefix('Albert').lower()}_onehot_c1.npz"
    )
    model.compile(kind(WarmupPolynomialDecay(0.01, 4, 20)))
    step = TrainingStep(model, tf.distribute.get_strategy())
    for number in range(10):
        means = reported(step(batch_of(recorded, number)))
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
            tolerance = 5e-5 if name.endswith("self/key/bias") else 1e-5
            np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance, err_msg=name)


def drawn(seed):
    """A batch whose examples have 0 to 3 predictions, and some of them no label of order."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(5, 31, (B, P))
    labels[np.arange(P)[None] >= np.arange(B)[:, None] % (P + 1)] = -100
    features = {
        "input_ids": generator.integers(5, 31, (B, T)),
        "attention_mask": np.ones((B, T), "int64"),
        "token_type_ids": generator.integers(0, 2, (B, T)),
        "masked_lm_positions": generator.integers(0, T, (B, P)),
    }
    order = np.where(np.arange(B) < 4, generator.integers(0, 2, B), -100)
    targets = {"labels": labels, "sentence_order_label": order}
    return tf.nest.map_structure(lambda value: tf.constant(value, tf.int32), (features, targets))


def trained(steps=3, micro_batches=1, policy="float32", **options):
    keras.utils.set_random_seed(2)
    model = AlbertForPreTraining(CONFIG, dtype=policy)
    # With the usual epsilon, what rounding leaves of a gradient near 0 moves a weight by the rate.
    model.compile(AlbertAdamW(0.01, epsilon=1e-3, global_clipnorm=0.5), auto_scale_loss=True)
    step = TrainingStep(model, tf.distribute.get_strategy(), micro_batches, **options)
    found = [step(drawn(number)) for number in range(steps)]
    return model, [{name: float(value) for name, value in sums._asdict().items()} for sums in found]


def assert_same(model, other, tolerance):
    for one, two in zip(model.trainable_variables, other.trainable_variables, strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=tolerance, err_msg=one.path)


@pytest.mark.parametrize("micro_batches", [2, 3, 6])
def test_parts_of_a_batch_train_as_the_whole(micro_batches):
    """Their predictions differ in number: means of their means would train otherwise."""
    whole, expected = trained()
    parts, found = trained(micro_batches=micro_batches)
    assert_same(whole, parts, 1e-6)
    for one, other in zip(expected, found, strict=True):
        assert one == pytest.approx(other, rel=1e-5)
    assert whole.optimizer.iterations == parts.optimizer.iterations == 3


def test_compiled_by_xla_it_trains_alike():
    plain, _ = trained()
    compiled, _ = trained(jit_compile=True)
    assert_same(plain, compiled, 1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_trains(policy):
    exact, expected = trained(steps=8)
    half, found = trained(steps=8, policy=policy, micro_batches=2)
    for one, other in zip(expected, found, strict=True):
        assert one["masked_lm_loss"] == pytest.approx(other["masked_lm_loss"], rel=0.05)
    start = [variable.numpy() for variable in trained(steps=0)[0].trainable_variables]
    for before, one, other in zip(
        start, exact.trainable_variables, half.trainable_variables, strict=True
    ):
        if "key/bias" in one.path:  # which has no gradient but rounding
            continue
        moved, expected_move = (np.linalg.norm(each.numpy() - before) for each in (other, one))
        assert moved == pytest.approx(expected_move, rel=0.3), one.path
    assert (type(half.optimizer).__name__ == "LossScaleOptimizer") == (policy == "mixed_float16")


def test_a_step_that_overflows_is_left_out_and_the_scale_falls():
    """Gradients that float16 can't hold change nothing, the average of weights included."""
    keras.utils.set_random_seed(2)
    model = AlbertForPreTraining(CONFIG, dtype="mixed_float16")
    optimizer = keras.optimizers.LossScaleOptimizer(AlbertAdamW(0.01), initial_scale=2.0**40)
    model.compile(optimizer)
    before = [variable.numpy() for variable in model.trainable_variables]
    TrainingStep(model, tf.distribute.get_strategy())(drawn(1))
    assert float(optimizer.dynamic_scale) == 2.0**39
    for variable, value in zip(model.trainable_variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)


def test_evaluation_changes_nothing_and_counts_alike():
    model, _ = trained(steps=0)
    before = [variable.numpy() for variable in model.variables]
    evaluated = EvaluationStep(model, tf.distribute.get_strategy())(drawn(5))
    after = [variable.numpy() for variable in model.variables]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    updated = TrainingStep(model, tf.distribute.get_strategy())(drawn(5))
    np.testing.assert_allclose(evaluated, updated, rtol=1e-5)
    assert float(evaluated.predictions) == 7 and float(evaluated.sentences) == 4


def test_gradients_of_the_word_table_are_summed_over_repeated_rows():
    """IndexedSlices would reach the moments and the norm unsummed: their clip norm is another."""
    model, _ = trained(steps=0)
    features, _ = drawn(3)
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

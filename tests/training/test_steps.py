"""The training step of `fit`, run for each backend by KERAS_BACKEND."""

import contextlib
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import names
from albert_tf.checkpoints.weights import extract
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.models import (
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
)
from albert_tf.models.task import _backend
from albert_tf.optimizers import AlbertAdamW, Lamb, WarmupPolynomialDecay, averaged_weights
from tests.training import ten_steps
from tests.training.ten_steps import B, T, V

STEPS = 3
# Key biases have no true gradient: rounding alone moves them. In float64, ten steps of AdamW move
# the kernel to 3.7e-5 from the original's: so much is the rounding of its float32.
ROUNDED = {
    "adamw": ("self/key/bias", "cls/predictions/transform/dense/kernel"),
    "lamb": ("self/key/bias",),
}
# A few steps are quicker without a graph on TensorFlow.
EAGERLY = {"run_eagerly": keras.backend.backend() == "tensorflow"}


def batch_of(recorded, step):
    features = {
        "input_ids": recorded["input_ids"][step],
        "attention_mask": recorded["input_mask"][step],
        "token_type_ids": recorded["segment_ids"][step],
        "masked_lm_positions": recorded["masked_lm_positions"][step],
    }
    weights = recorded["masked_lm_weights"][step]
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
@pytest.mark.parametrize(("kind", "optimizer"), [("lamb", Lamb), ("adamw", AlbertAdamW)])
def test_ten_steps_of_the_original(golden, kind, optimizer):
    """Compares the loss curve, and every weight after steps 1, 2 and 10."""
    model = AlbertForPreTraining.from_pretrained(
        golden / "B_original_tf1" / "c1_base_gelu" / "pretrain",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    recorded = np.load(golden / "D_optimizers" / "batches.npz")
    run = np.load(golden / "D_optimizers" / f"run_{kind}_onehot_c1.npz")
    model.shows_losses = True
    model.compile(optimizer(WarmupPolynomialDecay(0.01, 4, 20)))
    for number in range(10):
        model.reset_metrics()
        means = model.train_on_batch(*batch_of(recorded, number), return_dict=True)
        shown = {"loss": "total", "prediction_logits_loss": "masked_lm"}
        for name, original in {**shown, "sop_logits_loss": "sentence_order"}.items():
            expected = run[f"{original}_loss"][number]
            assert float(means[name]) == pytest.approx(expected, abs=2e-5), number
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
    return tf.data.Dataset.from_tensor_slices(ten_steps.batches()).repeat()


def compiled(optimizer=None, **options):
    optimizer = optimizer or Lamb(WarmupPolynomialDecay(0.02, 2, 5), global_clipnorm=0.3)
    return ten_steps.compiled(optimizer, {"num_hidden_layers": 1}, **options)


def values(variables):
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


def assert_near(found, expected, atol=2e-6):
    for one, other in zip(values(found), values(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


def averaging(**options):
    return AlbertAdamW(WarmupPolynomialDecay(0.02, 2, 5), use_ema=True, ema_momentum=0.5, **options)


def trained(batches, model, count=STEPS, *others):
    """Trains some steps; returns the metrics of each."""
    losses = ten_steps.Losses()
    options = {"steps_per_epoch": count, "shuffle": False, "verbose": 0}
    model.fit(batches, callbacks=[losses, *others], **options)
    return losses.found


@contextlib.contextmanager
def two_slices():
    """Computes slices of a batch, as the commands do on TensorFlow."""
    with pytest.MonkeyPatch.context() as patch:
        if keras.backend.backend() == "tensorflow":
            patch.setattr("albert_tf.models.steps_tensorflow.parallel_slices", lambda: 2)
        yield


def assert_metrics(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-5)


@pytest.fixture(scope="module")
def whole(batches):
    """Returns a model trained without micro-batches, and the sums of its steps.

    On TensorFlow, its steps compute two slices, and those it is compared with compute one.
    """
    model = compiled(**EAGERLY)
    with two_slices():
        return model, trained(batches, model)


def test_a_step_is_that_of_keras_on_the_whole_batch(batches, whole):
    """The metrics precede the update."""
    model, expected = compiled(**EAGERLY), []
    model.train_step = functools.partial(super(_backend.TrainingStep, model).train_step)
    for features, labels in batches.take(STEPS).as_numpy_iterator():
        model.reset_metrics()
        expected.append(model.train_on_batch(features, labels, return_dict=True))
    assert_near(whole[0].weights, model.weights)
    assert_metrics(whole[1], [{k: float(v) for k, v in each.items()} for each in expected])


def test_micro_batches_are_one_step(batches, whole):
    """Covers gradients, clipping, schedule and step count; parts have unequal predictions."""
    model = compiled(micro_batches=4)
    found = trained(batches, model)
    assert_near(model.weights, whole[0].weights)
    assert_near(model.optimizer.variables, whole[0].optimizer.variables)
    assert int(keras.ops.convert_to_numpy(model.optimizer.iterations)) == STEPS
    assert_metrics(found, whole[1])


@pytest.mark.usefixtures("without_graphs")
def test_micro_batches_of_another_loss_are_one_step():
    """Each part's mean of a loss of Keras counts alike, and so do sample weights."""
    generator = np.random.default_rng(1)
    ids, labels = generator.integers(5, V, (12, T)), generator.integers(0, 2, (12, 2))
    found = []
    for parts in (1, 3):
        keras.utils.set_random_seed(2)
        config = AlbertConfig.from_size("tiny", vocab_size=V, num_hidden_layers=1, num_labels=2)
        plain = {"hidden_dropout_prob": 0.0, "classifier_dropout_prob": 0.0}
        model = AlbertForSequenceClassification(config.replace(**plain))
        loss = keras.losses.CategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.1), loss, micro_batches=parts)
        one_hot = np.eye(2, dtype="float32")[labels[:, 0]]
        weights = np.linspace(0.1, 2, 12).astype("float32")
        history = model.fit(ids, one_hot, 6, sample_weight=weights, shuffle=False, verbose=0)
        found.append((model, history.history["loss"]))
    assert_near(found[0][0].weights, found[1][0].weights)
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-5)


def test_parts_of_a_loss_that_cannot_be_added_up():
    class Own(AlbertForPreTraining):
        def compute_loss(self, *args, **kwargs):
            return super().compute_loss(*args, **kwargs)

    config = AlbertConfig.from_size("tiny", vocab_size=V, num_hidden_layers=1)
    Own(config).compile()
    with pytest.raises(UserError, match="Own.compute_loss"):
        Own(config).compile(micro_batches=2)
    with pytest.raises(UserError, match="gradient_accumulation_steps .*: 2 and 3"):
        compiled(AlbertAdamW(0.1, gradient_accumulation_steps=3), micro_batches=2)


@pytest.mark.tensorflow
@pytest.mark.slow
def test_xla_does_not_change_the_training(batches, whole):
    model = compiled(jit_compile=True)
    trained(batches, model)
    assert_near(model.weights, whole[0].weights, atol=1e-5)


@pytest.mark.usefixtures("without_graphs")
def test_the_average_counts_steps(batches):
    """Averages by hand; Keras' accumulation would update the average for every part."""
    model, expected = compiled(averaging(), micro_batches=2), None
    model.optimizer.finalize_variable_values = lambda weights: None  # at the end of `fit`

    def note(batch, logs):
        nonlocal expected
        weights = values(model.trainable_variables)
        before = weights if expected is None else expected
        expected = [
            0.5 * average + 0.5 * weight for average, weight in zip(before, weights, strict=True)
        ]

    trained(batches, model, STEPS, keras.callbacks.LambdaCallback(on_train_batch_end=note))
    del model.optimizer.finalize_variable_values
    own = values(model.trainable_variables)
    with averaged_weights(model):
        assert_near(model.trainable_variables, expected)
    assert_near(model.trainable_variables, own, atol=0)


@pytest.mark.usefixtures("without_graphs")
def test_evaluation_of_batches_of_any_size(batches, whole):
    """The last batch has fewer labels, and counts by them."""
    model, _ = whole
    expected = model.evaluate(batches.take(2).unbatch().batch(2 * B), verbose=0, return_dict=True)
    found = model.evaluate(batches.take(2).unbatch().batch(5), verbose=0, return_dict=True)
    for output in ("prediction_logits", "sop_logits"):
        assert found[f"{output}_loss"] == pytest.approx(expected[f"{output}_loss"], rel=1e-5)


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("task", ["tags", "positions"])
def test_an_evaluation_weights_batches_by_their_labels(task):
    """Four batches, of 1, 3, 5, and 1 labels, have the mean loss of one."""
    config = AlbertConfig.from_size("tiny", vocab_size=V, num_hidden_layers=1, num_labels=2)
    config = config.replace(initializer_range=0.5)
    ids = np.random.default_rng(3).integers(5, V, (16, T))
    counts = np.isin(np.arange(16), (1, 6, *range(8, 16)))
    model = (AlbertForTokenClassification if task == "tags" else AlbertForQuestionAnswering)(config)
    labels = np.where(counts, np.arange(16) % 2, -100)
    if task == "tags":
        labels = np.where(np.arange(T) == 2, labels[:, None], -100)
    else:
        labels = dict.fromkeys(("start_positions", "end_positions"), labels)
    model.compile("sgd", run_eagerly=keras.backend.backend() != "jax")
    whole, parts = (model.evaluate(ids, labels, batch_size=size, verbose=0) for size in (16, 5))
    assert parts == pytest.approx(whole, rel=1e-5)


@pytest.mark.tensorflow
def test_one_example_has_no_empty_slice():
    """Eager mode computes no maximum of an empty mask."""
    config = AlbertConfig.from_size("tiny", vocab_size=V, num_hidden_layers=1)
    model = AlbertForMultipleChoice(config)
    model.compile("sgd", run_eagerly=True)
    ids = np.full((1, 3, T), 5)
    with two_slices():
        found = model.evaluate({"input_ids": ids, "attention_mask": ids}, np.array([1]), verbose=0)
    assert found == pytest.approx(np.log(3), rel=1e-4)


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize(
    "policy", ["mixed_bfloat16", pytest.param("mixed_float16", marks=pytest.mark.slow)]
)
def test_half_precision(batches, whole, policy):
    """The loss scale changes neither weights nor clipping."""
    model = compiled(dtype=policy, micro_batches=2)
    before = values(model.weights)
    assert (type(model.optimizer).__name__ == "LossScaleOptimizer") == (policy == "mixed_float16")
    trained(batches, model)
    assert_near(model.trainable_variables, whole[0].trainable_variables, atol=0.02)
    moved = zip(values(model.weights), before, strict=True)
    assert max(np.abs(new - old).max() for new, old in moved) > 0.05


@pytest.mark.usefixtures("without_graphs")
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
    """A shorter batch, of one example or without a label, gives a step too, also in slices."""
    model, traces = compiled(keras.optimizers.SGD(0.1)), []
    model.loss_terms = lambda *given: traces.append(1) or type(model).loss_terms(model, *given)
    several = [batches.unbatch().batch(size).take(1) for size in (B, 2, 5, 1)]
    with two_slices():
        found = trained(functools.reduce(tf.data.Dataset.concatenate, several), model, 4)
    assert len(traces) == 1
    assert [step["prediction_logits_loss"] > 0 for step in found] == [True, True, True, False]
    assert np.isfinite([step["loss"] for step in found]).all()

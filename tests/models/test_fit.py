"""Training in Keras's ways; docs/keras.md runs texts, callbacks, and heads of your own."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.labels import unnamed_labels
from albert_tf.models import (
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
    AlbertModel,
)

LABELS = np.array([0, 1, 2, 1, 0, 2, 1, 1, 0, 2, 0, 1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns the directory of an encoder, without a head."""
    keras.utils.set_random_seed(7)
    path = tmp_path_factory.mktemp("model")
    config = AlbertConfig.from_size(
        "tiny",
        vocab_size=31,
        num_hidden_layers=1,
        id2label=unnamed_labels(3),
        classifier_dropout_prob=0.0,
    )
    AlbertModel(config).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def features():
    ids = np.random.default_rng(3).integers(5, 31, (12, 7)).astype("int32")
    ids[:, 0] = 5 + LABELS  # the label can be learned
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


@pytest.fixture
def load(folder):
    """Returns a function that loads the model with a head, always the same one."""

    def load(cls=AlbertForSequenceClassification, **fields):
        keras.utils.set_random_seed(7)
        return cls.from_pretrained(folder, num_labels=3, **fields)

    return load


@pytest.mark.tensorflow
@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("parts", [1, 2])
def test_positions_for_all_examples(load, features, parts):
    """A step divides the batch, and needs a row of positions for each example."""
    positions = {"position_ids": np.arange(7)[None, ::-1]}
    each = {"position_ids": np.repeat(positions["position_ids"], 12, axis=0)}
    losses = []
    for more in (positions, each):
        model = load()
        model.compile(keras.optimizers.SGD(0.1), micro_batches=parts)
        data = tf.data.Dataset.from_tensors(({**features, **more}, LABELS))
        losses.append([model.fit(data, verbose=0).history["loss"], model.evaluate(data, verbose=0)])
    assert losses[0][0] == pytest.approx(losses[1][0])
    assert losses[0][1] == pytest.approx(losses[1][1])


@pytest.mark.tensorflow
@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_ragged_tensors_are_rejected(load, method):
    model, ids = load(), tf.ragged.constant([[5, 6, 7], [5, 6]])
    model.compile()
    data = tf.data.Dataset.from_tensor_slices(({"input_ids": ids}, LABELS[:2])).batch(2)
    with pytest.raises(UserError, match="dense tensors. Received: a ragged tensor as input_ids"):
        getattr(model, method)(data, verbose=0)


def logits(model, features):
    return ops.convert_to_numpy(model(features)["logits"])


def test_arrays_alone_are_shuffled(load, features, monkeypatch):
    """Keras would warn that a dataset can't be."""
    model, given = load(), []
    model.compile()

    @functools.wraps(keras.Model.fit)
    def note(*_, shuffle=True, **__):
        given.append(shuffle)

    monkeypatch.setattr(keras.Model, "fit", note)
    model.fit(features, LABELS)
    dataset = tf.data.Dataset.from_tensor_slices((features, LABELS)).batch(4)
    model.fit(dataset)
    model.fit(dataset, shuffle=True)
    assert given == [True, False, False]


class Stop(keras.callbacks.Callback):
    """Ends a fit as a crash does."""

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise ConnectionError


@pytest.mark.tensorflow
def test_backup_and_restore(load, features, tmp_path):
    """Resumes with a new model exactly as without the interruption."""

    def fit(*callbacks):
        model = load()
        model.compile(run_eagerly=True)
        options = {"epochs": 4, "batch_size": 6, "shuffle": False, "verbose": 0}
        return model.fit(features, LABELS, callbacks=callbacks, **options).history["loss"]

    backup = functools.partial(keras.callbacks.BackupAndRestore, tmp_path / "backup")
    with pytest.raises(ConnectionError):
        fit(backup(), Stop())
    resumed = fit(backup())
    assert len(resumed) == 2
    assert resumed == pytest.approx(fit()[2:], rel=1e-5)


@keras.saving.register_keras_serializable("tests")
class Confident(AlbertForSequenceClassification):
    """Adds the logits' squares to the loss, and counts its steps."""

    steps = 0

    def train_step(self, *arguments):
        self.steps += 1
        return super().train_step(*arguments)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        return loss + 10.0 * ops.mean(ops.square(y_pred["logits"]))


def test_a_step_and_a_loss_of_a_subclass(load, features):
    model, plain = load(Confident), load()
    for each in (model, plain):
        each.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    found = model.fit(features, LABELS, batch_size=6, verbose=0).history["loss"]
    assert model.steps == 2
    own = plain.evaluate(features, LABELS, verbose=0)
    expected = own + 10 * np.square(logits(model, features)).mean()
    assert found == [pytest.approx(expected, rel=1e-5)]


@pytest.mark.parametrize("cls", [AlbertForTokenClassification, AlbertForQuestionAnswering])
def test_weights_of_classes_need_a_class_for_each_example(load, features, cls):
    model = load(cls)
    model.compile("sgd")
    with pytest.raises(UserError, match=f"class_weight .* {cls.__name__}"):
        model.fit(features, class_weight={0: 2.0}, verbose=0)


def test_weights_of_classes_are_not_for_several_labels(folder, features):
    several = {"num_labels": 3, "problem_type": "multi_label_classification"}
    model = AlbertForSequenceClassification.from_pretrained(folder, **several)
    model.compile("sgd")
    labels = np.eye(3, dtype="float32")[LABELS]
    with pytest.raises(UserError, match="class_weight"):
        model.fit(features, labels, class_weight={0: 2.0}, verbose=0)


def test_an_evaluation_within_fit_may_have_other_labels(load, features):
    """Probabilities to learn from, numbers of classes to compare with."""
    model = load()
    model.compile("sgd")
    soft, held_out = np.eye(3, dtype="float32")[LABELS], (features, LABELS)
    scores = []
    evaluate = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda *_: scores.append(model.evaluate(*held_out, verbose=0))
    )
    model.fit(features, soft, callbacks=[evaluate], epochs=2, verbose=0)
    assert len(scores) == 2
    options = {"epochs": 2, "validation_data": held_out, "verbose": 0}
    found = model.fit(features, soft, callbacks=[evaluate], **options).history["val_loss"]
    assert scores[2:] == pytest.approx(found) and len(found) == 2
    whole = {**features, "labels": soft}
    history = model.fit(whole, validation_data=(whole,), verbose=0).history
    assert {"loss", "val_loss"} <= history.keys()


def test_weights_of_losses_need_losses(load):
    with pytest.raises(UserError, match="loss_weights .* each of logits"):
        load().compile(loss_weights=[2.0])


def test_several_labels_outside_0_and_1(folder, features):
    several = {"num_labels": 3, "problem_type": "multi_label_classification"}
    model = AlbertForSequenceClassification.from_pretrained(folder, **several)
    model.compile("sgd")
    for label in (-100, 7):
        with pytest.raises(ValueError, match=f"between 0 and 1. Received: {label}"):
            model.evaluate(features, np.array([[1, 0, label]] * 12), verbose=0)


class WithoutLabels(AlbertForSequenceClassification):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return ops.mean(ops.square(y_pred["logits"]))


def test_a_loss_of_a_subclass_without_labels(load, features):
    model = load(WithoutLabels)
    model.compile("sgd", run_eagerly=True)
    expected = np.square(logits(model, features)).mean()
    found = model.fit(features, batch_size=12, verbose=0).history["loss"]
    assert found == [pytest.approx(expected, rel=1e-4)]


@pytest.mark.parametrize(
    "form",
    [
        "probabilities",
        *(pytest.param(form, marks=pytest.mark.slow) for form in ("int32", "float32")),
    ],
)
def test_micro_batches_count_the_tags_that_are_not_ignored(load, features, form):
    tags = np.where(np.random.default_rng(5).random((12, 7)) < 0.6, -100, LABELS[:, None])
    if form == "probabilities":
        given = np.eye(3, dtype="float32")[np.maximum(tags, 0)]
        given[tags == -100] = -100
    else:
        given = tags.astype(form)
    assert_parts_add_up(load(AlbertForTokenClassification), features, given)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("problem_type", [None, "multi_label_classification", "regression"])
def test_micro_batches_of_integer_and_float_labels(load, features, problem_type, dtype):
    labels = np.where(LABELS < 2, LABELS, -100) if problem_type is None else np.eye(3)[LABELS]
    model = load(problem_type=problem_type)
    assert_parts_add_up(model, features, labels.astype(dtype), run_eagerly=True)
    uneven = model.evaluate(features, labels.astype(dtype), batch_size=5, verbose=0)
    assert uneven == pytest.approx(model.evaluate(features, labels, batch_size=12, verbose=0))


def test_micro_batches_count_the_positions_inside(load, features):
    positions = np.array([1, 2, -1, 7, 3, 7, 7, 7, 0, 6, 7, 7])
    given = {"start_positions": positions, "end_positions": positions[::-1].copy()}
    assert_parts_add_up(load(AlbertForQuestionAnswering), features, given)


def assert_parts_add_up(model, features, labels, **options):
    """Compares the loss and the step of 1 and of 2 micro-batches."""
    start, found = model.get_weights(), []
    for parts in (1, 2):
        model.set_weights(start)
        model.compile(keras.optimizers.SGD(0.5), micro_batches=parts, **options)
        fitted = model.fit(features, labels, batch_size=12, shuffle=False, verbose=0)
        found.append([fitted.history["loss"], *model.get_weights()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.tensorflow
@pytest.mark.slow
def test_micro_batches_in_xla(load, features):
    model = load()
    assert_parts_add_up(model, features, LABELS, jit_compile=True)
    uneven = {name: values[:5] for name, values in features.items()}
    with pytest.raises(UserError, match="a multiple of micro_batches.*Received: 5 examples"):
        model.train_on_batch(uneven, LABELS[:5])


def test_a_part_that_trains_within_a_frozen_one(load, tmp_path):
    model = load()
    model.albert.trainable = False
    model.albert.encoder.blocks[0].attention.query.trainable = True
    model.save(tmp_path / "model.keras")
    copies = [keras.models.load_model(tmp_path / "model.keras"), keras.models.clone_model(model)]
    for again in copies:
        paths = [variable.path for variable in again.trainable_variables]
        assert paths == [variable.path for variable in model.trainable_variables]
        assert len(paths) == 4  # the query's and the classifier's


def test_low_rank_adapters(load, features, tmp_path):
    """Adapters train in place of the encoder's weights, and are saved as a part of them."""
    model = load()
    before = model.get_weights()
    model.albert.trainable = False
    query = model.albert.encoder.blocks[0].attention.query
    query.trainable = True
    query.enable_lora(rank=2)
    model.compile(keras.optimizers.Adam(3e-2), run_eagerly=True)
    model.fit(features, LABELS, epochs=4, verbose=0)
    model.save_pretrained(tmp_path / "merged")
    model.save(tmp_path / "model.keras")
    merged = AlbertForSequenceClassification.from_pretrained(tmp_path / "merged")
    for again in (merged, keras.models.load_model(tmp_path / "model.keras")):
        np.testing.assert_allclose(logits(again, features), logits(model, features), atol=1e-6)
    changed = [
        variable.path.split("attention/")[-1]
        for variable, value in zip(merged.weights, before, strict=True)
        if "albert/" in variable.path and np.abs(variable.numpy() - value).max() > 1e-6
    ]
    assert changed == ["query/kernel", "query/bias"]

"""Training in Keras's ways; docs/keras.md runs texts, callbacks, and heads of your own."""

import contextlib
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
    unshare,
)
from albert_tf.models.batch import batch_of

LABELS = np.array([0, 1, 2, 1, 0, 2, 1, 1, 0, 2, 0, 1])
SEVERAL = {"problem_type": "multi_label_classification"}


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


def test_positions_for_all_examples(load, features):
    """A step divides the batch, and needs a row of positions for each example."""
    positions, model = np.arange(7, dtype="int32")[None, ::-1], load()
    for given in (positions, ops.convert_to_tensor(positions)):
        found = batch_of(model, {**features, "position_ids": given}).features["position_ids"]
        np.testing.assert_array_equal(found, np.repeat(positions, 12, axis=0))


@pytest.mark.tensorflow
@pytest.mark.usefixtures("without_graphs")
def test_ragged_tensors_are_rejected(load):
    model, ids = load(), tf.ragged.constant([[5, 6, 7], [5, 6]])
    model.compile()
    data = tf.data.Dataset.from_tensor_slices(({"input_ids": ids}, LABELS[:2])).batch(2)
    for method in (model.fit, model.evaluate, model.predict):
        with pytest.raises(UserError, match="a ragged tensor as input_ids"):
            method(data, verbose=0)


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


class WithoutLabels(AlbertForSequenceClassification):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return ops.mean(ops.square(y_pred["logits"]))


def test_a_step_and_a_loss_of_a_subclass(load, features):
    model, plain, without = load(Confident), load(), load(WithoutLabels)
    for each in (model, plain, without):
        each.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    squares = np.square(logits(model, features)).mean()
    expected = plain.test_on_batch(features, LABELS) + 10 * squares
    assert model.train_on_batch(features, LABELS) == pytest.approx(expected, rel=1e-5)
    assert model.steps == 1
    assert without.train_on_batch(features) == pytest.approx(squares, rel=1e-4)


@pytest.mark.parametrize(
    ("cls", "fields"),
    [
        (AlbertForTokenClassification, {}),
        (AlbertForQuestionAnswering, {}),
        (AlbertForSequenceClassification, SEVERAL),
    ],
)
def test_weights_of_classes_need_a_class_for_each_example(load, features, cls, fields):
    model = load(cls, **fields)
    model.compile("sgd")
    with pytest.raises(UserError, match=f"class_weight .* {cls.__name__}"):
        model.fit(features, class_weight={0: 2.0}, verbose=0)


def test_an_evaluation_within_fit_may_have_other_labels(load, features):
    """The model trains on probabilities, and is evaluated on class ids `[B]` and `[B, 1]`."""
    model = load()
    model.compile("sgd")
    soft, scores = np.eye(3, dtype="float32")[LABELS], []
    evaluate = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda *_: scores.append(model.evaluate(features, LABELS[:, None], verbose=0))
    )
    held_out = ({**features, "labels": LABELS},)
    options = {"epochs": 2, "validation_data": held_out, "verbose": 0}
    found = model.fit(features, soft, callbacks=[evaluate], **options).history["val_loss"]
    assert scores == pytest.approx(found) and len(found) == 2


@pytest.mark.parametrize("parts", [1, 2])
def test_a_step_of_a_frozen_model_computes_the_loss(load, features, parts):
    """Like Keras, it also warns, except on JAX."""
    model = load()
    model.trainable = False
    model.compile("sgd", micro_batches=parts, run_eagerly=True)
    expected, start = model.test_on_batch(features, LABELS), model.get_weights()
    is_jax = keras.backend.backend() == "jax"
    warns = pytest.warns(UserWarning, match="no trainable weights")
    with contextlib.nullcontext() if is_jax else warns:
        assert model.train_on_batch(features, LABELS) == pytest.approx(expected, rel=1e-5)
    for found, weight in zip(model.get_weights(), start, strict=True):
        np.testing.assert_array_equal(found, weight)


TAGS = np.where(np.random.default_rng(5).random((12, 7)) < 0.6, -100, LABELS[:, None])
SOFT_TAGS = np.eye(3, dtype="float32")[np.maximum(TAGS, 0)]
SOFT_TAGS[TAGS == -100] = -100
PLACES = np.array([1, 2, -1, 7, 3, 7, 7, 7, 0, 6, 7, 7])  # some are outside
SPANS = {"start_positions": PLACES, "end_positions": PLACES[::-1].copy()}


@pytest.mark.parametrize(
    ("cls", "fields", "labels"),
    [
        pytest.param(AlbertForTokenClassification, {}, TAGS.astype("float32"), id="tags"),
        pytest.param(AlbertForTokenClassification, {}, SOFT_TAGS, id="probabilities of tags"),
        pytest.param(AlbertForQuestionAnswering, {}, SPANS, id="positions"),
        pytest.param(
            AlbertForSequenceClassification, {}, np.where(LABELS < 2, LABELS, -100), id="classes"
        ),
        pytest.param(
            AlbertForSequenceClassification, SEVERAL, np.eye(3, dtype=int)[LABELS], id="several"
        ),
        pytest.param(
            AlbertForSequenceClassification,
            {"problem_type": "regression"},
            np.stack([LABELS, LABELS - 101, LABELS], axis=-1),  # -100 is a number like others
            id="numbers",
        ),
    ],
)
def test_micro_batches_count_the_labels_that_are_not_ignored(load, features, cls, fields, labels):
    assert_parts_add_up(load(cls, **fields), features, labels, run_eagerly=True)


def assert_parts_add_up(model, features, labels, **options):
    """Compares the loss and the step of 1 and of 2 micro-batches."""
    start, found = model.get_weights(), []
    for parts in (1, 2):
        model.set_weights(start)
        model.compile(keras.optimizers.SGD(0.5), micro_batches=parts, **options)
        found.append([model.train_on_batch(features, labels), *model.get_weights()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.tensorflow
@pytest.mark.slow
def test_micro_batches_in_xla(load, features):
    model = load()
    assert_parts_add_up(model, features, LABELS, jit_compile=True)
    uneven = {name: values[:5] for name, values in features.items()}
    model.compile("sgd", micro_batches=2, jit_compile=True)
    with pytest.raises(UserError, match="a multiple of micro_batches.*Received: 5 examples"):
        model.train_on_batch(uneven, LABELS[:5])


def test_low_rank_adapters(load, features, tmp_path):
    """Adapters train in place of the encoder's weights, and are saved as a part of them.

    A model from a Keras file continues to train the adapters, also with a new optimizer.
    """
    model = load()
    before = model.get_weights()
    model.albert.trainable = False
    query = model.albert.encoder.blocks[0].attention.query
    query.trainable = True
    query.enable_lora(rank=2, lora_alpha=3)
    model.compile(keras.optimizers.Adam(3e-2), run_eagerly=True)
    model.train_on_batch(features, LABELS)
    model.save_pretrained(tmp_path / "merged")
    model.save(tmp_path / "model.keras")
    merged = AlbertForSequenceClassification.from_pretrained(tmp_path / "merged")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for again in (merged, loaded, unshare(model)):
        np.testing.assert_allclose(logits(again, features), logits(model, features), atol=1e-6)
    changed = [
        variable.path.split("attention/")[-1]
        for variable, value in zip(merged.weights, before, strict=True)
        if "albert/" in variable.path and np.abs(variable.numpy() - value).max() > 1e-6
    ]
    assert changed == ["query/kernel", "query/bias"]
    trained = [variable.path for variable in model.trainable_variables]
    for copy in (loaded, keras.models.clone_model(model)):
        assert [variable.path for variable in copy.trainable_variables] == trained
        assert copy.albert.encoder.blocks[0].attention.query.lora_alpha == 3
    assert int(loaded.optimizer.iterations) == 1
    loaded.compile(keras.optimizers.Adam(3e-2), run_eagerly=True)
    for _ in range(2):  # the first step changes only the second matrix
        start = [variable.numpy() for variable in loaded.trainable_variables]
        loaded.train_on_batch(features, LABELS)
    for variable, value in zip(loaded.trainable_variables, start, strict=True):
        assert np.any(variable.numpy() != value), variable.path

"""Training in Keras' ways: callbacks, weights of examples, searches, and loops of your own."""

import contextlib
import functools
import gc
import weakref

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.config import AlbertConfig, unnamed_labels
from albert_tf.models import AlbertForSequenceClassification, AlbertModel

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
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
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

    def load(**options):
        keras.utils.set_random_seed(7)
        return AlbertForSequenceClassification.from_pretrained(folder, num_labels=3, **options)

    return load


def logits(model, features):
    return ops.convert_to_numpy(model(features)["logits"])


def test_callbacks(load, features, tmp_path):
    """Each does its work, and the files that they write load."""
    model = load()
    model.compile(keras.optimizers.Adam(1e-2), metrics=["accuracy"], run_eagerly=True)
    logs = keras.callbacks.TensorBoard(tmp_path / "logs")
    callbacks = [
        keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.weights.h5", save_weights_only=True),
        keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras"),
        keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=99, verbose=0),
        keras.callbacks.EarlyStopping("loss", patience=3, min_delta=99, restore_best_weights=True),
        *([logs] if keras.backend.backend() == "tensorflow" else []),
    ]
    history = model.fit(features, LABELS, epochs=9, batch_size=6, callbacks=callbacks, verbose=0)
    assert len(history.epoch) == 4  # the first, and three that seem no better
    np.testing.assert_allclose(history.history["learning_rate"], [0.01, 0.01, 0.005, 0.0025])
    first = logits(model, features)  # EarlyStopping restored them
    again = load()
    again.load_weights(tmp_path / "1.weights.h5")
    np.testing.assert_array_equal(logits(again, features), first)
    whole = keras.models.load_model(tmp_path / "1.keras")
    np.testing.assert_array_equal(logits(whole, features), first)
    whole.fit(features, LABELS, batch_size=6, verbose=0)  # with its optimizer's state
    if logs in callbacks:
        assert list((tmp_path / "logs" / "train").glob("events*"))


def test_arrays_alone_are_shuffled(load, features, monkeypatch):
    """Keras would warn that a dataset can't be."""
    import tensorflow as tf

    model, given = load(), []
    model.compile()

    @functools.wraps(keras.Model.fit)
    def note(*_, shuffle=True, **__):
        given.append(shuffle)

    monkeypatch.setattr(keras.Model, "fit", note)
    model.fit(features, LABELS)
    model.fit({**features, "labels": LABELS})
    model.fit(features["input_ids"])  # for a loss of one's own
    dataset = tf.data.Dataset.from_tensor_slices((features, LABELS)).batch(4)
    model.fit(dataset)
    model.fit(iter(dataset))
    model.fit(dataset, shuffle=True)
    assert given == [True, True, True, False, False, True]


class Stop(keras.callbacks.Callback):
    """Ends a fit as a crash does."""

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise ConnectionError


@pytest.mark.tensorflow
@pytest.mark.parametrize("optimizer", ["adam", pytest.param("auto", marks=pytest.mark.slow)])
def test_backup_and_restore(load, features, tmp_path, optimizer):
    """Resumes with a new model exactly as without the interruption."""

    def fit(*more):
        model = load()
        model.compile(optimizer, run_eagerly=True)
        backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
        options = {"epochs": 4, "batch_size": 6, "shuffle": False, "verbose": 0}
        callbacks = [backup, *more] if more != (None,) else []
        return model.fit(features, LABELS, callbacks=callbacks, **options).history["loss"]

    with pytest.raises(ConnectionError):
        fit(Stop())
    resumed = fit()
    assert len(resumed) == 2
    assert resumed == pytest.approx(fit(None)[2:], rel=1e-5)


@pytest.mark.slow
def test_a_search_leaves_no_models_behind(load, features):
    """Builds a model for each trial, as KerasTuner does; earlier ones are freed."""
    models, losses = [], []
    for rate in (1e-3, 1e-2):
        keras.utils.clear_session()
        model = load()
        model.compile(keras.optimizers.Adam(rate))
        losses += model.fit(features, LABELS, verbose=0, epochs=2).history["loss"][-1:]
        models.append(weakref.ref(model))
        del model
    keras.utils.clear_session()
    gc.collect()
    assert losses[1] < losses[0]
    assert [model() for model in models] == [None, None]


@pytest.mark.tensorflow
def test_a_loop_with_a_gradient_tape(load, features):
    import tensorflow as tf

    model, optimizer = load(), keras.optimizers.Adam(1e-2)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(features, labels):
        with tf.GradientTape() as tape:
            loss = model(features, labels=labels, training=True)["loss"]
        gradients = tape.gradient(loss, model.trainable_variables)
        assert all(gradient is not None for gradient in gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    dataset = tf.data.Dataset.from_tensor_slices((features, LABELS)).batch(6).repeat(4)
    losses = [float(step(*batch)) for batch in dataset]
    assert len(losses) == 8 and losses[-1] < losses[0] - 0.1


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


def test_a_step_and_a_loss_of_a_subclass(folder, load, features):
    keras.utils.set_random_seed(7)
    model = Confident.from_pretrained(folder, num_labels=3)
    for each in (model, load()):
        each.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    found = model.fit(features, LABELS, batch_size=6, verbose=0).history["loss"]
    assert model.steps == 2
    plain = each.evaluate(features, LABELS, verbose=0)
    expected = plain + 10 * np.square(logits(model, features)).mean()
    assert found == [pytest.approx(expected, rel=1e-5)]


def test_weights_of_classes_and_examples(load, features):
    model = load()
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    weights = {0: 0.0, 1: 1.0, 2: 3.0}
    of_examples = np.array([weights[label] for label in LABELS])
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)
    losses = ops.convert_to_numpy(entropy(LABELS, logits(model, features)))
    for given in ({"class_weight": weights}, {"sample_weight": of_examples}):
        (found,) = model.fit(features, LABELS, batch_size=12, verbose=0, **given).history["loss"]
        assert found == pytest.approx(np.mean(losses * of_examples), rel=1e-5)


@contextlib.contextmanager
def policy(name):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def test_half_precision_for_all(load, features):
    with policy("mixed_bfloat16"):
        model = load()
        model.compile(keras.optimizers.Adam(1e-2), run_eagerly=True)
        losses = model.fit(features, LABELS, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert {variable.dtype for variable in model.trainable_variables} == {"float32"}
    assert model.albert.encoder.compute_dtype == "bfloat16"
    assert logits(model, features).dtype == "float32"


def test_low_rank_adapters(load, features, tmp_path):
    """Adapters train in place of the encoder's weights, and are saved as a part of them."""
    model = load()
    before = model.get_weights()
    model.albert.trainable = False
    for block in model.albert.encoder.blocks:
        block.attention.query.trainable = True
        block.attention.query.enable_lora(rank=2)
    model.compile(keras.optimizers.Adam(3e-2))
    losses = model.fit(features, LABELS, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    model.save_pretrained(tmp_path / "merged")
    model.save(tmp_path / "model.keras")
    merged = AlbertForSequenceClassification.from_pretrained(tmp_path / "merged")
    for again in (merged, keras.models.load_model(tmp_path / "model.keras")):
        np.testing.assert_allclose(logits(again, features), logits(model, features), atol=1e-6)
    changed = [
        variable.path.split("/", 1)[1]
        for variable, value in zip(merged.weights, before, strict=True)
        if variable.path.startswith("albert") and np.abs(variable.numpy() - value).max() > 1e-6
    ]
    query = "encoder/group_0_block_0/attention/query"
    assert changed == [f"{query}/kernel", f"{query}/bias"]

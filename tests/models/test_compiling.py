"""The optimizer of `compile()`, and its schedule in `fit`."""

import keras
import numpy as np
import pytest

from albert_tf.errors import UserError
from albert_tf.models import CLASSES, AlbertForSequenceClassification, AlbertModel
from albert_tf.optimizers import AlbertAdamW, WarmupPolynomialDecay

EAGERLY = keras.backend.backend() != "jax"  # JAX would compile every operation
N = 12
LABELS = np.arange(N) % 2


@pytest.fixture
def features():
    return {"input_ids": np.random.default_rng(3).integers(5, 31, (N, 4)).astype("int32")}


@pytest.fixture
def pretrained(shallow_config, scrambled):
    """Returns a function that makes a model whose weights aren't those of a new one."""
    config = shallow_config.replace(
        num_attention_heads=2, classifier_dropout_prob=0.0, num_labels=2
    )

    def make(hidden_size=20):
        return scrambled(AlbertForSequenceClassification(config.replace(hidden_size=hidden_size)))

    return make


def fitted(model, x, y=None, **options):
    """Returns the learning rate of each step of a fit."""
    rates = []

    class Rates(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            rates.append(float(self.model.optimizer.learning_rate))

    model.fit(x, y, callbacks=[Rates()], verbose=0, **options)
    return rates


def expected(steps, begin=0):
    schedule = WarmupPolynomialDecay(1e-4, int(0.1 * steps), steps, form="usual")
    return pytest.approx([float(schedule(step)) for step in range(begin, steps)], rel=1e-5)


def test_the_optimizer(pretrained):
    model = pretrained()
    model.compile()
    config = model.optimizer.get_config()
    assert type(model.optimizer) is AlbertAdamW and config["bias_correction"]
    assert (config["weight_decay"], config["global_clipnorm"]) == (0.01, 1.0)
    model.compile("sgd")
    assert isinstance(model.optimizer, keras.optimizers.SGD)


@pytest.mark.parametrize("model_class", [*CLASSES.values()])
def test_every_task_has_the_default(model_class, shallow_config):
    """An encoder alone has no loss of its own, and is compiled as in Keras."""
    model = model_class(shallow_config)
    model.compile()
    expected = keras.optimizers.RMSprop if model_class is AlbertModel else AlbertAdamW
    assert isinstance(model.optimizer, expected)


@pytest.mark.parametrize(("width", "peak"), [(766, 1e-4), (768, 2e-5)])
def test_the_peak_by_width(pretrained, width, peak):
    model = pretrained(width)
    model.compile()
    assert model.optimizer._learning_rate.peak == peak


def test_the_peak_of_random_weights(pretrained, shallow_config, tmp_path):
    """Newly initialized weights are recognized however they were saved and loaded."""
    new, trained = AlbertForSequenceClassification(shallow_config), pretrained()
    for name, model, peak in (("new", new, 5e-4), ("trained", trained, 1e-4)):
        model.save_weights(tmp_path / f"{name}.weights.h5")
        model.save_pretrained(tmp_path / name)
        loaded = AlbertForSequenceClassification.from_pretrained(tmp_path / name)
        again = AlbertForSequenceClassification(model.config)
        again.load_weights(tmp_path / f"{name}.weights.h5")
        for each in (model, loaded, again):
            each.compile()
            assert each.optimizer._learning_rate.peak == peak


def test_the_rate_rises_and_falls_over_the_steps_of_fit(pretrained, features):
    model = pretrained()
    model.compile()
    assert model.fit(features, LABELS, epochs=0, verbose=0).history == {}
    rates = fitted(model, features, LABELS, batch_size=3, epochs=5)
    assert rates == expected(20)
    assert rates[0] == pytest.approx(5e-5) and max(rates) == pytest.approx(1e-4)
    # A second fit is a new schedule, whatever its length.
    assert fitted(model, features, LABELS, batch_size=5, epochs=1) == expected(3)


def test_a_second_fit_is_as_after_compile(pretrained, features):
    models = [pretrained(), pretrained()]
    for model in models:
        model.compile(run_eagerly=EAGERLY)
        model.fit(features, LABELS, batch_size=4, shuffle=False, verbose=0)
    models[0].compile(run_eagerly=EAGERLY)
    for model in models:
        model.fit(features, LABELS, batch_size=4, shuffle=False, verbose=0)
    for one, other in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "steps"),
    [({"validation_split": 0.25}, 1), ({"batch_size": 4, "steps_per_epoch": 2}, 2)],
)
def test_steps_of_arrays(pretrained, features, options, steps):
    model = pretrained()
    model.compile(run_eagerly=EAGERLY)
    assert fitted(model, features, LABELS, **options) == expected(steps)


def test_data_of_unknown_length(pretrained, features):
    def batches():
        while True:
            yield {"input_ids": features["input_ids"][:4]}, LABELS[:4]

    model = pretrained()
    model.compile(run_eagerly=EAGERLY)
    with pytest.raises(UserError, match="number of steps.*steps_per_ep"):
        model.fit(batches(), shuffle=False, verbose=0)
    options = {"steps_per_epoch": 3, "epochs": 2, "shuffle": False}
    assert fitted(model, batches(), **options) == expected(6)


@pytest.mark.tensorflow
def test_steps_of_a_dataset(pretrained, features):
    import tensorflow as tf

    model = pretrained()
    model.compile(run_eagerly=EAGERLY)
    dataset = tf.data.Dataset.from_tensor_slices((features, LABELS)).batch(5)
    assert fitted(model, dataset, epochs=2) == expected(6)
    assert fitted(model, dataset.repeat(), steps_per_epoch=2) == expected(2)


def test_a_rate_of_ones_own(pretrained, features):
    model = pretrained()
    model.compile(AlbertAdamW(WarmupPolynomialDecay(0.2, form="usual")), run_eagerly=EAGERLY)
    callbacks = keras.callbacks.CallbackList(None, True, model=model, steps=3, epochs=5)
    model.fit(features, LABELS, batch_size=4, epochs=5, callbacks=callbacks, verbose=0)
    assert model.optimizer._learning_rate.steps == 15
    assert model.optimizer._learning_rate.peak == 0.2


def test_a_file_continues(pretrained, features, tmp_path):
    """A loaded model starts a new schedule, or resumes the old one at `initial_epoch`."""
    model = pretrained()
    model.compile(metrics=["accuracy"], run_eagerly=EAGERLY)
    options = {"batch_size": 4, "shuffle": False}
    model.fit(features, LABELS, epochs=2, verbose=0, **options)
    model.save(tmp_path / "model.keras")
    for epoch, step in ((0, 0), (2, 6)):
        again = keras.models.load_model(tmp_path / "model.keras")
        assert int(again.optimizer.iterations) == 6
        rates = fitted(again, features, LABELS, epochs=4, initial_epoch=epoch, **options)
        assert rates == expected(12, step)
        assert int(again.optimizer.iterations) == 12


def test_half_precision(pretrained, features):
    """A loss scaler wraps the optimizer."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = pretrained()
    finally:
        keras.config.set_dtype_policy("float32")
    model.compile(run_eagerly=EAGERLY)
    model.fit(features, LABELS, batch_size=6, epochs=2, verbose=0)
    assert model.optimizer.inner_optimizer._learning_rate.steps == 4


def test_kerass_way_to_exclude_weights_from_its_decay():
    with pytest.raises(UserError, match="Pass the exclude argument"):
        AlbertAdamW().exclude_from_weight_decay(var_names=["kernel"])


@pytest.mark.parametrize(
    "metric",
    [
        *("categorical_accuracy", "auc", "f1_score"),
        keras.metrics.categorical_accuracy,
        keras.metrics.CategoricalAccuracy,
        keras.metrics.TopKCategoricalAccuracy(1),  # on torch, k can't exceed the number of classes
        keras.metrics.OneHotMeanIoU(2),
    ],
)
def test_metrics_of_one_hot_labels_reject_class_ids(pretrained, features, metric):
    """With class ids, Keras would compare the index of the largest id with each prediction."""
    model = pretrained()
    model.compile("sgd", metrics=[metric], run_eagerly=EAGERLY)
    with pytest.raises(UserError, match="requires one-hot labels"):
        model.evaluate(features, LABELS, verbose=0)
    one_hot = np.eye(2, dtype="float32")[LABELS]
    assert np.isfinite(model.evaluate(features, one_hot, verbose=0)[0])

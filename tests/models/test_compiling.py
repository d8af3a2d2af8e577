"""The optimizer of `compile()`, and its schedule in `fit`."""

import keras
import numpy as np
import pytest
from scipy.special import log_softmax

from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.models.compiling import metric_of_logits
from albert_tf.optimizers import AlbertAdamW, WarmupPolynomialDecay
from albert_tf.tasks import IGNORED

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


def rates_of(steps, begin=0):
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
    encoder = model.albert  # has no loss of its own, and is compiled as in Keras
    encoder.compile()
    assert isinstance(encoder.optimizer, keras.optimizers.RMSprop)


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
    assert rates == rates_of(20)
    assert rates[0] == pytest.approx(5e-5) and max(rates) == pytest.approx(1e-4)
    # A second fit is a new schedule, whatever its length.
    assert fitted(model, features, LABELS, batch_size=5, epochs=1) == rates_of(3)


def test_a_second_fit_is_as_after_compile(pretrained, features):
    model, weights = pretrained(), []

    def fit():
        model.fit(features, LABELS, verbose=0)
        weights.append(model.get_weights())

    model.compile(run_eagerly=EAGERLY)
    fit()
    fit()
    model.set_weights(weights[0])
    model.compile(run_eagerly=EAGERLY)
    fit()
    for one, other in zip(*weights[1:], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


class Stopped(Exception):
    pass


def steps_of(model, x, y=None, **options):
    """Returns the number of steps that `fit` sets, and stops before the first one."""

    def stop(logs):
        raise Stopped

    model.optimizer._learning_rate.steps = None
    with pytest.raises(Stopped):
        stopping = keras.callbacks.LambdaCallback(on_train_begin=stop)
        model.fit(x, y, callbacks=[stopping], verbose=0, **options)
    return model.optimizer._learning_rate.steps


def test_numbers_of_steps(pretrained, features):
    """The data is arrays, a dataset, or a generator of unknown length."""

    def batches():
        while True:
            yield {"input_ids": features["input_ids"][:4]}, LABELS[:4]

    model = pretrained()
    model.compile(run_eagerly=EAGERLY)
    with pytest.raises(UserError, match="number of steps.*steps_per_ep"):
        model.fit(batches(), shuffle=False, verbose=0)
    assert steps_of(model, batches(), steps_per_epoch=1, epochs=2, shuffle=False) == 2
    assert steps_of(model, features, LABELS, validation_split=0.25, batch_size=3) == 3
    assert steps_of(model, features, LABELS, batch_size=4, steps_per_epoch=2) == 2
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        dataset = tf.data.Dataset.from_tensor_slices((features, LABELS)).batch(7)
        assert steps_of(model, dataset) == 2
        assert steps_of(model, dataset.repeat(), steps_per_epoch=1) == 1


def test_a_rate_of_ones_own(pretrained, features):
    """A callback may restore the optimizer: the schedule begins where the callback puts it."""
    model, rates = pretrained(), []
    schedule = WarmupPolynomialDecay(0.2, form="usual")
    model.compile(AlbertAdamW(schedule), run_eagerly=EAGERLY)

    class Restore(keras.callbacks.Callback):  # on JAX, a LambdaCallback can't read the optimizer
        def on_train_begin(self, logs=None):
            self.model.optimizer.iterations.assign(2)

        def on_train_batch_begin(self, batch, logs=None):
            rates.append(float(self.model.optimizer.learning_rate))

    callbacks = keras.callbacks.CallbackList([Restore()], True, model=model, steps=2, epochs=2)
    model.fit(features, LABELS, batch_size=6, epochs=2, callbacks=callbacks, verbose=0)
    assert model.optimizer._learning_rate.steps == 4
    assert model.optimizer._learning_rate.peak == 0.2
    schedule = WarmupPolynomialDecay(0.2, 0, 4, form="usual")
    assert rates == pytest.approx([float(schedule(step)) for step in range(2, 6)])


def test_a_file_continues(pretrained, features, tmp_path):
    """A loaded model starts a new schedule, or resumes the old one at `initial_epoch`."""
    model = pretrained()
    model.compile(metrics=["accuracy"], run_eagerly=EAGERLY)
    model.fit(features, LABELS, verbose=0)
    model.save(tmp_path / "model.keras")
    for epoch in (0, 1):
        again = keras.models.load_model(tmp_path / "model.keras")
        assert int(again.optimizer.iterations) == 1
        rates = fitted(again, features, LABELS, epochs=3, initial_epoch=epoch)
        assert rates == rates_of(3, epoch)
        assert int(again.optimizer.iterations) == 3


def test_half_precision(pretrained, features):
    """A loss scaler wraps the optimizer."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = pretrained()
    finally:
        keras.config.set_dtype_policy("float32")
    model.compile(run_eagerly=EAGERLY)
    model.fit(features, LABELS, batch_size=6, verbose=0)
    assert model.optimizer.inner_optimizer._learning_rate.steps == 2


def test_kerass_way_to_exclude_weights_from_its_decay():
    with pytest.raises(UserError, match="Pass the exclude argument"):
        AlbertAdamW().exclude_from_weight_decay(var_names=["kernel"])


@pytest.mark.parametrize(
    "metric",
    [
        *("categorical_accuracy", "auc", "f1_score", "precision", "binary_accuracy"),
        keras.metrics.categorical_accuracy,
        keras.metrics.CategoricalAccuracy,
        keras.metrics.TopKCategoricalAccuracy(1),  # on torch, k can't exceed the number of classes
        keras.metrics.OneHotMeanIoU(2),
        keras.metrics.F1Score(),
    ],
)
def test_metrics_of_one_hot_labels_reject_class_ids(metric):
    """With class ids, Keras would compare the index of the largest id with each prediction."""
    measure, logits = metric_of_logits(metric, "softmax"), np.eye(2, dtype="float32")[LABELS]
    for ids in (LABELS, LABELS[:, None]):
        with pytest.raises(UserError, match=r"one-hot .*of shape \(12.*shape \(12, 2\)"):
            measure.update_state(ids, logits)
    measure.update_state(np.eye(2, dtype="float32")[LABELS], logits)
    assert np.isfinite(measure.result()).all()


@pytest.mark.parametrize("name", ["accuracy", "sparse_categorical_crossentropy"])
def test_every_known_label_counts_once(name):
    """In batches of any length. Keras averages the labels of an example first."""
    generator = np.random.default_rng(5)
    metric, found = metric_of_logits(name, "softmax"), []
    for length in (2, 7):
        logits = generator.standard_normal((3, length, 4)).astype("float32")
        labels = generator.integers(0, 4, (3, length))
        labels[1] = labels[2, :2] = IGNORED
        metric.update_state(labels, logits)
        rows, ids = logits[labels != IGNORED], labels[labels != IGNORED]
        scores = {
            "accuracy": rows.argmax(axis=-1) == ids,
            "sparse_categorical_crossentropy": -log_softmax(rows, axis=-1)[range(len(ids)), ids],
        }
        found += [*scores[name]]
    assert len(found) == 2 + 7 + 5
    assert float(metric.result()) == pytest.approx(np.mean(found), rel=1e-5)

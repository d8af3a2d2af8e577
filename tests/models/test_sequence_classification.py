import dataclasses
import json

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification

N = 24
EAGERLY = keras.backend.backend() != "jax"  # JAX would compile every operation


@pytest.fixture
def examples():
    """Sequences whose second id says their label."""
    generator = np.random.default_rng(9)
    labels = np.arange(N) % 3
    ids = generator.integers(8, 31, (N, 7)).astype("int32")
    ids[:, 0], ids[:, 1] = 2, 3 + labels
    return {"input_ids": ids, "attention_mask": np.ones((N, 7), "int32")}, labels.astype("int32")


@pytest.fixture
def model(small_config):
    keras.utils.set_random_seed(1)
    return AlbertForSequenceClassification(
        dataclasses.replace(small_config, classifier_dropout_prob=0.0, initializer_range=0.2)
    )


def test_fit_learns(model, examples):
    features, labels = examples
    model = type(model)(dataclasses.replace(model.config, num_hidden_layers=1))
    model.compile(keras.optimizers.Adam(0.005), metrics=["accuracy"])
    history = model.fit(features, labels, epochs=20, batch_size=8, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    assert history["accuracy"][-1] > 0.9


def test_its_own_loss_is_the_one_that_keras_names(model, examples):
    features, labels = examples
    weight = np.linspace(0, 2, N).astype("float32")
    model.compile("sgd", run_eagerly=EAGERLY)
    own = model.evaluate(features, labels, sample_weight=weight, batch_size=N, verbose=0)
    loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss=loss_function, run_eagerly=EAGERLY)
    named = model.evaluate(features, labels, sample_weight=weight, batch_size=N, verbose=0)
    assert own == pytest.approx(named, abs=1e-6)
    assert own != pytest.approx(model.evaluate(features, labels, batch_size=N, verbose=0), abs=1e-4)


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_regression(small_config, small_features, scrambled, shape):
    model = scrambled(
        AlbertForSequenceClassification(dataclasses.replace(small_config, id2label={0: "score"}))
    )
    assert model.problem_type == "regression"
    targets = np.array([0.5, -2.0], "float32")
    outputs = model(small_features, labels=targets.reshape(shape))
    expected = np.mean((np.asarray(outputs.logits)[:, 0] - targets) ** 2)
    assert float(outputs.loss) == pytest.approx(expected, rel=1e-5)


def test_one_label_is_regression_everywhere(small_config, small_features, scrambled, tmp_path):
    """Loss, probabilities, the saved configuration and the model that is loaded agree."""
    config = small_config.replace(num_labels=1)
    model = scrambled(AlbertForSequenceClassification(config))
    assert model.config.problem_type == model.problem_type == "regression"
    logits = model(small_features).logits
    assert model.probabilities(logits) is logits
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["problem_type"] == "regression"
    assert AlbertForSequenceClassification.from_pretrained(tmp_path).config == model.config
    with pytest.raises(UserError, match="can't be trained with a loss of classes.*multi_label"):
        model.compile("sgd", loss="binary_crossentropy")
    with pytest.raises(UserError, match="one label has problem_type 'regression', or 'multi_labe"):
        AlbertForSequenceClassification.from_pretrained(
            tmp_path, problem_type="single_label_classification"
        )


def test_one_label_that_may_be_absent(small_config, small_features, scrambled):
    config = small_config.replace(num_labels=1, problem_type="multi_label_classification")
    model = scrambled(AlbertForSequenceClassification(config))
    labels = np.array([1, 0])
    own = float(model(small_features, labels=labels).loss)
    metrics = ["accuracy", "binary_accuracy"]
    model.compile("sgd", loss="binary_crossentropy", metrics=metrics, run_eagerly=EAGERLY)
    logits = np.asarray(model(small_features).logits)[:, 0]
    right = ((logits > 0) == labels).mean()
    found = model.evaluate(small_features, labels, verbose=0)
    assert found == pytest.approx([own, right, right], rel=1e-5)


def test_several_labels(small_config, small_features, scrambled):
    config = dataclasses.replace(small_config, problem_type="multi_label_classification")
    model = scrambled(AlbertForSequenceClassification(config))
    targets = np.array([[1, 0, 1], [0, 0, 1]])
    outputs = model(small_features, labels=targets)
    probabilities = 1 / (1 + np.exp(-np.asarray(outputs.logits)))
    expected = -np.mean(np.where(targets, np.log(probabilities), np.log(1 - probabilities)))
    assert float(outputs.loss) == pytest.approx(expected, rel=1e-5)


def test_outputs_on_request(model, small_features):
    outputs = model(
        small_features, labels=np.array([0, 2]), output_hidden_states=True, output_attentions=True
    )
    assert list(outputs) == ["loss", "logits", "hidden_states", "attentions"]


def test_keras_file_keeps_training_where_it_stopped(model, examples, tmp_path):
    features, labels = examples
    model.compile(keras.optimizers.Adam(0.02), metrics=["accuracy"], run_eagerly=EAGERLY)
    model.fit(features, labels, batch_size=8, verbose=0, shuffle=False)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for one in (model, loaded):
        one.fit(features, labels, batch_size=8, verbose=0, shuffle=False)
    np.testing.assert_allclose(loaded(features)["logits"], model(features)["logits"], atol=1e-6)


def test_every_weight_learns(model, examples):
    features, labels = examples
    before = [ops.convert_to_numpy(variable) for variable in model.trainable_weights]
    model.compile(keras.optimizers.SGD(1.0), run_eagerly=EAGERLY)
    model.fit(
        {**features, "token_type_ids": features["input_ids"] % 2}, labels, batch_size=8, verbose=0
    )
    still = {
        variable.path
        for old, variable in zip(before, model.trainable_weights, strict=True)
        if np.abs(ops.convert_to_numpy(variable) - old).max() < 1e-5
    }
    # A bias of all keys moves every score of a query alike, which softmax doesn't see.
    assert still == {"albert/encoder/group_0_block_0/attention/key/bias"}


def test_named_labels_travel(small_config, tmp_path):
    config = dataclasses.replace(small_config, id2label={0: "bad", 1: "good"})
    AlbertForSequenceClassification(config).save_pretrained(tmp_path)
    assert AlbertForSequenceClassification.from_pretrained(tmp_path).config.id2label == {
        0: "bad",
        1: "good",
    }


def test_the_last_layer_is_computed_where_it_is_read(model, examples):
    """The layers' outputs, where requested, are whole, and the logits the same."""
    features, _ = examples
    whole = model(features, output_hidden_states=True)
    assert whole.hidden_states[-1].shape == (N, 7, model.config.hidden_size)
    for logits in (model(features).logits, model(features, unroll=False).logits):
        np.testing.assert_allclose(
            ops.convert_to_numpy(logits), ops.convert_to_numpy(whole.logits), atol=1e-5
        )
    lengths = []
    ffn = model.albert.encoder.blocks[-1].ffn
    call = ffn.call
    ffn.call = lambda hidden, **kwargs: lengths.append(hidden.shape[1]) or call(hidden, **kwargs)
    model(features)
    assert lengths[-1] == 1 and set(lengths[:-1]) <= {7}

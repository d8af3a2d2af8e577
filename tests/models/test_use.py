"""Models in Keras' ways: frozen, cloned, functional, quantized, with other losses."""

import copy
import dataclasses
import os
import pickle
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf import layers
from albert_tf.errors import UserError
from albert_tf.layers.embedding import whole_numbers
from albert_tf.models import (
    AlbertForMaskedLM,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
    AlbertModel,
    losses,
    unshare,
)
from albert_tf.optimizers import AlbertAdamW, WarmupPolynomialDecay
from albert_tf.text.encoding import BatchEncoding

ROOT = Path(__file__).resolve().parents[2]
LABELS = np.array([0, 2])
NAMED = ["sparse_categorical_crossentropy", "SparseCategoricalCrossentropy"]
NAMED.append(keras.losses.sparse_categorical_crossentropy)


def frozen(config, *parts):
    model = AlbertForSequenceClassification(config)
    for path in parts:
        part = model
        for name in path.split("."):
            part = part[int(name)] if name.isdigit() else getattr(part, name)
        part.trainable = False
    return model


@pytest.mark.parametrize(
    "parts",
    [
        ("albert",),
        ("albert.embedding", "albert.pooler"),
        ("albert.encoder.blocks.0", "classifier"),
        (),
    ],
)
def test_frozen_parts_stay_frozen(shallow_config, tmp_path, parts):
    model = frozen(shallow_config, *parts)
    names = [variable.path.split("/", 1)[1] for variable in model.trainable_variables]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for again in (loaded, keras.models.clone_model(model)):
        assert [variable.path.split("/", 1)[1] for variable in again.trainable_variables] == names
    model.trainable = False
    assert type(model).from_config(model.get_config()).trainable_variables == []


def test_gradient_checkpointing_is_kept(shallow_config):
    model = AlbertForSequenceClassification(shallow_config)
    model.gradient_checkpointing_enable()
    for again in (keras.models.clone_model(model), unshare(model)):
        assert again.albert.encoder.gradient_checkpointing


def test_a_functional_model(shallow_config, small_features, tmp_path):
    encoder = AlbertModel(dataclasses.replace(shallow_config, num_hidden_layers=1))
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in small_features}
    model = keras.Model(inputs, keras.layers.Dense(2)(encoder(inputs)["pooler_output"]))
    model.compile("sgd", "mse", run_eagerly=keras.backend.backend() != "jax")
    model.fit(small_features, np.zeros((2, 2)), verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again(small_features), model(small_features), atol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int64", "float32"])
def test_ids_of_any_type(shallow_config, small_features, dtype):
    model = AlbertForSequenceClassification(shallow_config)
    ids = {**small_features, "input_ids": small_features["input_ids"].astype(dtype)}
    np.testing.assert_array_equal(model(ids).logits, model(small_features).logits)


@pytest.mark.parametrize(("convert", "copies"), [(np.asarray, 0), (ops.convert_to_tensor, 3)])
def test_ids_are_checked_once(shallow_config, small_features, monkeypatch, convert, copies):
    """Arrays on the host; of each input of ids one copy, if it is a tensor already."""
    copied, copy = [], ops.convert_to_numpy
    monkeypatch.setattr(ops, "convert_to_numpy", lambda x: copied.append(x) or copy(x))
    features = {name: convert(value) for name, value in small_features.items()}
    features["position_ids"] = convert(np.arange(7, dtype="int32")[None])
    AlbertForSequenceClassification(shallow_config)(features)
    assert len(copied) == copies


def test_weights_need_labels_as_y(shallow_config, small_features):
    model = AlbertForSequenceClassification(shallow_config)
    model.compile("sgd", run_eagerly=True)
    examples = {**small_features, "labels": LABELS}
    with pytest.raises(ValueError, match="sample_weight need labels as `y`"):
        model.fit(examples, sample_weight=np.zeros(2), verbose=0)
    with pytest.raises(ValueError, match="class_weight need labels as `y`"):
        model.fit(examples, class_weight={0: 1.0}, verbose=0)
    assert model.evaluate(small_features, LABELS, sample_weight=np.zeros(2), verbose=0) == 0.0
    assert model.evaluate(small_features, LABELS, sample_weight=[0.0, 0.0], verbose=0) == 0.0


def test_a_refused_fit_leaves_the_model_as_it_was(shallow_config, small_features):
    model = AlbertForSequenceClassification(shallow_config)
    model.compile("sgd", run_eagerly=True)
    with pytest.raises(ValueError, match="Received also: offset_mapping"):
        model.fit({**small_features, "offset_mapping": np.zeros((2, 7))}, LABELS, verbose=0)
    model.fit(small_features, LABELS, verbose=0)


def test_labels_in_all_the_ways_of_transformers(shallow_config, tmp_path):
    AlbertModel(shallow_config).save_pretrained(tmp_path)
    load = AlbertForSequenceClassification.from_pretrained
    names = {0: "no", 1: "yes"}
    for options in (
        {"num_labels": 2, "id2label": names, "label2id": {"no": 0, "yes": 1}},
        {"id2label": {"0": "no", "1": "yes"}},
        {"label2id": {"yes": 1, "no": 0}},
    ):
        assert load(tmp_path, **options).config.id2label == names
    with pytest.raises(ValueError, match="must be the number of names in id2label"):
        load(tmp_path, num_labels=4, id2label=names)


def test_one_hot_labels_are_refused_unless_they_are_probabilities(shallow_config, small_features):
    model = AlbertForSequenceClassification(shallow_config)
    one_hot = np.eye(3)[LABELS]
    with pytest.raises(ValueError, match="numbers of classes.*argmax"):
        model(small_features, labels=one_hot.astype("int32"))
    as_probabilities = model(small_features, labels=one_hot).loss
    expected = model(small_features, labels=LABELS).loss
    assert float(as_probabilities) == pytest.approx(float(expected), rel=1e-6)
    model.compile("sgd")
    for labels in (LABELS, LABELS[:, None], one_hot):  # of another rank than traced before
        loss = model.evaluate(small_features, labels, verbose=0)
        assert loss == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("y", [LABELS, {"logits": LABELS}, {"labels": LABELS}])
def test_a_loss_by_the_outputs_name(shallow_config, small_features, y):
    model = AlbertForSequenceClassification(shallow_config)
    expected = float(model(small_features, labels=LABELS).loss)
    for loss in (None, {"logits": keras.losses.SparseCategoricalCrossentropy(True)}):
        model.compile("sgd", loss=loss, run_eagerly=True)
        found = model.evaluate(small_features, y, verbose=0)
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.tensorflow
def test_a_quantized_model_is_not_saved_as_one_of_floats(shallow_config, tmp_path):
    model = AlbertModel(shallow_config)
    model.quantize("int8")
    kernels = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.Dense)]
    assert {layer.quantization_mode for layer in kernels} == {"int8"}
    with pytest.raises(UserError, match="holds floating-point weights. Received: .* int8"):
        model.save_pretrained(tmp_path)


@pytest.mark.slow
def test_keras_loads_a_file_in_a_fresh_process(shallow_config, tmp_path):
    model = AlbertForSequenceClassification(shallow_config)
    model.compile(AlbertAdamW(WarmupPolynomialDecay(1e-3, 2, 6)))
    model.save(tmp_path / "model.keras")
    code = "import keras, albert_tf; keras.models.load_model('model.keras')"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "mode"), [("answerability", "int8"), ("masked lm", "int4")], indirect=["task"]
)
def test_quantized_models_are_saved_and_loaded(mode, task, task_model, tmp_path):
    exact = task_model(task.inputs)
    task_model.quantize(mode)
    expected = task_model(task.inputs)
    name = next(iter(expected))
    difference = np.abs(ops.convert_to_numpy(expected[name]) - ops.convert_to_numpy(exact[name]))
    assert 0 < difference.max() < 1
    task_model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")(task.inputs)
    for name, value in expected.items():
        np.testing.assert_array_equal(loaded[name], value)


@pytest.mark.parametrize("label", [3, -1, 1.9, float("nan")])
def test_labels_outside_the_classes(shallow_config, small_features, label):
    model = AlbertForSequenceClassification(shallow_config)
    labels = np.array([label, 2])
    message = f"labels must be numbers of classes from 0 to 2.*Received: {label}, the first of 1"
    for run_eagerly, loss in ((False, None), (True, None), (True, NAMED[0])):
        model.compile("sgd", loss=loss, run_eagerly=run_eagerly)
        for fit in (model.fit, model.evaluate, model.train_on_batch, model.test_on_batch):
            with pytest.raises(ValueError, match=message):
                fit(small_features, labels)
            with pytest.raises(ValueError, match=message):
                fit({**small_features, "labels": labels})
    with pytest.raises(ValueError, match=message):
        model(small_features, labels=labels)


@pytest.mark.parametrize("name", ["input_ids", "token_type_ids", "position_ids"])
def test_ids_that_are_no_whole_numbers(shallow_config, small_features, name):
    model = AlbertForSequenceClassification(shallow_config)
    model.compile("sgd", run_eagerly=True)
    features = {**small_features, name: np.zeros((2, 7)) + 0.9}
    for call in (model, model.predict, lambda x: model.evaluate(x, LABELS)):
        with pytest.raises(ValueError, match=f"{name} must be whole numbers. Received: 0.9"):
            call(features)
    if name == "input_ids":
        with pytest.raises(ValueError, match="must be whole numbers. Received: 0.9"):
            model.predict(features[name])


def test_fractions_in_a_graph():
    """They are outside every table and all classes."""
    values = ops.convert_to_tensor([0.0, 1.9, 2.0, -100.0, float("nan")])
    assert ops.convert_to_numpy(whole_numbers(values)).tolist() == [0, -1, 2, -100, -1]


@pytest.mark.parametrize(
    ("term", "label"),
    [(losses.cross_entropy, label) for label in (3, -1, 1.9)]
    + [(partial(losses.span_cross_entropy, weight=1.0), 1.9)],
)
def test_labels_of_a_dataset_outside_the_classes(term, label):
    """Their values aren't known before the step: an error of TensorFlow's, or a loss of NaN."""
    labels = ops.convert_to_tensor(np.array([label, 2]))
    logits = ops.convert_to_tensor(np.eye(3, dtype="float32")[:2])
    try:
        loss = float(losses.total([term(labels, logits)]))
    except Exception as error:
        assert keras.backend.backend() != "jax"
        assert re.search(
            r"outside the valid range of \[0, 3\)|Target -?[0-9] is out of bounds", str(error)
        )
    else:
        assert np.isnan(loss)


def test_fit_takes_a_tokenizers_result(shallow_config, small_features):
    lists = {name: value.tolist() for name, value in small_features.items()}
    model = AlbertForSequenceClassification(shallow_config)
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    expected = model.evaluate(small_features, LABELS, verbose=0)
    for features in (BatchEncoding(small_features), BatchEncoding(lists), lists):
        assert model.evaluate(features, LABELS.tolist(), verbose=0) == expected
        assert model.predict(features, verbose=0)["logits"].shape == (2, 3)
        examples = (features, LABELS.tolist())
        history = model.fit(*examples, validation_data=examples, verbose=0).history
        assert set(history) == {"loss", "val_loss"}
    with pytest.raises(ValueError, match="input_ids must have rows of one length.*tokenizer"):
        model.fit({"input_ids": [[2, 3], [2]]}, LABELS, verbose=0)


@pytest.mark.parametrize("functional", [True, False])
def test_keras_models_take_a_tokenizers_result(shallow_config, small_features, functional):
    """Whatever order its features have."""
    encoder = AlbertModel(shallow_config)
    if functional:
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in small_features}
        model = keras.Model(inputs, encoder(inputs)["pooler_output"])
    else:
        model = type("Own", (keras.Model,), {"call": lambda self, inputs: encoder(inputs)[1]})()
    model.compile("sgd", "mse", run_eagerly=keras.backend.backend() != "jax")
    encoding = BatchEncoding(dict(reversed(small_features.items())))
    expected = encoder(small_features)["pooler_output"]
    np.testing.assert_allclose(model(encoding), expected, atol=1e-6)
    np.testing.assert_allclose(model.predict(encoding, verbose=0), expected, atol=1e-6)
    model.fit(encoding, np.zeros((2, 20)), verbose=0)


@pytest.mark.tensorflow
def test_a_dataset_of_a_tokenizers_result(shallow_config, small_features):
    import tensorflow as tf

    model = AlbertForSequenceClassification(shallow_config)
    model.compile("sgd", run_eagerly=True)
    expected = model.evaluate(small_features, LABELS, verbose=0)
    examples = BatchEncoding(small_features), LABELS
    dataset = tf.data.Dataset.from_tensor_slices(examples).batch(2)
    assert model.evaluate(dataset, verbose=0) == pytest.approx(expected)


def _append(lines, line, **_):
    lines.append(line)


def test_a_summary_has_shapes(shallow_config):
    for model, shapes in (
        (AlbertForSequenceClassification(shallow_config), ("(None, None, 20)", "(None, 3)")),
        (AlbertForMaskedLM(shallow_config), ("(None, None, 20)", "(None, None, 31)")),
    ):
        lines = []
        model.summary(print_fn=partial(_append, lines), expand_nested=True)
        text = "\n".join(lines)
        assert all(shape in text for shape in shapes)
        assert "?" not in text


def test_inputs_of_another_shape_are_refused(shallow_config, small_features):
    model = AlbertModel(shallow_config)
    for name in ("attention_mask", "token_type_ids", "position_ids"):
        for wrong in (small_features["attention_mask"][:1, :1], np.ones((3, 7), "int32")):
            with pytest.raises(ValueError, match=f"{name} must have the shape of the ids"):
                model({**small_features, name: wrong})


@pytest.mark.parametrize(("name", "value"), [("input_ids", -1), ("token_type_ids", 2)])
def test_ids_outside_the_table_in_a_compiled_call(shallow_config, small_features, name, value):
    """Keras' lookup would answer as for the last row. JAX has no errors in graphs."""
    model = AlbertForSequenceClassification(
        dataclasses.replace(shallow_config, num_hidden_layers=1)
    )
    wrong = {**small_features, name: small_features[name].copy()}
    wrong[name][0, 1] = value
    if keras.backend.backend() == "jax":
        found = model.predict(wrong, verbose=0)["logits"]
        assert np.isnan(found[0]).all()
        assert np.isfinite(found[1]).all()
    else:
        with pytest.raises(Exception, match=r"not in \[0, |must lie in \[0, "):
            model.predict(wrong, verbose=0)


@pytest.mark.parametrize(
    "task",
    [
        pytest.param("pretraining", marks=pytest.mark.tensorflow),  # JAX takes 20 s for each
        pytest.param("answerability", marks=pytest.mark.tensorflow),
        "multiple choice",
    ],
    indirect=True,
)
def test_export_without_a_signature(task, task_config, tmp_path):
    """Straight after the model is made; batch and length are free."""
    model = task.model(dataclasses.replace(task_config, num_hidden_layers=1))
    if keras.backend.backend() == "torch":
        with pytest.raises(UserError, match="must run on TensorFlow or JAX. Received: .*torch"):
            model.export(tmp_path / "model")
        return
    import tensorflow as tf

    model.export(tmp_path / "model", verbose=False)
    served = tf.saved_model.load(tmp_path / "model")
    features = {name: task.inputs[name] for name in list(task.inputs)[:3]}
    for inputs in (features, {name: value[:1, ..., :6] for name, value in features.items()}):
        found, expected = served.serve(inputs), model(inputs)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, atol=1e-5, rtol=0)


@pytest.mark.parametrize("loss", NAMED)
def test_a_loss_by_name_reads_logits(shallow_config, small_features, scrambled, tmp_path, loss):
    model = scrambled(AlbertForSequenceClassification(shallow_config))
    expected = float(model(small_features, labels=LABELS).loss)
    model.compile("sgd", loss=loss, metrics=["sparse_categorical_crossentropy"], run_eagerly=True)
    assert model.evaluate(small_features, LABELS, verbose=0) == pytest.approx(
        [expected] * 2, rel=1e-5
    )
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    found = loaded.evaluate(small_features, LABELS, verbose=0)
    assert found == pytest.approx([expected] * 2, rel=1e-5)


def test_a_loss_by_name_ignores_what_the_models_own_does(shallow_config, small_features, scrambled):
    model = scrambled(AlbertForTokenClassification(shallow_config))
    labels = np.where(small_features["attention_mask"], small_features["input_ids"] % 3, -100)
    labels[:, 0] = -100
    expected = float(model(small_features, labels=labels).loss)
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"], run_eagerly=True)
    loss, accuracy = model.evaluate(small_features, labels, verbose=0)
    assert loss == pytest.approx(expected, rel=1e-5)
    best = ops.convert_to_numpy(model(small_features).logits).argmax(axis=-1)
    assert accuracy == pytest.approx((best == labels)[labels != -100].mean(), rel=1e-5)


@pytest.mark.parametrize("loss", ["binary_crossentropy", "bce", "binary_focal_crossentropy"])
def test_losses_and_metrics_of_several_labels(
    shallow_config, small_features, scrambled, tmp_path, loss
):
    config = shallow_config.replace(problem_type="multi_label_classification")
    model = scrambled(AlbertForSequenceClassification(config))
    labels = np.array([[1, 0, 1], [0, 0, 1]], "float32")
    logits = ops.convert_to_numpy(model(small_features).logits)
    right = (logits > 0) == labels
    probabilities = 1 / (1 + np.exp(-logits))
    area = keras.metrics.AUC()
    area.update_state(labels, probabilities)
    expected = {
        "loss": float(ops.mean(keras.losses.get(loss)(labels, probabilities))),
        "accuracy": right.mean(),
        "binary_accuracy": right.mean(),
        "auc": float(area.result()),
        "precision": labels[logits > 0].mean(),
        "found": (logits > 0)[labels == 1].mean(),
    }
    metrics = ["accuracy", "binary_accuracy", "auc", "precision"]
    metrics.append(keras.metrics.Recall(name="found"))
    metrics[1] = keras.metrics.binary_accuracy if loss == "bce" else metrics[1]
    model.compile("sgd", loss=loss, metrics=metrics, run_eagerly=True)
    results = model.evaluate(small_features, labels, verbose=0, return_dict=True)
    assert results == pytest.approx(expected, rel=1e-4)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    again = loaded.evaluate(small_features, labels, verbose=0, return_dict=True)
    assert again == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"loss": keras.losses.SparseCategoricalCrossentropy()},
            r"from_logits=False. Write keras.losses.SparseCategoricalCrossentropy\(from_logits=Tru",
        ),
        (
            {"metrics": [keras.metrics.SparseCategoricalCrossentropy()]},
            r"Write keras.metrics.SparseCategoricalCrossentropy\(from_logits=True\)",
        ),
        ({"loss": "crossentropy"}, "The kind of cross-entropy must be named"),
        ({"loss": "kl_divergence"}, "KLDivergence reads probabilities. Write the loss as a functi"),
        (
            {"loss": keras.losses.BinaryCrossentropy(from_logits=True)},
            "one class of several. Received: BinaryCrossentropy, for several labels.*problem_type",
        ),
        (
            {"loss": "binary_focal_crossentropy"},
            "Received: BinaryFocalCrossentropy, for several la",
        ),
        ({"metrics": ["binary_crossentropy"]}, "Received: BinaryCrossentropy, for several labels"),
        *(
            ({"metrics": [metric]}, rf"metrics such as {metric.name} .*Received: .*{value}.*0.5")
            for metric, value in (
                (keras.metrics.BinaryAccuracy(threshold=0.0), "0.0"),
                (keras.metrics.Precision(thresholds=0), "0"),
                (keras.metrics.Recall(thresholds=[0.5, 0.0]), "0.5, 0.0"),
                (keras.metrics.BinaryIoU(threshold=1), "1"),
            )
        ),
        ({"loss": ["mse", "mse"]}, "one loss, or one for each output: logits.*a list of 2"),
    ],
)
def test_losses_and_metrics_that_are_refused(shallow_config, options, message):
    model = AlbertForSequenceClassification(shallow_config)
    with pytest.raises(UserError, match=message):
        model.compile("sgd", **options)


@pytest.mark.parametrize("loss", ["sparse_categorical_crossentropy", "categorical_crossentropy"])
def test_losses_of_one_class_for_several_labels(shallow_config, loss):
    config = shallow_config.replace(problem_type="multi_label_classification")
    with pytest.raises(
        UserError, match="for several labels at once. Received: .*, for one class of"
    ):
        AlbertForSequenceClassification(config).compile("sgd", loss=loss)


@pytest.mark.parametrize("metric", ["precision", "binary_accuracy", keras.metrics.F1Score()])
def test_metrics_of_each_class(shallow_config, small_features, scrambled, metric):
    """Numbers of classes would be spread over the classes' probabilities."""

    def compiled():
        model = scrambled(AlbertForSequenceClassification(shallow_config.replace(num_labels=2)))
        model.compile("sgd", metrics=[metric], run_eagerly=True)
        return model

    labels = np.array([1, 0])
    for numbers in (labels, labels[:, None]):
        model = compiled()  # on JAX an error in a step takes a model's values
        with pytest.raises(UserError, match=r"must be one-hot: .*of shape \(2.*shape \(2, 2\)"):
            model.evaluate(small_features, numbers, verbose=0)
    model = compiled()
    one_hot = np.eye(2, dtype="float32")[labels]
    found = model.evaluate(small_features, one_hot, verbose=0)[1]
    best = ops.convert_to_numpy(model(small_features).logits).argmax(axis=-1)
    if metric == "precision":
        assert found == pytest.approx((best == labels).mean())


def test_a_file_with_a_loss_that_is_refused(shallow_config, tmp_path):
    model = AlbertForSequenceClassification(shallow_config)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    loss = keras.losses.SparseCategoricalCrossentropy()
    model._compile_config.config["loss"] = loss  # as an earlier version wrote it
    model.save(tmp_path / "model.keras")
    with pytest.raises(UserError, match=r"from_logits=True.*load_model\(path, compile=False\)"):
        keras.models.load_model(tmp_path / "model.keras")
    assert not keras.models.load_model(tmp_path / "model.keras", compile=False).compiled


def test_losses_in_the_order_of_outputs(shallow_config, small_features):
    """A list is in the outputs' order, start and end, and not in that of the alphabet."""
    model = AlbertForQuestionAnswering(shallow_config.replace(initializer_range=1.0))
    y = (np.array([1, 2]), np.array([3, 4]))
    one, other = (
        float(model(small_features, **{name: values}).loss)
        for name, values in (("start_positions", y[0]), ("end_positions", y[1]))
    )
    loss = "sparse_categorical_crossentropy"
    model.compile("sgd", loss=[loss, loss], loss_weights=[1.0, 0.0], run_eagerly=True)
    found = model.evaluate(small_features, y, verbose=0, return_dict=True)["loss"]
    assert found == pytest.approx(2 * one, rel=1e-5) and found != pytest.approx(2 * other, rel=1e-3)
    model.compile("sgd", run_eagerly=True)  # the model's own again
    assert model.evaluate(small_features, y, verbose=0) == pytest.approx(one + other, rel=1e-5)


@pytest.mark.parametrize("form", [list, tuple, lambda labels: [labels], np.ndarray.tolist])
def test_labels_in_forms_of_lists(shallow_config, small_features, form):
    model = AlbertForSequenceClassification(shallow_config)
    model.compile("sgd", run_eagerly=True)
    expected = model.evaluate(small_features, LABELS, verbose=0)
    assert model.evaluate(small_features, form(LABELS), verbose=0) == expected
    assert model.test_on_batch(small_features, form(LABELS)) == pytest.approx(expected, rel=1e-6)
    history = model.fit(
        small_features,
        form(LABELS),
        validation_data=(small_features, form(LABELS), [1.0, 2.0]),
        verbose=0,
    )
    assert history.history.keys() == {"loss", "val_loss"}


def test_labels_of_pieces_as_a_list_of_rows(shallow_config, small_features):
    model = AlbertForTokenClassification(shallow_config)
    model.compile("sgd", run_eagerly=True)
    rows = small_features["input_ids"] % 3
    expected = model.evaluate(small_features, rows, verbose=0)
    assert model.evaluate(small_features, list(rows), verbose=0) == expected
    pair = AlbertForQuestionAnswering(shallow_config)
    pair.compile("sgd", run_eagerly=True)
    with pytest.raises(UserError, match="an array for each of start_positions, end_posi.*of 3"):
        pair.evaluate(small_features, [LABELS] * 3)


def test_strings_are_refused(shallow_config, small_features):
    model = AlbertForSequenceClassification(shallow_config)
    model.compile("sgd", run_eagerly=True)
    names, texts = ["no", "yes"], ["A quiet film.", "Dull."]
    message = "must be numbers, or names in label2id: LABEL_0, LABEL_1.*Received: 'no'.*id2label="
    for labels in (names, np.array(names), np.array(names, object), tuple(names)):
        with pytest.raises(UserError, match=message):
            model.fit(small_features, labels, verbose=0)
    for features in (texts, np.array(texts), np.array(texts, object)):
        with pytest.raises(UserError, match="Texts need the model's tokenizer. .*tokenizer ="):
            model.fit(features, LABELS, verbose=0)
        with pytest.raises(UserError, match="must be numbers. Received: 'A quiet film.', … as x"):
            AlbertForMaskedLM(shallow_config).predict(features, verbose=0)
    with pytest.raises(UserError, match="must be numbers. Received: 'Dull.', … as input_ids"):
        model("Dull.")


@pytest.mark.tensorflow
def test_strings_of_a_dataset_are_refused(shallow_config, small_features):
    import tensorflow as tf

    model = AlbertForSequenceClassification(shallow_config)
    model.compile("sgd")
    names = np.array(["no", "yes"])
    for examples, name in (((small_features, names), "labels"), ((names, LABELS), "input_ids")):
        with pytest.raises(UserError, match=f"must be numbers. Received: '…', … as {name}"):
            model.fit(tf.data.Dataset.from_tensors(examples), verbose=0)


def test_weights_of_one_column(shallow_config, small_features):
    model = AlbertForSequenceClassification(shallow_config)
    weights = np.array([0.5, 2.0])
    for options in ({}, {"loss": "sparse_categorical_crossentropy"}):
        model.compile("sgd", weighted_metrics=["accuracy"], run_eagerly=True, **options)
        row, column = (
            model.evaluate(small_features, LABELS, sample_weight=each, verbose=0)
            for each in (weights, weights[:, None])
        )
        assert column == pytest.approx(row, rel=1e-6)


@pytest.mark.parametrize(
    "task", ["pretraining", "question answering", "answerability"], indirect=True
)
def test_h5_files(task, task_model, tmp_path):
    """Keras' older format loads too, and leaves the model as it was."""
    task_model.compile(keras.optimizers.Adam(1e-4))
    task_model.save(tmp_path / "model.h5")
    again = keras.models.load_model(tmp_path / "model.h5")
    expected = task_model(task.inputs)
    for name, value in again(task.inputs).items():
        np.testing.assert_array_equal(value, expected[name])
    for model in (again, task_model):
        model.save(tmp_path / "model.keras")
        optimizer = keras.models.load_model(tmp_path / "model.keras").optimizer
        assert isinstance(optimizer, keras.optimizers.Adam)
        assert float(optimizer.learning_rate) == pytest.approx(1e-4)


@pytest.mark.parametrize("name", ["model.h5", "model.weights.h5"])
def test_weights_of_keras_2_are_refused(shallow_config, tmp_path, name):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / name, "w") as file:
        file.attrs["keras_version"] = b"2.15.0"
    with pytest.raises(UserError, match=f"{name}, of Keras 2.*tf_model.h5.*from_pretrained"):
        AlbertForSequenceClassification(shallow_config).load_weights(tmp_path / name)


def test_copies(shallow_config, small_features):
    """`copy.deepcopy` and pickle keep weights and what was given to `compile`."""
    model = AlbertForSequenceClassification(shallow_config)
    loss = "sparse_categorical_crossentropy"
    model.compile("adam", loss, metrics=["accuracy"], run_eagerly=True)
    expected = model.evaluate(small_features, LABELS, verbose=0)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert again.evaluate(small_features, LABELS, verbose=0) == pytest.approx(
            expected, rel=1e-6
        )


def test_layers_for_each_time_step(shallow_config):
    """`TimeDistributed` asks layers for the shapes of their outputs."""
    hidden = keras.Input((3, 7, 20))
    ids = keras.Input((3, 7), dtype="int32")
    encoder = AlbertModel(shallow_config)
    single = keras.Input((7,), dtype="int32")
    pooled = keras.Model(single, encoder(single)["pooler_output"])
    for layer, inputs, shape in (
        (layers.FactorizedEmbedding(shallow_config), ids, (None, 3, 7, 20)),
        (encoder.get_input_embeddings(), ids, (None, 3, 7, 6)),
        (layers.FeedForward(shallow_config), hidden, (None, 3, 7, 20)),
        (layers.ClassificationHead(shallow_config, units=4), hidden, (None, 3, 7, 4)),
        (pooled, ids, (None, 3, 20)),
    ):
        assert keras.layers.TimeDistributed(layer)(inputs).shape == shape
    assert encoder.compute_output_shape((2, 7)) == {
        "last_hidden_state": (2, 7, 20),
        "pooler_output": (2, 20),
    }
    assert layers.SpanHead(shallow_config).compute_output_shape((2, 7, 20)) == ((2, 7), (2, 7))

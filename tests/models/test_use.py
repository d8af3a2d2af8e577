"""Models in Keras' ways: frozen, cloned, functional, quantized, with other losses."""

import copy
import pickle

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf import layers
from albert_tf.errors import UserError
from albert_tf.models import (
    AlbertForMaskedLM,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
    AlbertModel,
    unshare,
)
from albert_tf.models.batch import arrays_of
from albert_tf.models.fitting import encoded
from albert_tf.text.encoding import BatchEncoding
from albert_tf.training.callbacks import KeepBest, Resume

EAGERLY = keras.backend.backend() != "jax"  # JAX would compile every operation
LABELS = np.array([0, 2])
SPARSE = "sparse_categorical_crossentropy"
SEVERAL = {"problem_type": "multi_label_classification"}


@pytest.fixture(scope="module")
def untouched(shallow_config):
    """A model that is neither trained nor changed."""
    return AlbertForSequenceClassification(shallow_config)


@pytest.fixture
def model(shallow_config, scrambled):
    return scrambled(AlbertForSequenceClassification(shallow_config))


def trained(model):
    return [variable.path for variable in model.trainable_variables]


def test_frozen_parts_stay_frozen(model, tmp_path):
    block = model.albert.encoder.blocks[0]
    for part in (model.albert.embedding, block, model.classifier, model.albert):
        part.trainable = False
        assert trained(keras.models.clone_model(model)) == trained(model)
        part.trainable = True
    model.albert.trainable, block.attention.query.trainable = False, True
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for again in (loaded, keras.models.clone_model(model)):
        assert trained(again) == trained(model)
        assert len(trained(again)) == 4  # the query's and the classifier's
    model.trainable = False
    assert trained(type(model).from_config(model.get_config())) == []


def test_an_unshared_copy_keeps_what_belongs_to_the_model(model, tiny_tokenizer):
    model.gradient_checkpointing_enable()
    model.newly_initialized, model.tokenizer = ["classifier"], tiny_tokenizer
    deep = unshare(model)
    assert deep.newly_initialized == ["classifier"] and deep.tokenizer is tiny_tokenizer
    for again in (deep, keras.models.clone_model(model)):
        assert again.albert.encoder.gradient_checkpointing


@pytest.mark.filterwarnings("ignore:The model does not have any trainable weights")
def test_models_around_an_encoder(shallow_config, small_features, tmp_path):
    """They also take a tokenizer's result, with its features in any order."""

    class Own(keras.Model):
        def call(self, inputs):
            return encoder(inputs)["pooler_output"]

    encoder = AlbertModel(shallow_config)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in small_features}
    functional = keras.Model(inputs, encoder(inputs)["pooler_output"])
    functional.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    encoding = BatchEncoding(dict(reversed(small_features.items())))
    expected = encoder(small_features)["pooler_output"]
    models = (loaded, Own(), functional)
    for model in models:
        model.compile("sgd", "mse", run_eagerly=EAGERLY)
        np.testing.assert_allclose(model(encoding), expected, atol=1e-6)
        np.testing.assert_allclose(model.predict(encoding, verbose=0), expected, atol=1e-6)
    for model in models[1:]:
        model.fit(encoding, np.zeros((2, 20)), verbose=0)


def test_ids_of_any_type(model, small_features):
    expected = model(small_features).logits
    for dtype in ("uint8", "int64", "float32"):
        ids = {**small_features, "input_ids": small_features["input_ids"].astype(dtype)}
        np.testing.assert_array_equal(model(ids).logits, expected)


def test_weights_of_labels_among_the_features(untouched, small_features):
    """Keras would drop them."""
    examples, weights = {**small_features, "labels": LABELS}, np.array([2.0, 0.5])
    found = arrays_of(untouched, examples, None, weights)
    np.testing.assert_equal(found, arrays_of(untouched, small_features, LABELS, weights))
    np.testing.assert_equal(found.for_keras(untouched.targets), (small_features, LABELS, weights))


def test_weights_of_one_column_or_a_list(model, small_features):
    weights = np.array([0.5, 2.0])
    for options in ({}, {"loss": SPARSE}):
        model.compile("sgd", weighted_metrics=["accuracy"], run_eagerly=True, **options)
        row, column, as_list = (
            model.test_on_batch(small_features, LABELS, each)
            for each in (weights, weights[:, None], weights.tolist())
        )
        assert column == as_list == pytest.approx(row, rel=1e-6)


def test_one_hot_labels_are_refused_unless_they_are_probabilities(model, small_features):
    one_hot = np.eye(3)[LABELS]
    with pytest.raises(ValueError, match="argmax"):
        model(small_features, labels=one_hot.astype("int32"))
    expected = pytest.approx(float(model(small_features, labels=LABELS).loss), rel=1e-5)
    assert float(model(small_features, labels=one_hot).loss) == expected
    model.compile("sgd")
    for labels in (LABELS, LABELS[:, None], one_hot):  # of another rank than traced before
        assert model.test_on_batch(small_features, labels) == expected


@pytest.mark.tensorflow
def test_a_quantized_model_is_not_saved_as_one_of_floats(model, small_features, tmp_path):
    model.albert.encoder.blocks[0].attention.query.quantize("int8")
    with pytest.raises(UserError, match="quantized: .* is int8"):
        model.save_pretrained(tmp_path)
    model.compile("sgd")
    keep = KeepBest(lambda: {"f1": 0.5}, tmp_path / "best")
    for callback, instead in ((keep, "ModelCheckpoint"), (Resume(tmp_path), "BackupAndRestore")):
        with pytest.raises(UserError, match=f"quantized: .* is int8.*{instead}"):
            model.fit(small_features, LABELS, callbacks=[callback], verbose=0)
    assert int(model.optimizer.iterations) == 0  # the error comes before training


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "mode"), [("answerability", "int8"), ("masked lm", "int4")], indirect=["task"]
)
@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method")
def test_quantized_models_are_saved_and_loaded(mode, task, task_model, tmp_path):
    exact = task_model(task.inputs)
    task_model.quantize(mode)
    layers = task_model.albert._flatten_layers()
    modes = {each.quantization_mode for each in layers if isinstance(each, keras.layers.Dense)}
    assert modes == {mode}
    expected = task_model(task.inputs)
    name = next(iter(expected))
    difference = np.abs(ops.convert_to_numpy(expected[name]) - ops.convert_to_numpy(exact[name]))
    assert 0 < difference.max() < 1
    task_model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")(task.inputs)
    for name, value in expected.items():
        np.testing.assert_array_equal(loaded[name], value)


def test_fit_takes_a_tokenizers_result(model, small_features):
    lists = {name: value.tolist() for name, value in small_features.items()}
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    expected = arrays_of(model, small_features, LABELS)
    for features in (BatchEncoding(small_features), BatchEncoding(lists), lists):
        np.testing.assert_equal(arrays_of(model, features, LABELS), expected)
    examples = BatchEncoding(lists), LABELS
    history = model.fit(*examples, validation_data=examples, verbose=0).history
    assert history["val_loss"] == [pytest.approx(model.test_on_batch(small_features, LABELS))]
    assert model.predict(lists, verbose=0)["logits"].shape == (2, 3)
    with pytest.raises(ValueError, match="input_ids .*tokenizer"):
        model.fit({"input_ids": [[2, 3], [2]]}, LABELS, verbose=0)


@pytest.mark.tensorflow
def test_a_dataset_of_a_tokenizers_result(model, small_features):
    import tensorflow as tf

    model.compile("sgd", run_eagerly=True)
    expected = model.test_on_batch(small_features, LABELS)
    examples = BatchEncoding(small_features), LABELS
    dataset = tf.data.Dataset.from_tensor_slices(examples).batch(2)
    assert model.evaluate(dataset, verbose=0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("cls", "shape"),
    [(AlbertForSequenceClassification, "(None, 3)"), (AlbertForMaskedLM, "(None, None, 31)")],
)
def test_a_summary_has_shapes(shallow_config, cls, shape):
    lines = []
    model = cls(shallow_config)
    model.summary(print_fn=lambda line, **_: lines.append(line), expand_nested=True)
    text = "\n".join(lines)
    assert "(None, None, 20)" in text and shape in text and "?" not in text


@pytest.mark.parametrize(
    "task",
    [
        pytest.param("answerability", marks=[pytest.mark.slow, pytest.mark.tensorflow]),
        "multiple choice",
    ],
    indirect=True,
)
def test_export_without_a_signature(task, task_config, tmp_path):
    """Straight after the model is made; batch and length are free."""
    model = task.model(task_config)
    if keras.backend.backend() == "torch":
        with pytest.raises(UserError, match="model.export .*torch"):
            model.export(tmp_path / "model")
        return
    import tensorflow as tf

    model.export(tmp_path / "model", verbose=False)
    served = tf.saved_model.load(tmp_path / "model")
    for inputs in (task.inputs, {name: each[:1, ..., :6] for name, each in task.inputs.items()}):
        found, expected = served.serve(inputs), model(inputs)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, atol=1e-5, rtol=0)


def test_losses_and_metrics_read_logits(model, small_features, tmp_path):
    """Copies keep what was given to `compile`."""
    own = float(model(small_features, labels=LABELS).loss)
    expected = pytest.approx([own, own], rel=1e-5)
    for loss in (
        SPARSE,
        "SparseCategoricalCrossentropy",
        keras.losses.sparse_categorical_crossentropy,
        {"logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
    ):
        model.compile("sgd", loss=loss, metrics=[SPARSE], run_eagerly=True)
        assert model.test_on_batch(small_features, LABELS) == expected
        if not isinstance(loss, str):
            model.save(tmp_path / "model.keras")
            loaded = keras.models.load_model(tmp_path / "model.keras")
            assert loaded.test_on_batch(small_features, LABELS) == expected
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert again.test_on_batch(small_features, LABELS) == expected


@pytest.mark.parametrize("count", [1, 3])
def test_losses_of_several_labels(shallow_config, small_features, scrambled, count):
    """With a single label, the labels may also omit the last axis."""
    config = shallow_config.replace(**SEVERAL, num_labels=count)
    model = scrambled(AlbertForSequenceClassification(config))
    labels = np.array([[1, 0, 1], [0, 0, 1]], "float32")[:, :count]
    given = labels[:, 0] if count == 1 else labels
    own = float(model(small_features, labels=given).loss)
    probabilities = ops.sigmoid(model(small_features).logits)
    for loss in ("binary_crossentropy", "bce", "binary_focal_crossentropy"):
        model.compile("sgd", loss=loss, run_eagerly=True)
        expected = float(ops.mean(keras.losses.get(loss)(labels, probabilities)))
        assert model.test_on_batch(small_features, given) == pytest.approx(expected, rel=1e-4)
        if "focal" not in loss:
            assert own == pytest.approx(expected, rel=1e-4)


REGRESSION = {"problem_type": "regression"}


@pytest.mark.parametrize(
    ("fields", "options", "message"),
    [
        ({}, {"loss": keras.losses.SparseCategoricalCrossentropy()}, r"from_logits=False.*=True\)"),
        ({}, {"loss": "crossentropy"}, "loss='crossentropy'"),
        ({}, {"loss": "kl_divergence"}, "KLDivergence .*lambda labels, logits"),
        (
            {},
            {"loss": keras.losses.BinaryCrossentropy(from_logits=True)},
            "one class of several.*BinaryCrossentropy .*several labels",
        ),
        ({}, {"metrics": ["binary_crossentropy"]}, "BinaryCrossentropy .*several labels"),
        ({}, {"metrics": [keras.metrics.BinaryAccuracy(threshold=0.0)]}, "binary_accuracy .*0.0"),
        ({}, {"metrics": [keras.metrics.Recall(thresholds=[0.5, 0.0])]}, "recall.* .*0.5, 0.0"),
        ({}, {"metrics": [keras.metrics.BinaryIoU(threshold=1)]}, "binary_io_u.* Received: 1"),
        ({}, {"loss": ["mse", "mse"]}, "each of logits.*length 2"),
        ({}, {"loss_weights": [2.0]}, "loss_weights .* each of logits"),
        (SEVERAL, {"loss": SPARSE}, "several labels at once,.* for one class of"),
        (REGRESSION, {"loss": "bce"}, "numbers, .*BinaryCrossentropy .*for several"),
    ],
)
def test_losses_and_metrics_that_are_refused(shallow_config, fields, options, message):
    with pytest.raises(UserError, match=message):
        AlbertForSequenceClassification(shallow_config.replace(**fields)).compile("sgd", **options)


def test_metrics_that_read_logits_or_ignore_labels(shallow_config, small_features, scrambled):
    """Hinge metrics and user-defined functions receive logits."""

    def largest(labels, outputs):
        return ops.max(outputs, axis=-1)

    model = scrambled(AlbertForSequenceClassification(shallow_config))
    labels = np.array([1, -100])
    logits = ops.convert_to_numpy(model(small_features).logits)
    metrics = [largest, keras.metrics.MeanMetricWrapper(largest, "wrapped"), SPARSE]
    model.compile("sgd", metrics=metrics, run_eagerly=True)
    found = model.test_on_batch(small_features, labels, return_dict=True)
    assert np.isfinite(found[SPARSE])
    assert found["largest"] == found["wrapped"] == pytest.approx(logits.max(axis=-1).mean())
    one_hot, hinge = np.eye(3, dtype="float32")[LABELS], keras.metrics.CategoricalHinge()
    model.compile("sgd", metrics=["categorical_hinge"], run_eagerly=True)
    found = model.test_on_batch(small_features, one_hot, return_dict=True)
    assert found["categorical_hinge"] == pytest.approx(float(hinge(one_hot, logits)), rel=1e-5)


def test_accuracy_of_numbers_is_keras_own(shallow_config, small_features):
    model = AlbertForSequenceClassification(shallow_config.replace(num_labels=1))
    model.compile("sgd", metrics=["acc"], run_eagerly=True)
    found = model.test_on_batch(small_features, np.array([0.5, 2.0]), return_dict=True)
    assert found["acc"] == 0


def test_losses_in_the_order_of_outputs(shallow_config, small_features):
    """A list is in the outputs' order, start and end, and not in that of the alphabet."""
    model = AlbertForQuestionAnswering(shallow_config.replace(initializer_range=1.0))
    y = (np.array([1, 2]), np.array([3, 4]))
    one, other = (
        float(model(small_features, **{name: values}).loss)
        for name, values in (("start_positions", y[0]), ("end_positions", y[1]))
    )
    model.compile("sgd", loss=[SPARSE] * 2, loss_weights=[1.0, 0.0], run_eagerly=True)
    found = model.test_on_batch(small_features, y, return_dict=True)["loss"]
    assert found == pytest.approx(2 * one, rel=1e-5) and found != pytest.approx(2 * other, rel=1e-3)
    model.compile("sgd", run_eagerly=True)  # the model's own again
    assert model.test_on_batch(small_features, y) == pytest.approx(one + other, rel=1e-5)
    with pytest.raises(UserError, match="start_positions, end_positions.*length 3"):
        model.evaluate(small_features, [LABELS] * 3)


def test_weights_of_classes_require_separate_labels(model, small_features):
    """Keras would ignore the weights for a PyDataset."""

    class Data(keras.utils.PyDataset):
        def __init__(self, batch):
            super().__init__()
            self.batch = batch

        def __len__(self):
            return 1

        def __getitem__(self, index):
            return self.batch

    model.compile("sgd", run_eagerly=True)
    together = {**small_features, "labels": LABELS}
    for batch in ((together,), together):
        with pytest.raises(UserError, match="class_weight requires batches"):
            model.fit(Data(batch), class_weight={0: 2.0}, verbose=0)
    history = model.fit(Data((small_features, LABELS)), class_weight={0: 2.0}, verbose=0).history
    assert np.isfinite(history["loss"]).all()


def test_words_with_weights_and_with_tags_outside_the_classes(shallow_config, tiny_tokenizer):
    size = tiny_tokenizer.vocab_size
    model = AlbertForTokenClassification(shallow_config.replace(vocab_size=size))
    model.tokenizer = tiny_tokenizer
    model.compile("sgd")
    words = [["a", "film"], ["she", "came", "a"]]
    assert encoded(model, words, [[0, 2], [1, 1, 0]], [3.0, 0.5]).weights == [3.0, 0.5]
    for call in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match="from 0 to 2,.*Received: 3"):
            call(words, [[0, 3], [1, 1, 0]], verbose=0)


@pytest.mark.parametrize("task", ["pretraining"], indirect=True)
@pytest.mark.filterwarnings("ignore:Skipping variable loading for optimizer")
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


def test_weights_of_keras_2_are_refused(model, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "model.weights.h5", "w") as file:
        file.attrs["keras_version"] = b"2.15.0"
    with pytest.raises(UserError, match=r"Keras 2 .*model.weights.h5.*tf_model.h5.*from_pretrain"):
        model.load_weights(tmp_path / "model.weights.h5")


def test_damaged_weights_of_keras(model, tmp_path):
    """HDF5's and ZIP's own errors don't name the file."""
    path = tmp_path / "model.weights.h5"
    with pytest.raises(FileNotFoundError, match="No such file or directory: .*model.weights.h5"):
        model.load_weights(path)
    model.save_weights(path)
    for name in ("model.weights.h5", "model.keras"):
        (tmp_path / name).write_bytes(path.read_bytes()[:-9])
        with pytest.raises(UserError, match=f"{name} is damaged"):
            model.load_weights(tmp_path / name)
    model.save_weights(path)
    path.write_bytes(path.read_bytes().replace(b"vars", b"varz"))
    with pytest.raises(UserError, match=r"model.weights.h5 is damaged, .*could not be loaded"):
        model.load_weights(path)


def test_layers_for_each_time_step(shallow_config):
    """`TimeDistributed` asks layers for the shapes of their outputs."""
    hidden = keras.Input((3, 7, 20))
    ids = keras.Input((3, 7), dtype="int32")
    encoder = AlbertModel(shallow_config)
    for layer, inputs, shape in (
        (layers.FactorizedEmbedding(shallow_config), ids, (None, 3, 7, 20)),
        (encoder.get_input_embeddings(), ids, (None, 3, 7, 6)),
        (layers.ClassificationHead(shallow_config, units=4), hidden, (None, 3, 7, 4)),
    ):
        assert keras.layers.TimeDistributed(layer)(inputs).shape == shape
    assert encoder.compute_output_shape((2, 7)) == {
        "last_hidden_state": (2, 7, 20),
        "pooler_output": (2, 20),
    }
    assert layers.SpanHead(shallow_config).compute_output_shape((2, 7, 20)) == ((2, 7), (2, 7))

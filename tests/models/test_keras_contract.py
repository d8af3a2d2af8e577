"""The contract of `fit`, `evaluate`, and `predict`: each form of the data does what Keras does.

The reference of each case is a plain `keras.Model` that calls the same network on padded ids and
ends with a softmax or a sigmoid. Its loss, metrics, batches, and callbacks are Keras's own.
"""

import copy
import csv
import functools
import itertools
import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.evaluation.keras_metrics import EntityF1, ExactMatch
from albert_tf.labels import unnamed_labels
from albert_tf.models import (
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
    base,
)
from albert_tf.optimizers import AlbertAdamW, Lamb
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training.callbacks import KeepBest

pytestmark = pytest.mark.tensorflow

# No two sizes are equal: 11 rows, 7 rows for validation, batches of 4, 9 positions, 3 classes.
N, HELD_OUT, B, T, C = 11, 7, 4, 9, 3
WORDS = ["cat", "sat", "on", "mat", "paris", "ada", "lives", "near", "new", "york", "dog"]
COUNTS = (3, 1, 6, 2, 5, 12, 1, 4, 2, 7, 3, 5, 1, 4, 8, 2, 3, 6)  # of words; one text is truncated
RNG = np.random.default_rng(4)
TEXTS = [" ".join(RNG.choice(WORDS, count)) for count in COUNTS]
CLASSES = np.array([0, 1, 2, 1, 0, 2, 2, 1, 0, 0, 1, 1, 2, 1, 0, 1, 2, 1], "int32")
NAMES = {0: "a", 1: "b", 2: "c"}
BITS = np.array([0, 7, 4, 2, 3, 5, 1, 6, 2, 3, 6, 3, 2, 3, 6, 1, 3, 2])
SEVERAL = (BITS[:, None] >> [2, 1, 0] & 1).astype("float32")
SCORES = RNG.normal(size=N + HELD_OUT).astype("float32")
WEIGHTS = RNG.uniform(0.1, 2, N + HELD_OUT).astype("float32")
# Texts come first because the graphs for their batches, of any length, also take the ids.
ROUTES = ("texts", "ids", "dataset")


class Kind(NamedTuple):
    """A kind of model, its labels, and what plain Keras needs to train it."""

    labels: np.ndarray
    loss: str
    activation: str = "softmax"
    config: Mapping[str, Any] = {}
    metric: Any = "accuracy"
    plain_metric: Callable[[], Any] = lambda: "accuracy"
    model: type = AlbertForSequenceClassification
    route: str = "texts"


binary_accuracy = functools.partial(keras.metrics.BinaryAccuracy, "accuracy")
KINDS = {
    "classes": Kind(CLASSES, "sparse_categorical_crossentropy"),
    "one-hot": Kind(np.eye(C, dtype="float32")[CLASSES], "categorical_crossentropy"),
    "multi-label": Kind(
        SEVERAL,
        "binary_crossentropy",
        "sigmoid",
        {"problem_type": "multi_label_classification", "id2label": NAMES},
        plain_metric=binary_accuracy,
    ),
    "one label": Kind(
        SEVERAL[:, :1],
        "binary_crossentropy",
        "sigmoid",
        {"problem_type": "multi_label_classification", "num_labels": 1},
        plain_metric=binary_accuracy,
    ),
    "number": Kind(SCORES, "mse", "linear", {"num_labels": 1}, "mae", lambda: "mae"),
    "two numbers": Kind(
        np.stack([SCORES, SCORES[::-1]], axis=-1),
        "mse",
        "linear",
        {"num_labels": 2, "problem_type": "regression"},
        "mae",
        lambda: "mae",
    ),
    "tags": Kind(
        RNG.integers(0, C, (N + HELD_OUT, T)).astype("int32"),
        "sparse_categorical_crossentropy",
        model=AlbertForTokenClassification,
        route="ids",  # its texts are lists of words
    ),
}


class Case(NamedTuple):
    """A call of a method.

    Attributes:
        name: shown by pytest.
        options: the arguments of the call.
        kind: a key of `KINDS`.
        compiled: a key of `COMPILED`.
        rate: the learning rate.
        weighted: whether each row has a `sample_weight`.
        validation: the number of members of `validation_data`.
        form: the form of `validation_data`; by default that of the training data.
        by_row: whether plain Keras needs arrays, because an argument divides the rows.
        routes: forms of the training data; by default only that of its kind.
        callbacks: returns more callbacks, which may write to a folder.
    """

    name: str
    options: Mapping[str, Any] = {}
    kind: str = "classes"
    compiled: str = "default"
    rate: float = 0.1
    weighted: bool = False
    validation: int = 0
    form: str | None = None
    by_row: bool = False
    routes: tuple[str, ...] = ()
    callbacks: Callable[[Path], list[Any]] = lambda folder: []


# Metrics that mean the same to a model with logits and to one with probabilities: by name, by
# object, by class, and F scores, which need to know the number of classes.
METRICS = {
    "classes": lambda: [
        "sparse_categorical_crossentropy",
        keras.metrics.SparseCategoricalAccuracy,
        keras.metrics.SparseTopKCategoricalAccuracy(2, "top"),
        keras.metrics.SparseCategoricalCrossentropy("entropy"),
        keras.metrics.MeanIoU(C, sparse_y_pred=False, name="overlap"),
    ],
    "one-hot": lambda: [
        *("precision", "recall", "categorical_crossentropy"),
        keras.metrics.AUC,
        keras.metrics.AUC(curve="PR", name="area"),
        keras.metrics.Precision(class_id=1, name="right"),
        keras.metrics.Recall(thresholds=0.4, name="found"),
        keras.metrics.TopKCategoricalAccuracy(2, "top"),
        keras.metrics.MeanSquaredError("brier"),
        keras.metrics.mean_absolute_error,
        keras.metrics.F1Score(average="macro", name="f"),
        keras.metrics.FBetaScore("micro", beta=2.0, name="fbeta"),
    ],
    "multi-label": lambda: [
        *("AUC", "Precision", "Recall", "binary_crossentropy"),
        keras.metrics.BinaryAccuracy,
        keras.metrics.AUC(multi_label=True, num_labels=C, name="area"),
        keras.metrics.Precision(top_k=2, name="right"),
        keras.metrics.BinaryIoU(threshold=0.4, name="overlap"),
        keras.metrics.RecallAtPrecision(0.6, name="found"),
        keras.metrics.F1Score(average="macro", threshold=0.5, name="f"),
        keras.metrics.FBetaScore(beta=2.0, threshold=0.4, name="fbeta"),
    ],
    "one label": lambda: [
        *("accuracy", "binary_accuracy", "auc", "precision", "recall", "binary_crossentropy")
    ],
    "number": lambda: [
        keras.metrics.RootMeanSquaredError("distance"),
        keras.metrics.R2Score(name="explained"),
    ],
}
# The arguments of `compile` for our model and for a plain one; new objects for each model.
COMPILED = {
    "default": lambda accuracy: {"metrics": [accuracy()], "weighted_metrics": [accuracy()]},
    "2 steps": lambda accuracy: {"metrics": [accuracy()], "steps_per_execution": 2},
    "5 steps": lambda accuracy: {"metrics": [accuracy()], "steps_per_execution": 5},
    "backup": lambda accuracy: {"run_eagerly": True},
    "xla": lambda accuracy: {"metrics": [accuracy()], "jit_compile": True},
    "average": lambda accuracy: {
        "optimizer": keras.optimizers.SGD(use_ema=True, ema_momentum=0.5),
        "metrics": [accuracy()],
        "run_eagerly": True,
    },
    **{
        # The case with one-hot labels runs in a graph, where the number of rows is unknown.
        name: lambda accuracy, metrics=metrics, eager=name != "one-hot": {
            "metrics": metrics(),
            "run_eagerly": eager,
        }
        for name, metrics in METRICS.items()
    },
    "weighted": lambda accuracy: {
        "weighted_metrics": [keras.metrics.AUC(name="area"), keras.metrics.F1Score("macro")],
        "run_eagerly": True,
    },
}


class Plain(keras.Model):
    """A model of plain Keras that returns probabilities, or numbers."""

    def __init__(self, network, activation):
        super().__init__()
        self.network, self.activation = network, keras.activations.get(activation)

    def call(self, inputs, training=None):
        return self.activation(self.network(inputs, training=training)["logits"])


class Recorder(keras.callbacks.Callback):
    """Records the calls of a callback, with the numbers of epochs and batches."""

    def __init__(self):
        super().__init__()
        self.events = []

    def on_train_begin(self, logs=None):
        self.events.append(("train", self.params["epochs"], self.params["steps"]))

    def on_epoch_end(self, epoch, logs=None):
        self.events.append(("epoch", epoch))

    def on_train_batch_end(self, batch, logs=None):
        self.events.append(("train batch", batch))

    def on_test_batch_end(self, batch, logs=None):
        self.events.append(("test batch", batch))

    def on_predict_batch_end(self, batch, logs=None):
        self.events.append(("predict batch", batch))


class Script(keras.callbacks.Callback):
    """Sets the classifier's bias in each epoch, so that its scores are bad, good, worse, best."""

    def on_epoch_begin(self, epoch, logs=None):
        biases = [3.0, -1, -1], [-1, -1, 3], [4, -1, -1], [-1, 3, 0]
        self.model.weights[-1].assign(biases[epoch])


class Result(NamedTuple):
    """What a call returned and did."""

    value: Any
    events: list[Any]
    weights: list[np.ndarray]
    files: dict[str, Any]


class Lab:
    """Makes models, each once, and calls them with each form of the data."""

    def __init__(self, tokenizer, folder):
        self.tokenizer, self.folder = tokenizer, folder
        self.config = AlbertConfig(
            vocab_size=len(tokenizer),
            embedding_size=6,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=12,
            max_position_embeddings=T,
            classifier_dropout_prob=0.0,
            initializer_range=0.2,
            id2label=unnamed_labels(C),
        )
        options = {"truncation": True, "padding": True, "max_length": T}
        self.ids = dict(tokenizer(TEXTS, **options, return_tensors="np"))
        self.models, self.references, self.numbers = {}, {}, itertools.count()

    def network(self, kind):
        """Returns a new model with the weights that every model of its kind starts with."""
        keras.utils.set_random_seed(3)
        model = KINDS[kind].model(self.config.replace(**KINDS[kind].config))
        generator = np.random.default_rng(3)
        for weight in model.weights:
            weight.assign(weight + 0.3 * generator.standard_normal(weight.shape))
        model.tokenizer = self.tokenizer
        return model

    def model(self, kind, compiled="default", plain=False):
        """Returns a compiled model with the weights that it starts with."""
        # A classifier with the default options keeps its graphs, because tracing takes seconds. A
        # second model is used for all other options.
        key = kind, plain, kind != "classes" or compiled == "default"
        if key not in self.models:
            model, facts = self.network(kind), KINDS[kind]
            self.models[key] = Plain(model, facts.activation) if plain else model, None, [], []
        model, last, variables, values = self.models[key]
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        if last != compiled:
            self.compile(model, kind, compiled, plain)
            variables = [*model.variables, *model.optimizer.variables]
            values = [variable.numpy() for variable in variables]
            self.models[key] = model, compiled, variables, values
        return model

    def compile(self, model, kind, compiled, plain):
        facts = KINDS[kind]
        options = COMPILED[compiled](facts.plain_metric if plain else lambda: facts.metric)
        # For other kinds, a graph for a few calls would take most of the time.
        options.setdefault("run_eagerly", kind != "classes" and compiled == "default")
        if plain:
            eager = {"run_eagerly": (kind, compiled) != ("classes", "default")}
            options |= {"loss": facts.loss, "jit_compile": False, **eager}
        model.compile(**{"optimizer": keras.optimizers.SGD(), **options})
        model.optimizer.build(model.trainable_variables)

    def rows(self, form, rows):
        """Returns rows of the features as texts or as ids."""
        if form == "texts":
            return TEXTS[rows]
        return {name: values[rows] for name, values in self.ids.items()}

    def data(self, form, kind, rows, members, size):
        """Returns the first members of (features, labels, weights), or a dataset of batches."""
        data = (self.rows(form, rows), KINDS[kind].labels[rows], WEIGHTS[rows])[:members]
        data = data if members > 1 else data[0]
        if form == "dataset":
            return tf.data.Dataset.from_tensor_slices(data).batch(size)
        return data

    def call(self, method, case, route, plain=False):
        """Calls a method of a model with one form of the data."""
        model, recorder = self.model(case.kind, case.compiled, plain), Recorder()
        model.optimizer.learning_rate = case.rate
        folder = self.folder / str(next(self.numbers))
        folder.mkdir()
        callbacks = [*case.callbacks(folder), recorder]
        options = {"callbacks": callbacks, "verbose": 0, **case.options}
        size = options.get("batch_size") or 32
        if case.validation:
            form = route if plain else case.form or route
            of_batch = options.get("validation_batch_size") or size
            options["validation_data"] = self.data(
                form, case.kind, slice(N, None), case.validation, of_batch
            )
        members = 1 if method == "predict" else 2 + case.weighted
        data = self.data(route, case.kind, slice(N), members, size)
        if route == "dataset":
            options.pop("batch_size", None)
            options.pop("shuffle", None)
            if case.validation and case.form != "dataset":
                options.setdefault("validation_batch_size", size)
            if method == "fit" and plain:
                options["shuffle"] = False  # Keras warns that it can't shuffle a dataset
        if route == "dataset" or method == "predict":
            options["x"] = data
        else:
            options |= dict(zip(("x", "y", "sample_weight"), data, strict=False))
        value = getattr(model, method)(**options)
        if method == "fit":
            value = value.history
        if method == "predict" and not plain:
            value = ops.convert_to_numpy(model.probabilities(value["logits"]))
        return Result(value, recorder.events, model.get_weights(), files(folder))

    def reference(self, method, case):
        """Returns what the same call does with plain Keras and ids.

        The ids are batches of a dataset. They are arrays, which take twice as long, only if Keras
        must divide the rows.
        """
        key = method, id(case)
        if key not in self.references:
            route = "ids" if case.by_row else "dataset"
            self.references[key] = self.call(method, case, route, plain=True)
        return self.references[key]

    def assert_alike(self, method, case, route):
        """Compares a call with the same call of plain Keras."""
        expected = self.reference(method, case)
        found = self.call(method, case, route)
        assert_close(found.value, expected.value)
        assert found.events == expected.events
        assert_close(found.weights, expected.weights)
        assert_close(found.files, expected.files)


def files(folder):
    """Returns the contents of the files that callbacks wrote."""
    contents = {}
    for path in sorted(folder.rglob("*.*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".csv":
            with path.open() as file:
                rows = list(csv.DictReader(file))
            contents[name] = [{key: float(row[key]) for key in row} for row in rows]
        elif ".tfevents." in name:
            contents |= {
                f"{path.parent.name}: {value.tag} {event.step}": tf.make_ndarray(value.tensor)
                for event in tf.compat.v1.train.summary_iterator(str(path))
                for value in event.summary.value
                if value.tensor.dtype == tf.float32.as_datatype_enum
            }
        elif path.is_file():
            contents[name] = []
    return contents


def assert_close(found, expected):
    """Compares nested dicts and lists of numbers."""
    if isinstance(expected, Mapping):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_close(found[name], expected[name])
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)


@pytest.fixture(scope="module")
def lab(words_vocabulary, tmp_path_factory):
    return Lab(AlbertTokenizer(words_vocabulary), tmp_path_factory.mktemp("lab"))


def params(cases):
    """Returns a parameter for each case and each form of its data."""
    return pytest.mark.parametrize(
        ("case", "route"),
        [
            pytest.param(case, route, id=f"{case.name}-{route}")
            for case in cases
            for route in case.routes or [KINDS[case.kind].route]
        ],
    )


def of_kinds(options, **others):
    """Returns a case, which runs eagerly, for each kind of model but a classifier."""
    kinds = ("multi-label", "number", "tags")
    return [Case(kind, options, kind=kind, **others) for kind in kinds]


IN_ORDER = {"batch_size": B, "shuffle": False}
THRICE = {**IN_ORDER, "epochs": 3}
# Our code always converts texts to a dataset. It leaves arrays and datasets to Keras, except for
# what the cases with all routes pass: labels, weights, class weights, and validation data.
FIT = [
    Case("batch_size", IN_ORDER, routes=ROUTES),
    Case("no batch_size", {"shuffle": False}),
    Case("shuffle", {"batch_size": B, "epochs": 2}, rate=0.0),
    Case("epochs", THRICE),
    Case("no epochs", {**IN_ORDER, "epochs": 0}),
    Case("initial_epoch", {**THRICE, "initial_epoch": 1}),
    Case("steps_per_epoch", {**IN_ORDER, "epochs": 4, "steps_per_epoch": 1}),
    Case("an uneven steps_per_epoch", {**THRICE, "steps_per_epoch": 2}),
    Case(
        "steps_per_epoch without batch_size", {"shuffle": False, "steps_per_epoch": 2}, by_row=True
    ),
    Case("class_weight", {**IN_ORDER, "class_weight": {0: 0.2, 2: 3.0}}, routes=ROUTES),
    Case("sample_weight", IN_ORDER, weighted=True, validation=3, routes=ROUTES),
    Case("validation_data", {**IN_ORDER, "epochs": 2}, validation=2),
    Case("validation_data of ids", IN_ORDER, validation=2, form="ids"),
    Case("validation_data of texts", IN_ORDER, validation=2, form="texts", routes=ROUTES[1:]),
    Case("validation_data of batches", IN_ORDER, validation=3, form="dataset"),
    Case(
        "validation_batch_size",
        {**IN_ORDER, "validation_batch_size": 3},
        validation=2,
        routes=ROUTES,
    ),
    Case(
        "validation_steps",
        {**THRICE, "validation_batch_size": 3, "validation_steps": 1},
        validation=2,
    ),
    Case("validation_freq", {**THRICE, "validation_freq": 2}, validation=2),
    Case("list of validation_freq", {**THRICE, "validation_freq": [1, 3]}, validation=2),
    Case(
        "validation_split",
        {**IN_ORDER, "validation_split": 0.3},
        by_row=True,
        routes=("texts", "ids"),
    ),
    Case(
        "shuffled validation_split",
        {"batch_size": B, "validation_split": 0.25},
        rate=0.0,
        by_row=True,
    ),
    Case(
        "weighted validation_split",
        {**IN_ORDER, "validation_split": 0.4, "validation_steps": 1},
        weighted=True,
        by_row=True,
    ),
    Case("unused validation_split", {**IN_ORDER, "validation_split": 0.4}, validation=2),
    Case("steps_per_execution", {**IN_ORDER, "epochs": 2}, compiled="2 steps"),
    Case("jit_compile", {"batch_size": N, "shuffle": False}, compiled="xla"),
    *of_kinds({"batch_size": 8, "shuffle": False}, validation=2),
]
EVALUATE = [
    Case("batch_size", {"batch_size": B}, routes=ROUTES),
    Case("no batch_size", {}),
    Case("steps", {"batch_size": B, "steps": 1}),
    Case("2 steps", {"batch_size": 3, "steps": 2}),
    Case("all steps", {"batch_size": B, "steps": 3}),
    Case("steps without batch_size", {"steps": 2}, by_row=True),
    Case("return_dict", {"batch_size": B, "return_dict": True}),
    Case("sample_weight", {"batch_size": B}, weighted=True, routes=ROUTES),
    Case("weighted steps", {"batch_size": B, "steps": 2}, weighted=True),
    Case("steps_per_execution", {"batch_size": B}, compiled="5 steps"),
    *of_kinds({"batch_size": 3, "steps": 2, "return_dict": True}),
]
PREDICT = [
    Case("batch_size", {"batch_size": B}, routes=ROUTES),
    Case("no batch_size", {}),
    Case("steps", {"batch_size": 1, "steps": 2}),
    Case("2 steps", {"batch_size": B, "steps": 2}),
    Case("all steps", {"batch_size": B, "steps": 3}),
    Case("steps without batch_size", {"steps": 2}, by_row=True),
    Case("steps_per_execution", {"batch_size": B}, compiled="5 steps"),
    *of_kinds({"batch_size": B, "steps": 2}),
]


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@params(FIT)
def test_fit(lab, case, route):
    lab.assert_alike("fit", case, route)


@params(EVALUATE)
def test_evaluate(lab, case, route):
    lab.assert_alike("evaluate", case, route)


@params(PREDICT)
def test_predict(lab, case, route):
    lab.assert_alike("predict", case, route)


def test_first_pairs_of_texts(lab):
    model, pairs = lab.model("classes"), list(zip(TEXTS, TEXTS[::-1], strict=True))
    expected = model.predict(pairs, verbose=0)["logits"][:2]
    found = model.predict(pairs, batch_size=1, steps=2, verbose=0)["logits"]
    assert_close(found, expected)


RETURN_DICT = {"batch_size": 8, "return_dict": True}
MEASURED = [
    *(Case(name, RETURN_DICT, kind=name, compiled=name) for name in METRICS),
    Case("weighted", RETURN_DICT, kind="one-hot", compiled="weighted", weighted=True),
]
measured = pytest.mark.parametrize("case", MEASURED, ids=[case.name for case in MEASURED])


def unnumbered(scores):
    """Returns scores by the names of metrics, without the numbers that Keras adds to them."""
    return {re.sub(r"_\d+$", "", name): score for name, score in scores.items()}


@measured
def test_metrics(lab, case):
    """The scores of two batches are plain Keras's of all rows."""
    plain = lab.model(case.kind, case.compiled, plain=True)
    plain.reset_metrics()
    expected = plain.test_on_batch(
        lab.rows("ids", slice(N)),
        KINDS[case.kind].labels[:N],
        WEIGHTS[:N] if case.weighted else None,
        return_dict=True,
    )
    found = lab.call("evaluate", case, "texts").value
    assert_close(unnumbered(found), unnumbered(expected))


def evaluations(callback, model, scores):
    """Returns how many scores a callback reads before it stops the training."""
    callback.set_model(model)
    callback.on_train_begin()
    model.stop_training = False
    for epoch, logs in enumerate(scores):
        callback.on_epoch_end(epoch, logs)
        if model.stop_training:
            return epoch + 1
    raise AssertionError("never stopped")


def is_maximized(model, name):
    """Returns whether early stopping maximizes a metric."""
    callback = keras.callbacks.EarlyStopping(f"val_{name}", patience=0)
    scores = [{f"val_{name}": score} for score in (0.5, 0.7, 0.6)]
    return evaluations(callback, model, scores) == 3


@measured
def test_directions_of_metrics(lab, case):
    """Callbacks know which metrics are to be maximized."""
    ids, labels = lab.rows("ids", slice(N)), ops.array(KINDS[case.kind].labels[:N])
    found = []
    for plain in (False, True):
        model = lab.model(case.kind, case.compiled, plain)
        scores = model.compute_metrics(ids, labels, model(ids))
        names = [name for name in scores if name != "loss"]
        found.append([is_maximized(model, name) for name in names])
    assert found[0] == found[1]


OWN_METRICS = {
    "entity_f1": (
        AlbertForTokenClassification,
        lambda: EntityF1(["O", "B-X", "I-X"]),
        KINDS["tags"].labels,
    ),
    "exact_match": (
        AlbertForQuestionAnswering,
        ExactMatch,
        {"start_positions": CLASSES, "end_positions": CLASSES + 1},
    ),
}


@pytest.mark.parametrize("name", OWN_METRICS)
def test_directions_of_own_metrics(lab, name):
    cls, metric, labels = OWN_METRICS[name]
    model = cls(lab.config)
    model.compile("sgd", metrics=[metric()], run_eagerly=True)
    model.test_on_batch(lab.ids, labels)
    assert is_maximized(model, name)


def monitored(kind, **options):
    """Returns a callback that watches the accuracy of the validation data."""
    return kind(monitor="val_accuracy", **options)


SCRIPTED = {**IN_ORDER, "epochs": 4}
CALLBACKS = [
    Case(
        "EarlyStopping",
        SCRIPTED,
        callbacks=lambda _: [
            Script(),
            monitored(keras.callbacks.EarlyStopping, patience=0, restore_best_weights=True),
        ],
    ),
    Case(
        "EarlyStopping of the loss",
        SCRIPTED,
        callbacks=lambda _: [Script(), keras.callbacks.EarlyStopping(patience=0)],
    ),
    Case(
        "ModelCheckpoint",
        SCRIPTED,
        callbacks=lambda folder: [
            Script(),
            monitored(
                keras.callbacks.ModelCheckpoint,
                filepath=folder / "{epoch}.weights.h5",
                save_best_only=True,
                save_weights_only=True,
            ),
        ],
    ),
    Case(
        "ReduceLROnPlateau",
        SCRIPTED,
        callbacks=lambda _: [
            Script(),
            monitored(keras.callbacks.ReduceLROnPlateau, patience=1, factor=0.5),
        ],
    ),
    Case(
        "LearningRateScheduler and CSVLogger",
        THRICE,
        callbacks=lambda folder: [
            keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / (1 + epoch)),
            keras.callbacks.CSVLogger(folder / "a.csv"),
        ],
    ),
    Case(
        "TensorBoard",
        {**IN_ORDER, "epochs": 2},
        callbacks=lambda folder: [keras.callbacks.TensorBoard(folder)],
    ),
    Case(
        "SwapEMAWeights",
        {"batch_size": N, "epochs": 2},
        compiled="average",
        callbacks=lambda _: [keras.callbacks.SwapEMAWeights(swap_on_epoch=True)],
    ),
]
CALLBACKS = [case._replace(validation=2) for case in CALLBACKS]


@params(CALLBACKS)
def test_callbacks(lab, case, route):
    if case.name == "TensorBoard":
        pytest.importorskip("tensorboard")
    reference = lab.reference("fit", case)
    if case.name.startswith("EarlyStopping"):
        assert len(reference.value["loss"]) == 3
    if case.name == "ModelCheckpoint":
        assert [*reference.files] == [f"{epoch}.weights.h5" for epoch in (1, 2, 4)]
    if "CSVLogger" in case.name or case.name == "TensorBoard":
        assert reference.files
    lab.assert_alike("fit", case, route)


WHOLE = Case("whole", {"batch_size": N, "epochs": 3}, compiled="backup")


class Crash(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            raise ConnectionError


def test_backup_and_restore(lab, tmp_path):
    """A fit that crashed ends with the weights of one that didn't."""
    whole = lab.reference("fit", WHOLE)
    backup = functools.partial(keras.callbacks.BackupAndRestore, tmp_path)
    case = WHOLE._replace(callbacks=lambda _: [backup(), Crash()])
    with pytest.raises(ConnectionError):
        lab.call("fit", case, "texts")
    resumed = lab.call("fit", case._replace(callbacks=lambda _: [backup()]), "texts")
    del lab.models["classes", False, False]  # Keras leaves the epoch in the model
    assert_close(resumed.value["loss"], whole.value["loss"][1:])
    assert_close(resumed.weights, whole.weights)


@pytest.mark.parametrize("route", ROUTES)
def test_weights_of_classes_and_of_rows_exclude_each_other(lab, route):
    case = Case("both", {**IN_ORDER, "class_weight": {0: 2.0}}, weighted=True)
    with pytest.raises(ValueError, match=r"class_weight.*sample_weight"):
        lab.call("fit", case, route)


COUNTS = (0, -3, 2.5, "4")
WRONG_NUMBERS = {
    "fit": {
        **dict.fromkeys(("batch_size", "validation_batch_size", "steps_per_epoch"), COUNTS),
        **dict.fromkeys(("validation_steps", "validation_freq"), COUNTS),
        **dict.fromkeys(("epochs", "initial_epoch"), COUNTS[1:]),
        "validation_split": (-0.2, 0.95, 1.0, 1.5, "0.2"),  # 0.95 of the rows leave none to train
    },
    "evaluate": dict.fromkeys(("batch_size", "steps"), COUNTS),
    "predict": dict.fromkeys(("batch_size", "steps"), COUNTS),
}


@pytest.mark.parametrize(
    ("method", "name"),
    [(method, name) for method, wrong in WRONG_NUMBERS.items() for name in wrong],
)
def test_wrong_numbers(lab, method, name):
    """The error names the argument whose value is out of range."""
    held_out = 2 if method == "fit" and name != "validation_split" else 0
    for value in WRONG_NUMBERS[method][name]:
        case = Case("wrong", {name: value}, validation=held_out)
        with pytest.raises(UserError, match=name):
            lab.call(method, case, "texts")


WRONG_SHAPES = [
    *(("multi-label", shape, C) for shape in ((N,), (N, 1), (C, N), (N * C,), (1, N * C))),
    *(("two numbers", shape, 2) for shape in ((N,), (N, 1), (2, N), (N * 2,), (1, N * 2))),
    ("number", (1, N), 1),
    ("number", (N, 2), 1),
]


def calls_with_labels(lab, model, labels):
    """Yields each way to pass labels to a model."""
    for features in (TEXTS[:N], lab.rows("ids", slice(N))):
        yield functools.partial(model.evaluate, features, labels, verbose=0)
        yield functools.partial(model.fit, features, labels, verbose=0)
    yield functools.partial(model, lab.rows("ids", slice(N)), labels=labels)


@pytest.mark.parametrize(
    ("kind", "shape", "count"),
    [pytest.param(*wrong, id=f"{wrong[0]}-{wrong[1]}") for wrong in WRONG_SHAPES],
)
def test_labels_of_a_wrong_shape(lab, kind, shape, count):
    """The message has the shape that is expected, `[batch, 3]` or `(11, 3)`, and the given one."""
    labels = np.zeros(shape, "float32")
    last = rf", {count}[)\]]" if count > 1 else r"[)\],]"
    expected = rf"(\(11|\[11|\[batch|\[B){last}"
    for call in calls_with_labels(lab, lab.model(kind), labels):
        with pytest.raises(ValueError, match=expected) as error:
            call()
        assert str(shape) in str(error.value)


def test_flat_labels_in_a_dataset(lab):
    data = tf.data.Dataset.from_tensor_slices((lab.rows("ids", slice(N)), SEVERAL[:N, 0]))
    for method in (lab.model("multi-label").evaluate, lab.model("multi-label").fit):
        with pytest.raises(ValueError, match=r"3[)\]]"):
            method(data.batch(B), verbose=0)


def test_one_hot_labels_of_a_sparse_loss(lab):
    model, one_hot = lab.network("classes"), KINDS["one-hot"].labels[:N]
    model.compile("sgd", "sparse_categorical_crossentropy")
    for call in [*calls_with_labels(lab, model, one_hot)][:-1]:
        with pytest.raises(ValueError, match=r"\(11, 3\)"):
            call()


@pytest.mark.parametrize(
    ("kind", "labels", "message"),
    [
        ("multi-label", [["a"], ["z"], []], "'z'"),
        ("multi-label", ["a", "b", "c"], "'a'"),
        ("multi-label", [["a"], None, []], "None"),
        ("multi-label", [[0], [1, 2], []], "matrix of 0 and 1.* or a list of label names"),
        ("classes", [["a", "b"], ["c"], ["a"]], r"\['a', 'b'\] in row 0.*problem_type"),
    ],
)
def test_several_labels_that_are_wrong(lab, kind, labels, message):
    for features in (TEXTS[:3], lab.rows("ids", slice(3))):
        with pytest.raises(UserError, match=message):
            lab.model(kind).evaluate(features, labels, verbose=0)


@pytest.mark.parametrize("name", ["input_ids", "attention_mask", "token_type_ids", "labels"])
def test_an_input_that_is_passed_twice(lab, name):
    features = {**lab.rows("ids", slice(N)), "labels": CLASSES[:N]}
    with pytest.raises((ValueError, TypeError), match=name):
        lab.model("classes")(features, **{name: features[name]})


@pytest.mark.parametrize("patience", [0, 1, 2])
def test_patience_is_that_of_early_stopping(lab, patience):
    scores = [{"score": score} for score in (0.5, 0.7, 0.7, 0.6, 0.8)]
    given = iter(scores)
    keep = KeepBest(lambda: next(given), None, patience=patience)
    stop = keras.callbacks.EarlyStopping("score", patience=patience, mode="max")
    kept, stopped = (evaluations(each, lab.model("classes"), scores) for each in (keep, stop))
    assert kept == stopped == max(3, 2 + patience)


@pytest.mark.parametrize("optimizer", [AlbertAdamW, Lamb])
@pytest.mark.parametrize("name", ["clipnorm", "clipvalue", "global_clipnorm"])
def test_another_clipping_replaces_the_default(optimizer, name):
    made = optimizer(1e-3, **{name: 0.5})
    for each in (made, optimizer.from_config(made.get_config())):
        found = {name: getattr(each, name) for name in ("clipnorm", "clipvalue", "global_clipnorm")}
        assert {name: value for name, value in found.items() if value is not None} == {name: 0.5}


def through_a_file(model, folder):
    model.save(folder / "model.keras")
    base._tokenizers.clear()  # as in another process
    return keras.models.load_model(folder / "model.keras")


COPIES = {
    "load_model": through_a_file,
    "deepcopy": lambda model, _: copy.deepcopy(model),
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "clone_model": lambda model, _: keras.models.clone_model(model),
}


@pytest.fixture(scope="module")
def saved(lab, tmp_path_factory):
    """Returns a model with a tokenizer, and the folder in which it is saved."""
    model, folder = lab.network("classes"), tmp_path_factory.mktemp("saved")
    model.save_pretrained(folder)
    return model, folder


@pytest.mark.parametrize("loaded", [False, True], ids=["set", "loaded"])
@pytest.mark.parametrize("way", COPIES)
def test_copies_keep_the_tokenizer(saved, tmp_path, way, loaded):
    """Also one that is in the folder of the weights, and that nothing has used so far."""
    model, folder = saved
    expected = model.tokenizer
    if loaded:
        model = AlbertForSequenceClassification.from_pretrained(folder)
    again = COPIES[way](model, tmp_path)
    assert again.tokenizer(TEXTS)["input_ids"] == expected(TEXTS)["input_ids"]
    again.save_pretrained(tmp_path / "copy")
    assert (tmp_path / "copy" / "spiece.model").read_bytes() == expected.model_bytes

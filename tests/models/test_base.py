"""Rules for every task's model."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.checkpoints import hugging_face, weights
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.models import (
    AlbertForMaskedLM,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
)
from albert_tf.models.batch import arrays_of, batch_of
from albert_tf.text.tokenizer import AlbertTokenizer
from tests.models.conftest import TASKS

# TensorFlow and torch save the tracing of a short run; JAX would compile every operation.
EAGERLY = keras.backend.backend() != "jax"


@pytest.fixture(scope="module")
def made():
    return {}


@pytest.fixture
def task_model(made, task, task_config, scrambled):
    """Returns a model of the task, made once per task; the tests don't train it."""
    key = id(task)
    if key not in made:
        made[key] = scrambled(task.model(task_config))
    return made[key]


def arrays(outputs):
    return {name: ops.convert_to_numpy(value) for name, value in outputs.items()}


def assert_equal(ours, theirs, tolerance=0.0):
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], atol=tolerance, rtol=0, err_msg=name)


@pytest.mark.parametrize(
    ("task", "dtype"),
    [("pretraining", "float32"), *((name, "mixed_float16") for name in TASKS)],
    indirect=["task"],
)
@pytest.mark.slow
def test_fit_lowers_the_models_loss(task, task_config, dtype):
    keras.utils.set_random_seed(1)
    model = task.model(task_config, dtype=dtype)
    model.compile(keras.optimizers.Adam(0.01), jit_compile=not EAGERLY)
    losses = model.fit({**task.inputs, **task.labels}, epochs=30, verbose=0).history["loss"]
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.6 * losses[0]


def splits(task):
    """Returns features and `y`, with none, one, … of the labels among the features.

    With answerability the start must be one of them.
    """
    names = list(task.labels)
    needed = 1 if task.config.get("answerability") else 0
    return [
        (
            {**task.inputs, **{name: task.labels[name] for name in names[:count]}},
            {name: task.labels[name] for name in names[count:]},
        )
        for count in range(needed, len(names))
    ]


def test_labels_in_either_place(task, task_model):
    """The labels are arrays, or tensors of a dataset."""
    whole = {**task.inputs, **task.labels}
    expected = arrays_of(task_model, whole)
    for each in splits(task):
        np.testing.assert_equal(arrays_of(task_model, *each), expected)
        tensors = keras.tree.map_structure(ops.convert_to_tensor, each)
        batch = batch_of(task_model, *tensors)
        found = keras.tree.map_structure(ops.convert_to_numpy, tuple(batch))
        np.testing.assert_equal(found, tuple(expected))
    direct = float(task_model(whole)["loss"])
    task_model.compile("sgd", run_eagerly=EAGERLY)
    assert task_model.test_on_batch(whole) == pytest.approx(direct, rel=1e-5)


def test_a_label_in_both_places(task, task_model):
    task_model.compile("sgd", run_eagerly=EAGERLY)
    names = list(task.labels)
    for fit in (task_model.fit, task_model.evaluate, task_model.train_on_batch):
        with pytest.raises(UserError, match=f"each label once. Received: {names[-1]}"):
            fit({**task.inputs, **task.labels}, {names[-1]: task.labels[names[-1]]})
    with pytest.raises(ValueError, match="Unknown labels: sop.*labels are (labels|start)"):
        task_model.evaluate(task.inputs, {**task.labels, "sop": task.labels[names[0]]})


def test_labels_that_a_head_refuses(task, task_model):
    """Each method rejects them, whether they are among the features or in `y`."""
    losses = [None] if len(task.labels) > 1 else [None, "sparse_categorical_crossentropy"]
    wrong = [(name, value) for name, values in task.wrong.items() for value in values]
    for loss, (name, value) in itertools.product(losses, wrong):
        label = task.labels[name].astype(np.result_type(task.labels[name], value))
        label.flat[np.flatnonzero(label != -100)[0]] = value
        labels = {**task.labels, name: label}
        message = f"{name} must be .*Received: {value}"
        task_model.compile("sgd", loss=loss)
        with pytest.raises(ValueError, match=message):
            task_model(task.inputs, **labels)
        for examples in (({**task.inputs, **labels},), splits(task._replace(labels=labels))[0]):
            for method in ("fit", "evaluate", "train_on_batch", "test_on_batch"):
                with pytest.raises(ValueError, match=message):
                    getattr(task_model, method)(*examples)


def test_sample_weight_scales_each_example(task, task_model):
    task_model.compile("sgd")
    features, labels = splits(task)[0]
    outputs = task_model({**task.inputs, **task.labels})
    whole = float(outputs.pop("loss"))

    def loss(weights):
        weights = np.array(weights, "float32")
        return float(task_model.compute_loss(features, labels, outputs, weights, training=False))

    alone = [loss(row) for row in np.eye(4)]
    assert loss([1, 1, 1, 1]) == pytest.approx(whole, rel=1e-5)
    assert sum(alone) == pytest.approx(whole, rel=1e-5)
    assert loss([2, 0, 0.5, 0]) == pytest.approx(2 * alone[0] + 0.5 * alone[2], rel=1e-5)


@pytest.mark.parametrize(
    "task", [name for name in TASKS if name != "pretraining at positions"], indirect=True
)
def test_files(task, task_model, tmp_path):
    task_model.save(tmp_path / "model.keras")
    task_model.save_pretrained(tmp_path)
    loaded = task.model.from_pretrained(tmp_path)
    assert loaded.newly_initialized == []
    expected = arrays(task_model(task.inputs))
    for again in (loaded, keras.models.load_model(tmp_path / "model.keras")):
        assert again.config == task_model.config
        assert_equal(arrays(again(task.inputs)), expected)


def test_embeddings_and_positions_instead_of_ids(task, task_model):
    table = ops.convert_to_numpy(task_model.albert.embedding.word_embeddings)
    expected = arrays(task_model(task.inputs))
    inputs = dict(task.inputs)
    ids = inputs.pop("input_ids")
    inputs["inputs_embeds"] = table[ids]
    positions = np.broadcast_to(np.arange(7, dtype="int32"), ids.shape)
    found = arrays(task_model({**inputs, "position_ids": positions}))
    assert_equal(found, expected, 1e-5)
    moved = arrays(task_model({**inputs, "position_ids": positions[..., ::-1]}))
    name = next(iter(expected))
    assert np.abs(moved[name] - expected[name]).max() > 1e-3


def test_masks_of_queries_and_keys(task, task_model):
    inputs = dict(task.inputs)
    if task.config.get("answerability"):
        inputs["p_mask"] = np.zeros((4, 7), "float32")
    expected = arrays(task_model(inputs))
    mask = inputs["attention_mask"]
    inputs["attention_mask"] = np.repeat(mask[..., None, :], 7, axis=-2)
    assert_equal(arrays(task_model(inputs)), expected, 1e-5)


def test_half_precision(task, task_config, task_model):
    expected = float(task_model(task.inputs, **task.labels)["loss"])
    half = task.model(task_config, dtype="float16")
    half.set_weights(task_model.get_weights())
    outputs = half(task.inputs, **task.labels)
    for value in outputs.values():
        assert keras.backend.standardize_dtype(value.dtype) in ("float32", "int32")
    assert float(outputs["loss"]) == pytest.approx(expected, abs=0.15)


def test_weights_and_metrics_by_label(task, task_model):
    """They are dicts by label or by output, or in the order of the labels.

    The loss by name is the model's own, but Keras adds those of two positions up.
    """
    if task.config.get("answerability"):
        pytest.skip("takes its labels among the features")
    names = [target.output for target in task_model.targets.values()]
    single = len(task.labels) == 1
    generator = np.random.default_rng(4)
    weights = {name: generator.random(4).astype("float32") for name in task.labels}
    task_model.compile("sgd", run_eagerly=EAGERLY)
    own = task_model.test_on_batch(task.inputs, task.labels, weights)
    expected = {"loss": own * (2 if "start_positions" in task.labels else 1)}
    outputs = arrays(task_model(task.inputs))
    for (label, values), name in zip(task.labels.items(), names, strict=True):
        right = (outputs[name].argmax(axis=-1) == values).reshape(4, -1)
        known = (values != -100).reshape(4, -1) * weights[label][:, None]
        key = "accuracy" if single else f"{name}_accuracy"
        expected[key] = (right * known).sum() / known.sum()
    by_label = (task.labels, weights, {name: ["accuracy"] for name in task.labels})
    by_output = [dict(zip(names, each.values(), strict=True)) for each in by_label]
    in_order = [tuple(each.values()) for each in by_label]
    if single:
        in_order = [values for (values,) in in_order]
    for labels, weight, metrics in (by_label, by_output, in_order):
        task_model.compile(
            "sgd",
            loss=["sparse_categorical_crossentropy"] * len(names),
            weighted_metrics=metrics,
            run_eagerly=EAGERLY,
        )
        found = task_model.test_on_batch(task.inputs, labels, weight, return_dict=True)
        assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-5)


@pytest.fixture
def masked_lm(tiny_tokenizer, shallow_config):
    """A model of the vocabulary's size, without its tokenizer."""
    return AlbertForMaskedLM(shallow_config.replace(vocab_size=len(tiny_tokenizer)))


def vocabulary(folder):
    path = folder / "spiece.model"
    return path.read_bytes() if path.exists() else None


def test_the_tokenizer_beside_the_weights(tiny_tokenizer, masked_lm, tmp_path):
    masked_lm.save_pretrained(tmp_path / "alone")
    assert masked_lm.tokenizer is None and vocabulary(tmp_path / "alone") is None
    assert AlbertForMaskedLM.from_pretrained(tmp_path / "alone").tokenizer is None
    masked_lm.tokenizer = tiny_tokenizer
    masked_lm.save_pretrained(tmp_path / "both")
    assert vocabulary(tmp_path / "both") == tiny_tokenizer.model_bytes
    again = AlbertForMaskedLM.from_pretrained(tmp_path / "both")
    again.save_pretrained(tmp_path / "copy")
    assert vocabulary(tmp_path / "copy") == tiny_tokenizer.model_bytes
    assert again.tokenizer.get_vocab() == tiny_tokenizer.get_vocab()
    again.tokenizer = None
    assert again.tokenizer is None


def test_only_a_used_tokenizer_replaces_another_one(tiny_tokenizer, masked_lm, tmp_path):
    """`tokenizer.save_pretrained(folder)` may come before the model's."""
    masked_lm.tokenizer = tiny_tokenizer
    masked_lm.save_pretrained(tmp_path / "model")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "spiece.model").write_bytes(b"another one")
    again = AlbertForMaskedLM.from_pretrained(tmp_path / "model")
    again.save_pretrained(tmp_path / "other")
    assert vocabulary(tmp_path / "other") == b"another one"
    assert again.tokenizer is not None
    again.save_pretrained(tmp_path / "other")
    assert vocabulary(tmp_path / "other") == tiny_tokenizer.model_bytes


def test_the_home_folder(tiny_tokenizer, masked_lm, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))  # of Windows
    masked_lm.save_pretrained("~/model")
    tiny_tokenizer.save_pretrained("~/model")
    config = AlbertConfig.from_json_file("~/model/config.json")
    AlbertForMaskedLM.from_pretrained("~/model", config=config)
    AlbertTokenizer.from_pretrained("~/model")
    AlbertTokenizer("~/model/spiece.model")


def test_a_tokenizer_that_the_model_has_outgrown(tiny_tokenizer, masked_lm, tmp_path):
    masked_lm.tokenizer = tiny_tokenizer
    masked_lm.save_pretrained(tmp_path / "model")
    again = AlbertForMaskedLM.from_pretrained(tmp_path / "model")
    again.resize_token_embeddings(len(tiny_tokenizer) + 1)
    again.save_pretrained(tmp_path / "larger")
    assert vocabulary(tmp_path / "larger") is None
    masked_lm.resize_token_embeddings(len(tiny_tokenizer) + 1)
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    with pytest.raises(UserError, match="must have the same vocabulary"):
        masked_lm.save_pretrained(tmp_path / "model")
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before


def test_thresholds_belong_to_a_head(masked_lm, tmp_path):
    """Another task's head drops them; a new pooler doesn't."""
    fields = {"num_labels": 3, "problem_type": "multi_label_classification"}
    config = masked_lm.config.replace(**fields, thresholds=(0.2, 0.3, 0.4))
    model = AlbertForSequenceClassification(config)
    model.save_pretrained(tmp_path / "whole")
    again = AlbertForSequenceClassification.from_pretrained(tmp_path / "whole")
    assert again.config.thresholds == (0.2, 0.3, 0.4)
    other = AlbertForQuestionAnswering.from_pretrained(tmp_path / "whole")
    assert other.config.thresholds is None
    tensors = weights.extract(model)
    kept = {name: tensor for name, tensor in tensors.items() if "pooler" not in name}
    hugging_face.write(tmp_path / "new", config, kept, "AlbertForSequenceClassification")
    again = AlbertForSequenceClassification.from_pretrained(tmp_path / "new")
    assert again.newly_initialized == ["pooler"]
    assert again.config.thresholds == (0.2, 0.3, 0.4)

"""Presets of KerasHub; the comparisons marked `peers` run KerasHub itself."""

import dataclasses
import json

import numpy as np
import pytest

from albert_tf.checkpoints import keras_hub, names
from albert_tf.checkpoints.conversion import convert
from albert_tf.checkpoints.finder import find
from albert_tf.errors import UserError
from tests.checkpoints.presets import backbone_json, stored, task_json, write_preset

h5py = pytest.importorskip("h5py", reason="needs h5py, which Keras brings")
POSITIONS = np.array([[1, 3], [0, 6]], "int32")


def draw(config, *heads):
    """Random weights of the encoder, the pooler and some heads, by name."""
    generator = np.random.default_rng(6)
    parts = ("embeddings", "encoder", "pooler", *heads)
    drawn = {}
    for name, shape in names.shapes(config).items():
        if name.split(".")[0] in parts:
            shape = [config.num_labels if size is None else size for size in shape]
            drawn[name] = 0.3 * generator.standard_normal(shape, "float32")
    return drawn


@pytest.mark.parametrize("heads", [(), ("classifier",), ("predictions",)], ids=str)
@pytest.mark.parametrize(("groups", "inner"), [(1, 1), (3, 2)])
def test_weights_and_configuration(small_config, tmp_path, heads, groups, inner):
    config = dataclasses.replace(small_config, num_hidden_groups=groups, inner_group_num=inner)
    config = config if heads == ("classifier",) else dataclasses.replace(config, id2label=None)
    tensors = draw(config, *heads)
    write_preset(tmp_path, config, tensors)
    assert find(tmp_path).format == "keras-hub"
    found = find(tmp_path).read()
    assert found.config == config
    assert found.tensors.keys() == tensors.keys()
    for name in tensors:
        np.testing.assert_array_equal(found.tensors[name], tensors[name], err_msg=name)


@pytest.fixture
def preset(small_config, tmp_path):
    write_preset(tmp_path, small_config, draw(small_config, "classifier"))
    return tmp_path


def change(path, edit):
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def test_names_of_earlier_releases(preset, small_config):
    expected = find(preset).read().tensors
    for name in ("config.json", "task.json"):
        text = (preset / name).read_text()
        (preset / name).write_text(text.replace('"AlbertBackbone"', '"keras_nlp>AlbertBackbone"'))
    with h5py.File(preset / "model.weights.h5", "a") as file:
        file.move("layers", "_layer_checkpoint_dependencies")
        attention = file["_layer_checkpoint_dependencies/transformer_encoder/_self_attention_layer"]
        attention.move("query_dense", "_query_dense")
        for layer in file["_layer_checkpoint_dependencies"].values():
            del layer["vars"].attrs["name"]
    found = find(preset).read()
    assert found.config == small_config
    for name in expected:
        np.testing.assert_array_equal(found.tensors[name], expected[name])


def test_a_variable_that_is_unknown_keeps_its_name(preset):
    with h5py.File(preset / "model.weights.h5", "a") as file:
        file["layers/adapter/vars/0"] = np.zeros(2, "float32")
    assert find(preset).read().tensors["layers/adapter/vars/0"].shape == (2,)


def test_weights_of_another_shape_are_listed_when_loaded(preset):
    change(preset / "config.json", lambda content: content["config"].update(hidden_dim=40))
    from albert_tf.models import AlbertModel

    with pytest.raises(UserError, match="pooler.weight is .20, 20. in the checkpoint, .40, 40."):
        AlbertModel.from_pretrained(preset)


@pytest.mark.parametrize(
    "file", ["config.json", "task.json", "model.weights.h5", "task.weights.h5"]
)
def test_a_truncated_file(preset, file):
    (preset / file).write_bytes((preset / file).read_bytes()[:-9])
    with pytest.raises(UserError, match=f"{file} must be .*Received|a whole checkpoint. Received"):
        find(preset).read()


@pytest.mark.parametrize("file", ["model.weights.h5", "task.weights.h5"])
def test_a_preset_gives_no_content_of_other_files(preset, file):
    (preset / "private.txt").write_bytes(b"s" * 80)
    with h5py.File(preset / file, "a") as weights:
        group = weights["layers/dense/vars"]
        del group["1"]
        group.create_dataset("1", (20,), "float32", external=[(str(preset / "private.txt"), 0, 80)])
    with pytest.raises(UserError, match="whose layers/dense/vars/1 is in another file. Nothing"):
        convert(preset, preset.parent / "converted", format="hf")
    assert not (preset.parent / "converted").exists()


@pytest.mark.parametrize("change", [{"num_classes": 10**9}, {"num_classes": None}, {"dropout": []}])
def test_a_task_with_other_numbers(preset, change):
    content = json.loads((preset / "task.json").read_text())
    content["config"] |= change
    (preset / "task.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=f"{preset.name} must hold a whole checkpoint. .* must be"):
        find(preset).read()


@pytest.mark.parametrize("file", ["config.json", "model.weights.h5"])
def test_a_missing_file(preset, file):
    (preset / file).unlink()
    with pytest.raises(UserError, match=f"must hold {file}. Received .*, without it"):
        find(preset).read()
    (preset / "model.weights.json").write_text("{}")
    with pytest.raises(UserError, match="Presets in shards are not read"):
        find(preset).read()


def test_layers_are_numbered_in_the_order_of_the_graph(small_config):
    config = dataclasses.replace(small_config, num_hidden_groups=3, inner_group_num=2)
    paths = [
        keras_hub.layer_path(f"group_{group}_inner_layer_{inner}", config)
        for group in range(3)
        for inner in range(2)
    ]
    assert paths[:2] == ["transformer_encoder", "transformer_encoder_1"]
    assert paths[5] == "transformer_encoder_5"


def test_shapes_there_and_back(small_config):
    # As KerasHub 0.32 stored them for these sizes: H=20, A=5, H/A=4, I=24, E=6.
    expected = {
        "attention.query.weight": (20, 5, 4),
        "attention.value.bias": (5, 4),
        "attention.dense.weight": (5, 4, 20),
        "attention.dense.bias": (20,),
        "ffn.weight": (20, 24),
    }
    prefix = "encoder.albert_layer_groups.0.albert_layers.0."
    wanted = names.shapes(small_config)
    for name, place in keras_hub.backbone_weights(small_config).items():
        array = np.arange(np.prod(wanted[name]), dtype="float32").reshape(wanted[name])
        there = stored(place, array, small_config)
        np.testing.assert_array_equal(place.from_keras_hub(there, small_config), array)
        short = name.removeprefix(prefix)
        assert there.shape == expected.pop(short, there.shape)
    assert not expected


@pytest.fixture
def files(small_config, tmp_path):
    """Returns a function that writes a changed `config.json`, and gives it and a changed task."""

    def make(change_config=lambda content: None, change_task=lambda content: None):
        content = backbone_json(small_config)
        task = task_json(small_config, "AlbertTextClassifier")
        change_config(content)
        change_task(task)
        (tmp_path / "config.json").write_text(json.dumps(content))
        return tmp_path / "config.json", task

    return make


@pytest.mark.parametrize(
    ("activation", "problem_type"),
    [
        ("linear", None),
        (None, None),
        ("softmax", "single_label_classification"),
        ("sigmoid", "multi_label_classification"),
    ],
)
def test_a_classifiers_settings(files, activation, problem_type):
    changed = {"activation": activation, "dropout": 0.2, "num_classes": 4}
    config = keras_hub.to_config(*files(change_task=lambda c: c["config"].update(changed)))
    assert (config.problem_type, config.classifier_dropout_prob) == (problem_type, 0.2)
    assert config.labels == ("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(class_name="BertBackbone"), "of AlbertBackbone. Received.*BertBackb"),
        (lambda c: c["config"].update(colour=3), "with colour unknown and nothing missing"),
        (lambda c: c["config"].pop("num_heads"), "nothing unknown and num_heads missing"),
    ],
)
def test_configurations_that_are_no_alberts(files, change, message):
    with pytest.raises(UserError, match=message):
        keras_hub.to_config(*files(change))


@pytest.mark.parametrize(
    ("change", "received"),
    [
        (lambda c: c["config"].update(num_heads=3), "num_attention_heads=3"),
        (lambda c: c["config"].update(max_sequence_length=None), "max_position_embeddings=None"),
        (lambda c: c.pop("config"), "'config'"),
        (lambda c: c.update(config=3), "'int'"),
    ],
)
def test_a_damaged_configuration(preset, change, received):
    content = json.loads((preset / "config.json").read_text())
    change(content)
    (preset / "config.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=f"{preset.name} must hold a whole.*{received}.*Copy it"):
        find(preset).read()


def test_an_activation_after_the_logits(files):
    changed = files(change_task=lambda c: c["config"].update(activation="relu"))
    with pytest.raises(UserError, match="one of linear, softmax, sigmoid. Received: 'relu'"):
        keras_hub.to_config(*changed)


@pytest.fixture
def itself():
    return pytest.importorskip("keras_hub", reason="needs KerasHub (pip install keras-hub)")


@pytest.fixture
def features(small_features):
    renamed = {"input_ids": "token_ids", "attention_mask": "padding_mask"}
    renamed["token_type_ids"] = "segment_ids"
    return {theirs: small_features[ours] for ours, theirs in renamed.items()}


@pytest.fixture
def theirs(itself, scrambled):
    """Returns a function that makes a random model of KerasHub's."""

    def make(cls, groups=1, inner=1, **arguments):
        backbone = itself.models.AlbertBackbone(
            vocabulary_size=31,
            num_layers=6,
            num_heads=5,
            embedding_dim=6,
            hidden_dim=20,
            intermediate_dim=24,
            num_groups=groups,
            num_inner_repetitions=inner,
            max_sequence_length=11,
        )
        if cls == "AlbertBackbone":
            return scrambled(backbone)
        task = getattr(itself.models, cls)(backbone=backbone, preprocessor=None, **arguments)
        for weight in scrambled(backbone).weights:
            assert weight.path
        return scrambled(task)

    return make


def pair(cls):
    from albert_tf import models

    return {
        "AlbertBackbone": models.AlbertModel,
        "AlbertTextClassifier": models.AlbertForSequenceClassification,
        "AlbertMaskedLM": models.AlbertForMaskedLM,
    }[cls]


def assert_alike(ours, theirs, cls, small_features, features):
    if cls == "AlbertBackbone":
        found, expected = ours(small_features), theirs(features)
        pairs = [(found.pooler_output, expected["pooled_output"])]
        pairs.append((found.last_hidden_state, expected["sequence_output"]))
    elif cls == "AlbertMaskedLM":
        # Its head has 1e-5 whatever the model has; with ALBERT's 1e-12 all else must agree.
        theirs.masked_lm_head._intermediate_layer_norm.epsilon = 1e-12
        found = ours({**small_features, "masked_lm_positions": POSITIONS})
        pairs = [(found.logits, theirs({**features, "mask_positions": POSITIONS}))]
    else:
        pairs = [(ours(small_features).logits, theirs(features))]
    for found, expected in pairs:
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), atol=2e-5, rtol=0)


CASES = pytest.mark.parametrize(
    ("cls", "arguments"),
    [("AlbertBackbone", {}), ("AlbertTextClassifier", {"num_classes": 3}), ("AlbertMaskedLM", {})],
)


@pytest.mark.peers
@CASES
@pytest.mark.parametrize(("groups", "inner"), [(1, 1), (3, 2)])
def test_its_own_presets(theirs, small_features, features, tmp_path, cls, arguments, groups, inner):
    model = theirs(cls, groups, inner, **arguments)
    model.save_to_preset(str(tmp_path))
    ours = pair(cls).from_pretrained(tmp_path)
    assert_alike(ours, model, cls, small_features, features)

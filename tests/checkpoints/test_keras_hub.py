"""KerasHub presets; `tests/peers/test_keras_hub.py` compares with KerasHub's own models."""

import dataclasses
import json

import numpy as np
import pytest

from albert_tf.checkpoints import keras_hub
from albert_tf.checkpoints.finder import find
from albert_tf.errors import UserError
from albert_tf.models import AlbertForMaskedLM, AlbertModel
from tests.checkpoints.presets import write_preset
from tests.checkpoints.tensors import assert_equal, draw

h5py = pytest.importorskip("h5py", reason="needs h5py, which Keras brings")


@pytest.mark.parametrize(
    ("heads", "groups", "inner"), [((), 3, 2), (("classifier",), 1, 1), (("predictions",), 1, 1)]
)
def test_weights_and_configuration(small_config, tmp_path, heads, groups, inner):
    config = dataclasses.replace(small_config, num_hidden_groups=groups, inner_group_num=inner)
    config = config if heads == ("classifier",) else dataclasses.replace(config, id2label=None)
    tensors = draw(config, *heads)
    write_preset(tmp_path, config, tensors)
    assert find(tmp_path).format == "keras-hub"
    found = find(tmp_path).read()
    assert found.config == config
    assert_equal(found.tensors, tensors)


@pytest.fixture
def tensors(small_config):
    return draw(small_config, "classifier")


@pytest.fixture
def preset(small_config, tensors, tmp_path):
    write_preset(tmp_path, small_config, tensors)
    return tmp_path


def change(path, **settings):
    content = json.loads(path.read_text())
    content["config"] |= settings
    path.write_text(json.dumps(content))


def test_shapes_are_those_that_keras_hub_stores(preset):
    # As KerasHub 0.32 stored them for these sizes: H=20, A=5, H/A=4, I=24, E=6.
    expected = {
        "_self_attention_layer/query_dense/vars/0": (20, 5, 4),
        "_self_attention_layer/value_dense/vars/1": (5, 4),
        "_self_attention_layer/output_dense/vars/0": (5, 4, 20),
        "_self_attention_layer/output_dense/vars/1": (20,),
        "_feedforward_intermediate_dense/vars/0": (20, 24),
    }
    with h5py.File(preset / "model.weights.h5") as file:
        layer = file["layers/transformer_encoder"]
        assert {path: layer[path].shape for path in expected} == expected


def test_names_of_earlier_releases(preset, small_config, tensors):
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
    assert_equal(found.tensors, tensors)


def test_layers_are_numbered_in_the_order_of_the_graph(small_config):
    config = dataclasses.replace(small_config, num_hidden_groups=3, inner_group_num=2)
    weights = keras_hub.backbone_weights(config)
    for group, inner, layer, path in (
        (0, 0, "group_0_inner_layer_0", "transformer_encoder"),
        (0, 1, "group_0_inner_layer_1", "transformer_encoder_1"),
        (2, 1, "group_2_inner_layer_1", "transformer_encoder_5"),
    ):
        name = f"encoder.albert_layer_groups.{group}.albert_layers.{inner}.ffn.weight"
        assert weights[name][:2] == (layer, path)


def test_a_variable_that_is_unknown_keeps_its_name(preset, tensors):
    with h5py.File(preset / "model.weights.h5", "a") as file:
        file["layers/adapter/vars/0"] = np.zeros(2, "float32")
    expected = {**tensors, "layers/adapter/vars/0": np.zeros(2)}
    assert_equal(find(preset).read().tensors, expected)


def test_weights_of_another_shape_are_listed_when_loaded(preset):
    change(preset / "config.json", hidden_dim=40)
    with pytest.raises(UserError, match="pooler.weight is .20, 20. in .*, but .40, 40."):
        AlbertModel.from_pretrained(preset)


def test_a_preset_gives_no_content_of_other_files(preset):
    (preset / "private.txt").write_bytes(b"s" * 80)
    with h5py.File(preset / "task.weights.h5", "a") as weights:
        group = weights["layers/dense/vars"]
        del group["1"]
        group.create_dataset("1", (20,), "float32", external=[(str(preset / "private.txt"), 0, 80)])
    with pytest.raises(UserError, match="layers/dense/vars/1 is in another file. Nothing"):
        find(preset).read()


@pytest.mark.parametrize("file", ["config.json", "model.weights.h5"])
def test_a_missing_file(preset, file):
    (preset / file).unlink()
    with pytest.raises(UserError, match=f"{preset} contains no {file}"):
        find(preset).read()
    (preset / "model.weights.json").write_text("{}")
    with pytest.raises(UserError, match="Sharded presets"):
        find(preset).read()


def test_a_classifiers_settings(preset):
    for activation, problem_type in {
        "linear": None,
        None: None,
        "softmax": "single_label_classification",
        "sigmoid": "multi_label_classification",
    }.items():
        change(preset / "task.json", activation=activation, dropout=0.2, num_classes=4)
        config = find(preset).read().config
        assert (config.problem_type, config.classifier_dropout_prob) == (problem_type, 0.2)
        assert config.labels == ("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3")


@pytest.mark.parametrize(
    ("file", "settings", "message"),
    [
        ("config.json", {"colour": 3}, "Unknown: colour. Missing: none"),
        ("config.json", {"num_heads": 3}, "preset .* is invalid: .*num_attention_heads=3"),
        ("config.json", {"max_sequence_length": None}, "max_position_embeddings must be .*None"),
        ("task.json", {"activation": "relu"}, "linear, softmax, sigmoid. Received: 'relu'"),
        ("task.json", {"num_classes": 10**9}, "preset .* is invalid: num_labels .*1000000000"),
        ("task.json", {"dropout": []}, r"preset .* is invalid: classifier_dropout_prob .*\[\]"),
    ],
)
def test_settings_that_are_refused(preset, file, settings, message):
    change(preset / file, **settings)
    with pytest.raises(UserError, match=message):
        find(preset).read()


def test_configurations_of_other_models(preset):
    text = (preset / "config.json").read_text()
    for old, new, message in (
        ("AlbertBackbone", "BertBackbone", "an AlbertBackbone. Received: BertBackbone"),
        ('"num_heads"', '"name"', "Unknown: none. Missing: num_heads"),
        ('"config": ', '"config": 3, "of another format": ', "read as a checkpoint.*'int'.*Copy"),
    ):
        (preset / "config.json").write_text(text.replace(old, new))
        with pytest.raises(UserError, match=message):
            find(preset).read()


@pytest.mark.peers
def test_its_masked_language_model(scrambled, small_features, tmp_path):
    itself = pytest.importorskip("keras_hub", reason="needs KerasHub (pip install keras-hub)")
    backbone = itself.models.AlbertBackbone(
        vocabulary_size=31,
        num_layers=6,
        num_heads=5,
        embedding_dim=6,
        hidden_dim=20,
        intermediate_dim=24,
        num_groups=3,
        num_inner_repetitions=2,
        max_sequence_length=11,
    )
    scrambled(backbone)
    theirs = scrambled(itself.models.AlbertMaskedLM(backbone=backbone, preprocessor=None))
    theirs.save_to_preset(str(tmp_path))
    # Its head has 1e-5 whatever the model has; with ALBERT's 1e-12 all else must agree.
    theirs.masked_lm_head._intermediate_layer_norm.epsilon = 1e-12
    positions = np.array([[1, 3], [0, 6]], "int32")
    expected = theirs(
        {
            "token_ids": small_features["input_ids"],
            "padding_mask": small_features["attention_mask"],
            "segment_ids": small_features["token_type_ids"],
            "mask_positions": positions,
        }
    )
    ours = AlbertForMaskedLM.from_pretrained(tmp_path)
    found = ours({**small_features, "masked_lm_positions": positions}).logits
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), atol=2e-5, rtol=0)

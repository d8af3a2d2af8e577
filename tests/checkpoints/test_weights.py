import dataclasses
import json

import numpy as np
import pytest
import safetensors.numpy

from albert_tf import models
from albert_tf.checkpoints import hugging_face, names, weights
from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification, AlbertModel

CLASSES = [getattr(models, name) for name in models.__all__ if name.startswith("Albert")]


def faults(config, tensors):
    wanted = names.shapes(config)
    known = {name: tensor for name, tensor in tensors.items() if name in wanted}
    return [*weights.misfits(config, wanted, tensors), *weights.bad_values(known, "here")]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_shapes_are_the_models(small_config, cls):
    config = dataclasses.replace(
        small_config,
        num_hidden_groups=3,
        inner_group_num=2,
        answerability=cls is models.AlbertForQuestionAnswering,
    )
    model = cls(config)
    tensors = weights.extract(model)
    assert len(tensors) == len(model.weights)
    assert faults(model.config, tensors) == []


def test_a_model_without_pooler_has_no_name_for_one(small_config):
    assert "pooler.weight" in names.weights(AlbertModel(small_config))
    assert "pooler.weight" not in names.weights(AlbertModel(small_config, add_pooling_layer=False))


@pytest.fixture
def saved(small_config, scrambled, tmp_path):
    model = scrambled(AlbertForSequenceClassification(small_config))
    model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def rewrite(folder, change):
    tensors = safetensors.numpy.load_file(folder / hugging_face.WEIGHTS)
    change(tensors)
    safetensors.numpy.save_file(tensors, folder / hugging_face.WEIGHTS)


def test_other_files_stay(saved, small_config):
    (saved / "spiece.model").write_bytes(b"vocabulary")
    AlbertForSequenceClassification(small_config).save_pretrained(saved)
    assert sorted(path.name for path in saved.iterdir()) == [
        "config.json",
        "model.safetensors",
        "spiece.model",
    ]


def test_backbone_of_a_task_model_and_back(saved, tmp_path, small_features, caplog):
    task = AlbertForSequenceClassification.from_pretrained(saved)
    with caplog.at_level("INFO"):
        backbone = AlbertModel.from_pretrained(saved)
    assert "no part of this model: classifier" in caplog.text
    np.testing.assert_array_equal(
        backbone(small_features).pooler_output, task.albert(small_features).pooler_output
    )
    backbone.save_pretrained(tmp_path / "backbone")
    caplog.clear()
    AlbertForSequenceClassification.from_pretrained(tmp_path / "backbone")
    assert "newly initialized: classifier" in caplog.text


def test_overrides(saved):
    model = AlbertForSequenceClassification.from_pretrained(
        saved, hidden_dropout_prob=0.3, dtype="mixed_bfloat16"
    )
    assert model.config.hidden_dropout_prob == 0.3
    assert model.dtype_policy.name == "mixed_bfloat16"
    with pytest.raises(TypeError, match="Unknown option colour: .* a field of AlbertConfig"):
        AlbertForSequenceClassification.from_pretrained(saved, colour="blue")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda tensors: tensors.pop("albert.embeddings.LayerNorm.bias"),
            r"missing from the checkpoint: embeddings.LayerNorm.bias \(6,\)",
        ),
        (
            lambda tensors: tensors.pop("classifier.bias"),
            r"missing from the checkpoint: classifier.bias \(3,\)",
        ),
        (lambda tensors: tensors.update(extra=np.zeros(2)), r"unknown to the model: extra \(2,\)"),
        (
            lambda tensors: tensors.update({"albert.pooler.weight": np.zeros((4, 20), "float32")}),
            r"another shape: pooler.weight is \(4, 20\) in the checkpoint, \(20, 20\) by the "
            r"configuration",
        ),
        (
            lambda tensors: tensors.update({"albert.pooler.bias": np.full(20, np.nan, "float32")}),
            "not finite: pooler.bias",
        ),
    ],
)
def test_weights_that_do_not_fit(saved, change, message):
    rewrite(saved, change)
    with pytest.raises(UserError, match=message) as raised:
        AlbertForSequenceClassification.from_pretrained(saved)
    assert str(saved) in str(raised.value)


def test_a_configuration_that_does_not_fit_lists_both_sides(saved):
    config = json.loads((saved / hugging_face.CONFIG).read_text())
    (saved / hugging_face.CONFIG).write_text(
        json.dumps({**config, "vocab_size": 40, "num_hidden_groups": 2})
    )
    with pytest.raises(UserError) as raised:
        AlbertForSequenceClassification.from_pretrained(saved)
    assert (
        "word_embeddings.weight is (31, 6) in the checkpoint, (40, 6) by the configuration "
        "(vocab_size)" in str(raised.value)
    )
    assert "missing from the checkpoint: encoder.albert_layer_groups.1" in str(raised.value)


def test_shapes_are_compared_before_a_model_is_made(saved):
    config = json.loads((saved / hugging_face.CONFIG).read_text())
    terabytes = {"vocab_size": 10_000_000, "hidden_size": 65_535}
    (saved / hugging_face.CONFIG).write_text(json.dumps({**config, **terabytes}))
    with pytest.raises(UserError, match=r"pooler.weight is \(20, 20\) in the checkpoint"):
        AlbertForSequenceClassification.from_pretrained(saved)


@pytest.mark.parametrize("dtype", ["complex64", "bool", "int8"])
def test_weights_that_are_no_floats(small_config, dtype):
    tensors = weights.extract(AlbertModel(small_config))
    tensors["pooler.bias"] = tensors["pooler.bias"].astype(dtype)
    assert faults(small_config, tensors) == [f"not floating-point: pooler.bias, {dtype}"]


def test_large_weights_are_named_in_a_warning(saved, caplog):
    rewrite(saved, lambda tensors: tensors["albert.pooler.bias"].__setitem__(3, -2e6))
    AlbertForSequenceClassification.from_pretrained(saved)
    assert (
        "weights larger than 1e+06, which training does not produce: pooler.bias (2e+06)"
        in caplog.text
    )


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e300, -1e300])
def test_weights_beyond_float32(value):
    tensors = {"x": np.array([0.5, value, -0.5])}
    assert weights.bad_values(tensors, "here") == ["not finite: x"]


def test_a_head_of_another_size_names_the_way_out(saved):
    load = AlbertForSequenceClassification.from_pretrained
    with pytest.raises(UserError, match="ignore_mismatched_sizes=True to initialize classifier"):
        load(saved, num_labels=5)
    assert load(saved, num_labels=5, ignore_mismatched_sizes=True).newly_initialized == [
        "classifier"
    ]

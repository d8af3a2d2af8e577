import json

import numpy as np
import pytest
import safetensors.numpy

from albert_tf import models
from albert_tf.checkpoints import hugging_face, names, weights
from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification, AlbertModel
from tests.checkpoints.tensors import draw

CLASSES = [getattr(models, name) for name in models.__all__ if name.startswith("Albert")]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_shapes_are_the_models(small_config, cls):
    """The cases of heads use the smallest encoder, because the encoder has its own cases."""
    several = 2 if cls is AlbertModel else 1
    config = small_config.replace(
        num_hidden_layers=several,
        num_hidden_groups=several,
        inner_group_num=several,
        answerability=cls is models.AlbertForQuestionAnswering,
    )
    model = cls(config)
    tensors = weights.extract(model)
    assert len(tensors) == len(model.weights)
    assert not [*weights.misfits(model.config, names.shapes(model.config), tensors)]


@pytest.fixture
def saved(small_config, tmp_path):
    tensors = draw(small_config, "classifier")
    hugging_face.write(tmp_path / "model", small_config, tensors)
    return tmp_path / "model"


def test_backbone_of_a_task_model_and_back(saved, tmp_path, small_features, caplog):
    task = AlbertForSequenceClassification.from_pretrained(saved)
    with caplog.at_level("INFO"):
        backbone = AlbertModel.from_pretrained(saved)
    assert "this model lacks, which were ignored: classifier" in caplog.text
    np.testing.assert_array_equal(
        backbone(small_features).pooler_output, task.albert(small_features).pooler_output
    )
    backbone.save_pretrained(tmp_path / "backbone")
    caplog.clear()
    again = AlbertForSequenceClassification.from_pretrained(tmp_path / "backbone")
    assert again.newly_initialized == ["classifier"]
    assert "which were newly initialized: classifier" in caplog.text


def test_overrides(saved):
    model = AlbertForSequenceClassification.from_pretrained(
        saved, hidden_dropout_prob=0.3, dtype="mixed_bfloat16"
    )
    assert model.config.hidden_dropout_prob == 0.3
    assert model.dtype_policy.name == "mixed_bfloat16"
    with pytest.raises(TypeError, match="Unknown option colour: .* a field of AlbertConfig"):
        AlbertForSequenceClassification.from_pretrained(saved, colour="blue")


def zeros(*shape):
    return np.zeros(shape, "float32")


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("albert.embeddings.LayerNorm.bias", None, r"missing .*: embeddings.LayerNorm.bias \(6,\)"),
        ("classifier.bias", None, r"missing .*: classifier.bias \(3,\)"),
        ("extra", zeros(2), r"unknown to the model: extra \(2,\)"),
        ("albert.pooler.weight", zeros(4, 20), r"pooler.weight is \(4, 20\) .*, but \(20, 20\)"),
        ("albert.pooler.bias", np.nan * zeros(20), "not finite: pooler.bias"),
    ],
)
def test_weights_that_do_not_fit(saved, name, tensor, message):
    tensors = safetensors.numpy.load_file(saved / "model.safetensors")
    tensors[name] = tensor
    stored = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    safetensors.numpy.save_file(stored, saved / "model.safetensors")
    with pytest.raises(UserError, match=message) as raised:
        AlbertForSequenceClassification.from_pretrained(saved)
    assert str(saved) in str(raised.value)


def test_a_configuration_that_does_not_fit_lists_both_sides(saved):
    """Shapes are compared before a model is built, which would take terabytes."""
    config = json.loads((saved / "config.json").read_text())
    config |= {"vocab_size": 10_000_000, "hidden_size": 65_535, "num_hidden_groups": 2}
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError) as raised:
        AlbertForSequenceClassification.from_pretrained(saved)
    assert (
        "word_embeddings.weight is (31, 6) in the checkpoint, but (10000000, 6) according to the "
        "configuration (vocab_size)" in str(raised.value)
    )
    assert "missing from the checkpoint: encoder.albert_layer_groups.1" in str(raised.value)


def test_values_that_are_no_weights(caplog):
    def problems(array):
        return weights.bad_values({"x": array}, "here")

    for value in (np.inf, -np.inf, np.nan, 1e300, -1e300):  # the last two are beyond float32
        assert problems(np.array([0.5, value, -0.5])) == ["not finite: x"]
    for dtype in ("complex64", "bool", "int8"):
        assert problems(np.ones(2, dtype)) == [f"not floating-point: x, {dtype}"]
    assert not caplog.text
    assert problems(np.array([0.5, -2e6])) == []
    assert "here contains weights above 1e+06" in caplog.text and ": x (2e+06)" in caplog.text


def test_a_head_of_another_size_names_the_way_out(saved):
    load = AlbertForSequenceClassification.from_pretrained
    with pytest.raises(
        UserError, match="ignore_mismatched_sizes=True to newly initialize classifier"
    ):
        load(saved, num_labels=5)
    model = load(saved, num_labels=5, ignore_mismatched_sizes=True)
    assert model.newly_initialized == ["classifier"]

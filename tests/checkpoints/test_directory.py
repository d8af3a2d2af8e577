import json

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.checkpoints import hugging_face
from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification, AlbertModel


@pytest.fixture
def saved(small_config, scrambled, tmp_path):
    model = scrambled(AlbertForSequenceClassification(small_config))
    model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def rewrite(folder, change):
    tensors = safetensors.numpy.load_file(folder / hugging_face.WEIGHTS)
    change(tensors)
    safetensors.numpy.save_file(tensors, folder / hugging_face.WEIGHTS)


def test_round_trip_is_bit_equal(saved, tmp_path, small_features):
    model = AlbertForSequenceClassification.from_pretrained(saved)
    model.save_pretrained(tmp_path / "again")
    for name in (hugging_face.CONFIG, hugging_face.WEIGHTS):
        assert (saved / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert json.loads((saved / hugging_face.CONFIG).read_text())["architectures"] == [
        "AlbertForSequenceClassification"
    ]


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
    with pytest.raises(TypeError, match="a field of AlbertConfig. Received: colour"):
        AlbertForSequenceClassification.from_pretrained(saved, colour="blue")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_on_disk(saved, small_features, dtype):
    expected = AlbertModel.from_pretrained(saved)(small_features).pooler_output
    import ml_dtypes

    stored = getattr(ml_dtypes, dtype, None) or np.dtype(dtype)
    rewrite(
        saved,
        lambda tensors: tensors.update(
            {name: value.astype(stored) for name, value in tensors.items()}
        ),
    )
    found = AlbertModel.from_pretrained(saved)
    assert found.embedding.word_embeddings.dtype == "float32"
    np.testing.assert_allclose(found(small_features).pooler_output, expected, atol=0.05)


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


def test_a_truncated_file(saved):
    path = saved / hugging_face.WEIGHTS
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="must be a whole safetensors file. Received .* bytes"):
        AlbertModel.from_pretrained(saved)


@pytest.mark.parametrize("missing", [hugging_face.CONFIG, hugging_face.WEIGHTS])
def test_a_directory_that_is_no_model(saved, missing):
    (saved / missing).unlink()
    with pytest.raises(UserError, match=f"must hold {missing}. Received .*, which holds "):
        AlbertModel.from_pretrained(saved)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "neither a directory here nor such a name"),
        ("/missing/too/deep", "neither a directory here nor such a name"),
        ("./missing/model", "neither a directory here nor such a name"),
    ],
)
def test_a_path_that_is_not_there(name, message):
    with pytest.raises(UserError, match=message):
        AlbertModel.from_pretrained(name)


def test_a_file_in_place_of_a_directory(saved):
    with pytest.raises(UserError, match="A model is a directory .*Received a file"):
        AlbertModel.from_pretrained(saved / hugging_face.CONFIG)


def test_a_hub_name_without_network_names_the_cache(tmp_path):
    with pytest.raises(
        UserError, match=f"albert/albert-base-v2 is no directory here.*cache {tmp_path}"
    ):
        AlbertModel.from_pretrained(
            "albert/albert-base-v2", cache_dir=tmp_path, local_files_only=True
        )


def test_a_full_disk_leaves_the_old_model(saved, small_config, monkeypatch):
    before = (saved / hugging_face.WEIGHTS).read_bytes()

    def full(tensors, path, metadata):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.numpy, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        AlbertForSequenceClassification(small_config).save_pretrained(saved)
    assert (saved / hugging_face.WEIGHTS).read_bytes() == before
    assert sorted(path.name for path in saved.iterdir()) == [
        hugging_face.CONFIG,
        hugging_face.WEIGHTS,
    ]

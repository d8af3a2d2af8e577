import functools
import json

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.checkpoints import conversion
from albert_tf.checkpoints.finder import find
from albert_tf.models import (
    AlbertForMaskedLM,
    AlbertForPreTraining,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
    AlbertModel,
)
from tests.checkpoints.presets import write_preset


@pytest.fixture
def convert(run):
    return functools.partial(run, "convert")


@pytest.fixture
def saved(small_config, scrambled, tmp_path):
    """Returns a function that writes a model directory with the tokenizer's files."""

    def save(cls, **options):
        folder = tmp_path / "in"
        scrambled(cls(small_config, **options)).save_pretrained(folder)
        (folder / "spiece.model").write_bytes(b"vocabulary")
        (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
        (folder / "tokenizer.json").write_text("{}")
        (folder / "README.md").write_text("stays")
        return folder

    return save


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (AlbertModel, {}),
        (AlbertForPreTraining, {}),
        (AlbertForMaskedLM, {}),
        (AlbertForSequenceClassification, {}),
        (AlbertForTokenClassification, {}),
        (AlbertForQuestionAnswering, {}),
        (AlbertForQuestionAnswering, {"answerability": True}),
    ],
)
def test_to_tensorflow_1_and_back_is_bit_equal(convert, saved, tmp_path, cls, options):
    folder = saved(cls, **options)
    assert convert(folder, tmp_path / "tf1", "--format", "tf1")[0] == 0
    assert convert(tmp_path / "tf1", tmp_path / "back", "--format", "hf")[0] == 0
    names = ["model.safetensors", "spiece.model", "tokenizer.json", "tokenizer_config.json"]
    for name in names:
        assert (tmp_path / "back" / name).read_bytes() == (folder / name).read_bytes(), name
    found = {path.name for path in (tmp_path / "back").iterdir()}
    assert found == {"config.json", *names}
    configs = [
        json.loads((each / "config.json").read_text()) for each in (folder, tmp_path / "back")
    ]
    assert configs[0]["architectures"] == configs[1]["architectures"] == [cls.__name__]
    assert (tmp_path / "tf1" / "30k-clean.model").read_bytes() == b"vocabulary"


def test_the_report(saved, small_config, tmp_path, convert):
    folder = saved(AlbertForPreTraining)
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    parameters = sum(tensor.size for tensor in tensors.values())
    report = conversion.convert(folder, tmp_path / "tf1", format="tf1")
    assert report == {
        "input": f"{folder} (model.safetensors)",
        "output": str(tmp_path / "tf1"),
        "tensors": len(tensors),
        "parameters": parameters,
        "files": ["30k-clean.model", "tokenizer.json", "tokenizer_config.json"],
        "left_out": [],
    }
    _, output, _ = convert(tmp_path / "tf1", tmp_path / "hf", "--format", "hf")
    assert f"{tmp_path / 'hf'}: {len(tensors)} tensors, {parameters:,} parameters" in output
    assert "copied    spiece.model" in output


def test_a_preset_of_keras_hub(convert, saved, tmp_path, small_config):
    folder = saved(AlbertForSequenceClassification)
    write_preset(tmp_path / "preset", small_config, find(folder).read().tensors)
    vocabulary = tmp_path / "preset" / "assets" / "tokenizer" / "vocabulary.spm"
    vocabulary.parent.mkdir(parents=True)
    vocabulary.write_bytes(b"vocabulary")
    (tmp_path / "preset" / "tokenizer.json").write_text("{}")  # KerasHub's own format
    assert convert(tmp_path / "preset", tmp_path / "back", "--format", "hf")[0] == 0
    for name in ("config.json", "model.safetensors", "spiece.model"):
        assert (tmp_path / "back" / name).read_bytes() == (folder / name).read_bytes(), name
    assert not (tmp_path / "back" / "tokenizer.json").exists()


def test_a_name_on_the_hub_brings_its_vocabulary(convert, saved, tmp_path, monkeypatch):
    import huggingface_hub

    folder = saved(AlbertModel)
    (folder / "README.md").unlink()
    served = {path.name: path.read_bytes() for path in folder.iterdir()}

    def download(name, filename, **options):
        path = tmp_path / "cache" / "snapshots" / "a-commit" / filename
        if filename not in served:
            error = huggingface_hub.errors.RemoteEntryNotFoundError
            raise error.__new__(error)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(served[filename])
        return str(path)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.chdir(tmp_path)
    status, _, errors = convert("albert-base-v2", "out", "--format", "hf")
    assert status == 0, errors
    assert (tmp_path / "out" / "spiece.model").read_bytes() == b"vocabulary"


def test_other_formats_drop_labels(convert, saved, small_config, tmp_path):
    folder = saved(AlbertForSequenceClassification)
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {"0": "no", "1": "maybe", "2": "yes"}
    (folder / "config.json").write_text(json.dumps({**config, "label2id": None}))
    _, output, _ = convert(folder, tmp_path / "tf1", "--format", "tf1")
    assert "left out  labels' names: no place for it there" in output
    _, output, _ = convert(folder, tmp_path / "hf", "--format", "hf")
    assert "left out" not in output


def test_every_tensor_is_in_the_report(convert, saved, tmp_path):
    folder = saved(AlbertForSequenceClassification)
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    del tensors["albert.pooler.bias"]
    tensors["classifier.bias"].fill(np.nan)
    more = {"extra": np.zeros(2), "albert.pooler.weight": np.zeros((3, 20), "float32")}
    safetensors.numpy.save_file({**tensors, **more}, folder / "model.safetensors")
    status, output, errors = convert(folder, tmp_path / "out", "--format", "tf1")
    assert (status, output) == (2, "")
    for message in (
        "unknown to the model: extra (2,)",
        "missing from the checkpoint: pooler.bias",
        "another shape: pooler.weight",
    ):
        assert message in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]  # nothing half-written


def test_the_output_is_replaced_with_force_alone(convert, saved, tmp_path):
    folder = saved(AlbertModel)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("")
    status, _, errors = convert(folder, tmp_path / "out", "--format", "hf")
    assert (status, "must not exist yet" in errors) == (2, True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]
    assert convert(folder, tmp_path / "out", "--format", "hf", "--force")[0] == 0
    assert not (tmp_path / "out" / "mine").exists()


@pytest.mark.parametrize("output", ["in", "."])
def test_the_input_is_never_replaced(convert, saved, tmp_path, output):
    folder = saved(AlbertModel)
    before = sorted(path.name for path in folder.iterdir())
    status, _, errors = convert(folder, tmp_path / output, "--format", "tf1", "--force")
    assert status == 2
    assert "must not be the input's folder or one around it" in errors
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{tmp}/none", "{tmp}/out", "--format", "hf"), "neither a directory here nor such a name"),
        (("{tmp}", "{tmp}/out", "--format", "hf"), "must hold config.json. Received"),
        (("in", "out", "--format", "onnx"), "format must be hf or tf1. Received: 'onnx'."),
    ],
)
def test_a_users_mistake_is_status_2(convert, tmp_path, arguments, message):
    status, output, errors = convert(*(argument.format(tmp=tmp_path) for argument in arguments))
    assert (status, output) == (2, "")
    assert errors.startswith("albert-tf: error: ")
    assert message in errors


def test_to_half_precision(convert, saved, tmp_path):
    folder = saved(AlbertForPreTraining)
    half = tmp_path / "half"
    status, _, said = convert(folder, half, "--format", "hf", "--dtype", "float16")
    assert status == 0, said
    whole, found = (
        safetensors.numpy.load_file(path / "model.safetensors") for path in (folder, half)
    )
    assert {str(tensor.dtype) for tensor in found.values()} == {"float16"}
    for name, tensor in whole.items():
        np.testing.assert_array_equal(found[name], tensor.astype("float16"), err_msg=name)
    model = AlbertForPreTraining.from_pretrained(half)
    assert {variable.dtype for variable in model.trainable_variables} == {"float32"}


def test_half_precision_out_of_range(convert, saved, tmp_path):
    folder, out = saved(AlbertModel), tmp_path / "out"
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    tensors["pooler.bias"][0] = 1e5
    safetensors.numpy.save_file(tensors, path)
    status, _, said = convert(folder, out, "--format", "hf", "--dtype", "float16")
    assert status == 2 and "range of float16. Received: pooler.bias" in said
    assert not out.exists()

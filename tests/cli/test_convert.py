import functools
import json

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.checkpoints import hugging_face
from albert_tf.checkpoints.finder import find
from albert_tf.files import check_own
from albert_tf.models import AlbertForPreTraining
from albert_tf.outputs import GOOGLE_CHECKPOINT, MODEL
from tests.checkpoints.presets import write_preset
from tests.checkpoints.tensors import draw

PRETRAINING = ("AlbertForPreTraining", "predictions", "sop_classifier")
CLASSIFIER = ("AlbertForSequenceClassification", "classifier")


@pytest.fixture
def convert(run):
    return functools.partial(run, "convert")


@pytest.fixture
def saved(small_config, tmp_path):
    """Returns a function that writes a model directory with the tokenizer's files."""

    def save(class_name="AlbertModel", *heads, **fields):
        folder, config = tmp_path / "in", small_config.replace(**fields)
        hugging_face.write(folder, config, draw(config, *heads), class_name)
        (folder / "spiece.model").write_bytes(b"vocabulary")
        (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
        (folder / "tokenizer.json").write_text("{}")
        (folder / "README.md").write_text("stays")
        return folder

    return save


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (("AlbertModel",), {}),
        (PRETRAINING, {}),
        (CLASSIFIER, {}),
        (
            ("AlbertForQuestionAnswering", "start_logits", "end_logits", "answer_class"),
            {"answerability": True},
        ),
    ],
)
def test_to_tensorflow_1_and_back_is_bit_equal(convert, saved, tmp_path, model, fields):
    folder, tf1, back = saved(*model, **fields), tmp_path / "tf1", tmp_path / "back"
    assert convert(folder, tf1, "--format", "tf1")[0] == 0
    _, output, _ = convert(tf1, back, "--format", "hf")
    check_own(tf1, GOOGLE_CHECKPOINT)
    check_own(back, MODEL)
    names = ["model.safetensors", "spiece.model", "tokenizer.json", "tokenizer_config.json"]
    for name in names:
        assert (back / name).read_bytes() == (folder / name).read_bytes(), name
    assert {path.name for path in back.iterdir()} == {"config.json", *names}
    config = json.loads((back / "config.json").read_text())
    assert config["architectures"] == [model[0]]
    assert (tf1 / "30k-clean.model").read_bytes() == b"vocabulary"
    sizes = [each.size for each in find(folder).read().tensors.values()]
    assert f"{back}: {len(sizes)} tensors, {sum(sizes):,} parameters" in output
    assert "copied    spiece.model" in output


def test_a_preset_of_keras_hub(convert, saved, tmp_path, small_config):
    folder = saved(*CLASSIFIER)
    write_preset(tmp_path / "preset", small_config, find(folder).read().tensors)
    vocabulary = tmp_path / "preset" / "assets" / "tokenizer" / "vocabulary.spm"
    vocabulary.parent.mkdir(parents=True)
    vocabulary.write_bytes(b"vocabulary")
    (tmp_path / "preset" / "tokenizer.json").write_text("{}")  # KerasHub's own format
    assert convert(tmp_path / "preset", tmp_path / "back", "--format", "hf")[0] == 0
    for name in ("config.json", "model.safetensors", "spiece.model"):
        assert (tmp_path / "back" / name).read_bytes() == (folder / name).read_bytes(), name
    assert not (tmp_path / "back" / "tokenizer.json").exists()


def test_other_formats_drop_labels(convert, saved, tmp_path):
    folder = saved(*CLASSIFIER)
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {"0": "no", "1": "maybe", "2": "yes"}
    (folder / "config.json").write_text(json.dumps({**config, "label2id": None}))
    _, output, _ = convert(folder, tmp_path / "tf1", "--format", "tf1")
    assert "left out  label names: " in output
    _, output, _ = convert(folder, tmp_path / "hf", "--format", "hf")
    assert "left out" not in output


def test_weights_that_do_not_fit_are_all_listed(convert, saved, tmp_path):
    folder = saved()
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    del tensors["pooler.bias"]
    tensors["extra"] = np.zeros(2)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    status, output, errors = convert(folder, tmp_path / "out", "--format", "tf1")
    assert (status, output) == (2, "")
    assert "unknown to the model: extra (2,)" in errors
    assert "missing from the checkpoint: pooler.bias" in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]  # nothing half-written


def test_the_input_is_never_replaced(convert, saved, tmp_path):
    folder = saved()
    before = sorted(path.name for path in folder.iterdir())
    status, _, errors = convert(folder, tmp_path, "--format", "tf1", "--force")
    assert status == 2
    assert "would replace the input" in errors
    assert sorted(path.name for path in folder.iterdir()) == before


def test_half_precision(convert, saved, tmp_path):
    folder, half = saved(*PRETRAINING), tmp_path / "half"
    options = ("--format", "hf", "--dtype", "float16")
    assert convert(folder, half, *options)[0] == 0
    whole = safetensors.numpy.load_file(folder / "model.safetensors")
    found = safetensors.numpy.load_file(half / "model.safetensors")
    for name, tensor in whole.items():
        assert found[name].dtype == "float16"
        np.testing.assert_array_equal(found[name], tensor.astype("float16"), err_msg=name)
    model = AlbertForPreTraining.from_pretrained(half)
    assert {variable.dtype for variable in model.trainable_variables} == {"float32"}
    whole["albert.pooler.bias"][0] = 1e5
    safetensors.numpy.save_file(whole, folder / "model.safetensors")
    status, _, errors = convert(folder, tmp_path / "out", *options)
    assert status == 2 and "range of float16: pooler.bias" in errors
    assert not (tmp_path / "out").exists()

import functools
import json
import re
import sys

import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from albert_tf import cli
from albert_tf.commands import export
from albert_tf.config import AlbertConfig
from albert_tf.models import CLASSES
from albert_tf.options import declared
from albert_tf.text.tokenizer import AlbertTokenizer


@pytest.fixture(scope="module")
def folder(tiny_vocabulary, tmp_path_factory):
    """Returns a function from a task to the directory of a model with random weights."""
    made = {}

    def make(task):
        if task not in made:
            made[task] = tmp_path_factory.mktemp(task)
            tokenizer = AlbertTokenizer(tiny_vocabulary, model_max_length=24)
            config = AlbertConfig.from_size("tiny", vocab_size=tokenizer.vocab_size)
            CLASSES[task](config).save_pretrained(made[task])
            tokenizer.save_pretrained(made[task])
        return made[task]

    return make


@pytest.fixture
def run(run):
    return functools.partial(run, "export")


def test_the_default_task_is_that_of_the_checkpoint(run, folder, tmp_path):
    pytest.importorskip("tensorflow_text")
    arguments = ("saved-model", "--model", folder("question-answering"), "--no-check")
    status, output, _ = run(*arguments, "--output", tmp_path / "1")
    assert (status, output) == (0, f"{tmp_path / '1'}: {output.split(': ')[1]}")
    text = tf.saved_model.load(tmp_path / "1").signatures["text"]
    assert set(text.structured_input_signature[1]) == {"text", "text_pair"}
    assert {"answer", "score", "start_byte"} <= set(text.structured_outputs)


def test_the_task_can_be_chosen(run, folder, tmp_path):
    arguments = ("tflite", "--model", folder("pretraining"), "--task", "masked-lm", "--no-check")
    arguments = (*arguments, "--ids-only", "--predictions", 2, "--output", tmp_path / "a")
    status, output, _ = run(*arguments)
    assert (status, output.split(": ")[0]) == (0, str(tmp_path / "a"))
    signatures = Interpreter(str(tmp_path / "a")).get_signature_list()
    assert list(signatures) == ["masked"]
    assert signatures["masked"]["outputs"] == ["logits"]


def test_a_head_that_was_never_trained(run, folder, tmp_path):
    arguments = ("tflite", "--model", folder("pretraining"), "--output", tmp_path / "a")
    status, _, errors = run(*arguments, "--task", "token-classification")
    assert status == 2
    assert "without weights for classifier of AlbertForTokenClassification. Fine-tune" in errors
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_without_a_class(run, folder, tmp_path):
    for path in folder("encoder").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    del config["architectures"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    output = tmp_path / "1"
    arguments = ("saved-model", "--model", tmp_path, "--ids-only", "--no-check")
    status, printed, _ = run(*arguments, "--output", output)
    assert status == 0
    assert str(output) in printed
    assert (output / "saved_model.pb").exists()


def test_shapes(run, folder, tmp_path, monkeypatch):
    pytest.importorskip("tensorflow_text")
    exported = {}
    monkeypatch.setattr(
        "albert_tf_export.export_tflite",
        lambda *given: exported.update(vars(given[-1])) or "a report",
    )
    arguments = ("tflite", "--model", folder("encoder"), "--output", tmp_path / "a.tflite")
    assert run(*arguments, "--lengths", "16,24", "32", "--batch", "dynamic")[0] == 0
    assert (exported["lengths"], exported["batch"]) == ((16, 24, 32), None)
    assert run(*arguments, "--max-length", 16, "--batch", 2)[:2] == (0, "a report\n")
    assert (exported["max_length"], exported["batch"]) == (16, 2)


@pytest.mark.parametrize(
    ("package", "extra", "arguments"),
    [
        ("tf2onnx", "onnx", ("onnx",)),
        ("tensorflow_serving", "serving", ("saved-model", "--warmup", "requests")),
    ],
)
def test_a_missing_package(package, extra, arguments, run, tmp_path, monkeypatch):
    """Is reported with the options, before TensorFlow is loaded."""
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("albert_tf.commands.export.check", None)
    status, _, errors = run(*arguments, "--model", "small", "--output", tmp_path / "a")
    assert (status, errors.count("\n")) == (2, 1)
    assert f"the extra {extra}. Received: no " in errors
    assert f"{package}. Run pip install 'albert_tf[{extra}]'." in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tflite", "--batch", "some"), "batch must be a whole number or dynamic. Received: 'some"),
        (("tflite", "--lengths", "16,a"), "lengths must be a whole number. Received: 'a'"),
        (("tflite", "--lengths", "16,0"), "lengths must be 1 or more. Received: 0"),
        (("saved-model", "--warmup", "none"), "warmup must be a file of requests. Received: none"),
    ],
)
def test_options_that_are_refused(run, tmp_path, arguments, message):
    status, _, errors = run(*arguments, "--model", "small", "--output", tmp_path / "a")
    assert (status, errors.count("\n")) == (2, 1)
    assert message in errors


FLAGS = {
    form: {each.name: each for each in declared(options).values() if each.name != "format"}
    for form, options in export.OPTIONS.items()
}


@pytest.mark.parametrize("form", FLAGS)
def test_the_help_has_the_flags_of_the_format(form, capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["export", form, "--help"])
    shown = re.findall(r"^  --([a-z-]+)", capsys.readouterr().out, re.MULTILINE)
    assert sorted(shown) == sorted(name.replace("_", "-") for name in FLAGS[form])


@pytest.mark.parametrize("name", ["saved-model", "tflite"])
def test_the_model_is_not_replaced(run, folder, name):
    model = folder("encoder")
    before = sorted(model.iterdir())
    status, _, errors = run(name, "--model", model, "--output", model, "--force")
    assert status == 2
    assert "must not be the input's folder or one around it" in errors
    assert sorted(model.iterdir()) == before

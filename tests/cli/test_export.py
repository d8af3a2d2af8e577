import functools
import sys

import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter


@pytest.fixture
def run(run):
    return functools.partial(run, "export")


def test_the_default_task_is_that_of_the_checkpoint(run, model_folder, tmp_path):
    pytest.importorskip("tensorflow_text")
    arguments = ("saved-model", "--model", model_folder("answer"), "--no-check")
    status, output, _ = run(*arguments, "--output", tmp_path / "1")
    assert (status, output.split(": ")[0]) == (0, str(tmp_path / "1"))
    text = tf.saved_model.load(tmp_path / "1").signatures["text"]
    assert set(text.structured_input_signature[1]) == {"text", "text_pair"}
    assert {"answer", "score", "start_byte"} <= set(text.structured_outputs)


def test_the_task_can_be_chosen(run, model_folder, tmp_path):
    arguments = ("tflite", "--model", model_folder("pretrain"), "--task", "masked-lm", "--no-check")
    arguments = (*arguments, "--ids-only", "--predictions", 2, "--output", tmp_path / "a")
    status, output, _ = run(*arguments)
    assert (status, output.split(": ")[0]) == (0, str(tmp_path / "a"))
    signatures = Interpreter(str(tmp_path / "a")).get_signature_list()
    assert list(signatures) == ["masked"]
    assert signatures["masked"]["outputs"] == ["logits"]


def test_a_head_that_was_never_trained(run, model_folder, tmp_path):
    arguments = ("tflite", "--model", model_folder("pretrain"), "--output", tmp_path / "a")
    status, _, errors = run(*arguments, "--task", "token-classification")
    assert status == 2
    assert "no weights for classifier of AlbertForTokenClassification. Fine-tune" in errors
    assert not list(tmp_path.iterdir())


def test_shapes(run, model_folder, tmp_path, monkeypatch):
    pytest.importorskip("tensorflow_text")
    exported = {}
    monkeypatch.setattr(
        "albert_tf_export.export_tflite",
        lambda *given: exported.update(vars(given[-1])) or "a report",
    )
    arguments = ("tflite", "--model", model_folder("embed"), "--output", tmp_path / "a.tflite")
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
    """The error comes with those of the options, before TensorFlow is loaded."""
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("albert_tf.cli.export.check", None)
    status, _, errors = run(*arguments, "--model", "small", "--output", tmp_path / "a")
    assert (status, errors.count("\n")) == (2, 1)
    assert f"{package}. Run pip install 'albert_tf[{extra}]'." in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tflite", "--batch", "some"), "batch must be a whole number or dynamic. Received: 'some"),
        (("saved-model", "--warmup", "none"), "must be a file with requests. Received: none"),
    ],
)
def test_options_that_are_refused(run, tmp_path, arguments, message):
    status, _, errors = run(*arguments, "--model", "small", "--output", tmp_path / "a")
    assert (status, errors.count("\n")) == (2, 1)
    assert message in errors


def test_the_model_is_not_replaced(run, model_folder):
    model = model_folder("embed")
    before = sorted(model.iterdir())
    status, _, errors = run("tflite", "--model", model, "--output", model, "--force")
    assert status == 2
    assert "would replace the input" in errors
    assert sorted(model.iterdir()) == before

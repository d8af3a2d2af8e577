import functools
import sys

import pytest
from ai_edge_litert.interpreter import Interpreter


@pytest.fixture
def run(run):
    return functools.partial(run, "export")


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


def test_the_task_of_the_checkpoint_and_shapes(run, model_folder, tmp_path, monkeypatch):
    pytest.importorskip("tensorflow_text")
    exported, models = {}, []
    monkeypatch.setattr(
        "albert_tf_export.export_tflite",
        lambda model, *given: (
            models.append(type(model).__name__) or exported.update(vars(given[-1])) or "a report"
        ),
    )
    output = ("--output", tmp_path / "a.tflite")
    assert run("tflite", "--model", model_folder("answer"), *output)[0] == 0
    arguments = ("tflite", "--model", model_folder("embed"), *output)
    assert run(*arguments, "--lengths", "16,24", "32", "--batch", "dynamic")[0] == 0
    assert (exported["lengths"], exported["batch"]) == ((16, 24, 32), None)
    assert run(*arguments, "--max-length", 16, "--batch", 2)[:2] == (0, "a report\n")
    assert (exported["max_length"], exported["batch"]) == (16, 2)
    assert models == ["AlbertForQuestionAnswering", "AlbertModel", "AlbertModel"]


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

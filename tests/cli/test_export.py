import functools
import sys

import pytest
from ai_edge_litert.interpreter import Interpreter


@pytest.fixture
def run(run):
    return functools.partial(run, "export")


@pytest.mark.parametrize(
    ("model", "options", "signature", "outputs"),
    [
        ("answer", (), "ids", ["end_logits", "start_logits"]),
        ("pretrain", ("--task", "masked-lm", "--predictions", 2), "masked", ["logits"]),
    ],
)
def test_the_task_is_that_of_the_checkpoint_or_chosen(
    run, model_folder, tmp_path, model, options, signature, outputs
):
    arguments = ("tflite", "--model", model_folder(model), "--no-check", "--ids-only", *options)
    status, output, _ = run(*arguments, "--output", tmp_path / "a")
    assert (status, output.split(": ")[0]) == (0, str(tmp_path / "a"))
    signatures = Interpreter(str(tmp_path / "a")).get_signature_list()
    assert list(signatures) == [signature]
    assert sorted(signatures[signature]["outputs"]) == outputs


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

import functools
import sys

import pytest


@pytest.fixture
def run(run):
    return functools.partial(run, "export")


@pytest.mark.parametrize(
    ("name", "line", "model_class", "expected"),
    [
        ("answer", "", "AlbertForQuestionAnswering", {"batch": 1}),
        ("embed", "--ids-only --lengths 16,24 32", "AlbertModel", {"lengths": (16, 24, 32)}),
        ("embed", "--ids-only --batch dynamic", "AlbertModel", {"ids_only": True, "batch": None}),
        ("embed", "--batch 2 --max-length 16", "AlbertModel", {"batch": 2, "max_length": 16}),
        ("pretrain", "--task masked-lm --predictions 2", "AlbertForMaskedLM", {"predictions": 2}),
    ],
)
@pytest.mark.usefixtures("without_graphs")
def test_the_model_and_the_options_of_an_export(
    run, model_folder, tmp_path, monkeypatch, name, line, model_class, expected
):
    """The checkpoint's task is the default."""
    given = []
    export = lambda *arguments: given.extend(arguments) or "a report"  # noqa: E731
    monkeypatch.setattr("albert_tf_export.export_tflite", export)
    arguments = ("--model", model_folder(name), "--output", tmp_path / "a.tflite")
    status, output, errors = run("tflite", *arguments, *line.split())
    assert status == 0, errors
    assert output == "a report\n"
    model, _, path, options = given
    assert (type(model).__name__, path) == (model_class, tmp_path / "a.tflite")
    assert vars(options).items() >= expected.items()


def test_a_head_that_was_never_trained(run, model_folder, tmp_path):
    arguments = ("tflite", "--model", model_folder("pretrain"), "--output", tmp_path / "a")
    status, _, errors = run(*arguments, "--task", "token-classification")
    assert status == 2
    assert "no weights for classifier of AlbertForTokenClassification. Fine-tune" in errors
    assert not list(tmp_path.iterdir())


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


def test_the_model_is_not_replaced(run, model_folder):
    model = model_folder("embed")
    before = sorted(model.iterdir())
    status, _, errors = run("tflite", "--model", model, "--output", model, "--force")
    assert status == 2
    assert "would replace the input" in errors
    assert sorted(model.iterdir()) == before

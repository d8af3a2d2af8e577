"""Commands on exported files, each in a process that never imports TensorFlow."""

import json
import subprocess
import sys

import pytest

# Runs a command as `albert-tf` does, and fails if that imported TensorFlow.
ALONE = """
import sys
from albert_tf.cli import main
status = main(sys.argv[1:])
assert not {"keras", "tensorflow"} & sys.modules.keys()
sys.exit(status)
"""


def run_alone(*arguments):
    command = [sys.executable, "-c", ALONE, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Returns a function that exports the model of a directory, and gives the file."""
    from albert_tf import AlbertTokenizer, export_tflite, load_pretrained

    def export(folder, name):
        path = tmp_path_factory.mktemp("exported") / name
        tokenizer = AlbertTokenizer.from_pretrained(folder)
        export_tflite(load_pretrained(folder), tokenizer, path, ids_only=True, check=False)
        return path

    return export


@pytest.fixture(scope="module")
def classifier_file(classifier, exported):
    return exported(classifier, "classifier.tflite")


def test_predict_answers_as_the_directory_does(run, classifier, classifier_file):
    texts = ("a quiet delight", "smoke and noise", "")
    expected = run("predict", "--model", classifier, *texts)
    assert run_alone("predict", "--model", classifier_file, *texts) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fill-mask", "[MASK]"), "must have an AlbertForMaskedLM. Received: classifier.tflite"),
        (("embed", "a"), "must have an AlbertModel. Received: classifier.tflite, which has"),
        (("tag", "a"), "must have an AlbertForTokenClassification. Received: classifier.tflite"),
    ],
)
def test_a_file_of_another_task_is_refused(arguments, message, run, classifier_file, monkeypatch):
    monkeypatch.chdir(classifier_file.parent)
    command, *texts = arguments
    status, output, errors = run(command, "--model", classifier_file.name, *texts)
    assert (status, output, errors.count("\n")) == (2, "", 1)
    assert message in errors


def test_a_file_that_is_not_there(run):
    status, _, errors = run("predict", "--model", "none.tflite", "a")
    assert (status, errors.count("\n")) == (2, 1)
    assert "The model must be a file. Received: none.tflite, which isn't there." in errors


@pytest.mark.slow
def test_evaluate_scores_a_file(run, classifier, classifier_file, tmp_path):
    (tmp_path / "dev.csv").write_text("text,label\nA delight.,good\nDull.,bad\nNoisy.,bad\n")
    arguments = ("--task", "classify", "--data", tmp_path, "--json")
    expected = run("evaluate", "--model", classifier, *arguments)[1]
    status, output, _ = run("evaluate", "--model", classifier_file, *arguments)
    assert status == 0
    assert json.loads(output) == pytest.approx(json.loads(expected))


@pytest.mark.slow
def test_predict_tags_by_a_file(run, task_model, exported, tmp_path):
    model, tokenizer = task_model("tag")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    path = exported(tmp_path, "tagger.tflite")
    texts = ("a quiet boat", "smoke and noise in the harbour " * 12)
    for command in ("predict", "tag"):
        expected = run(command, "--model", tmp_path, *texts)
        assert run_alone(command, "--model", path, *texts) == expected

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
def classifier_file(classifier, tmp_path_factory):
    from albert_tf import AlbertTokenizer, export_tflite, load_pretrained

    path = tmp_path_factory.mktemp("exported") / "classifier.tflite"
    tokenizer = AlbertTokenizer.from_pretrained(classifier)
    export_tflite(load_pretrained(classifier), tokenizer, path, ids_only=True, check=False)
    return path


def test_predict_answers_as_the_directory_does(run, classifier, classifier_file):
    texts = ("a quiet delight", "smoke and noise", "")
    expected = run("predict", "--model", classifier, *texts)
    assert run_alone("predict", "--model", classifier_file, *texts) == expected


@pytest.mark.parametrize(
    ("command", "file", "message"),
    [
        ("embed", "classifier.tflite", "must have an AlbertModel. Received: classifier.tflite, wh"),
        ("predict", "none.tflite", "must be a file. Received: none.tflite, which isn't there."),
    ],
)
def test_files_that_are_refused(command, file, message, run, classifier_file, monkeypatch):
    monkeypatch.chdir(classifier_file.parent)
    status, output, errors = run(command, "--model", file, "a")
    assert (status, output, errors.count("\n")) == (2, "", 1)
    assert message in errors


@pytest.mark.slow
def test_evaluate_scores_a_file(run, classifier, classifier_file, tmp_path):
    (tmp_path / "dev.csv").write_text("text,label\nA delight.,good\nDull.,bad\nNoisy.,bad\n")
    arguments = ("--task", "classify", "--data", tmp_path, "--json")
    expected = run("evaluate", "--model", classifier, *arguments)[1]
    status, output, _ = run("evaluate", "--model", classifier_file, *arguments)
    assert status == 0
    assert json.loads(output) == pytest.approx(json.loads(expected))

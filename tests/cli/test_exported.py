"""Commands on exported files, in a process that never imports TensorFlow."""

import json
import subprocess
import sys

import pytest
from albert_tf_export.metadata import model_files, with_files

from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.runtimes.exported import with_checksum

# Runs a command as `albert-tf` does, and fails if that imported TensorFlow.
ALONE = """
import sys
from albert_tf.cli import main
status = main(sys.argv[1:])
assert not {"keras", "tensorflow"} & sys.modules.keys()
sys.exit(status)
"""


@pytest.mark.usefixtures("without_graphs")
def test_predict_answers_as_the_directory_does(run, classifier, classifier_file):
    texts = ("a quiet delight", "smoke and noise", "")
    command = [sys.executable, "-c", ALONE, "predict", "--model", classifier_file, *texts]
    done = subprocess.run(command, capture_output=True, text=True)
    expected = run("predict", "--model", classifier, *texts)
    assert (done.returncode, done.stdout, done.stderr) == expected


def test_a_file_for_another_task_is_refused(run, classifier_file):
    status, output, errors = run("embed", "--model", classifier_file, "a")
    assert (status, output, errors.count("\n")) == (2, "", 1)
    assert f"requires an AlbertModel. Received: {classifier_file}, which contains an Alb" in errors


@pytest.mark.parametrize("pooling", [None, SentenceEmbedding("cls")])
def test_only_sentence_embedding_models_compare_pairs(run, task_model, tmp_path, pooling):
    model, tokenizer = task_model("embed")
    files = model_files(model, tokenizer)
    if pooling is not None:
        files |= pooling.files(model.config.hidden_size)
    path = tmp_path / "encoder.tflite"
    path.write_bytes(with_files(b"", with_checksum(b"", files)))
    status, _, errors = run("predict", "--model", path, "a")
    assert (status, "compares text pairs" in errors) == (2, pooling is not None)
    assert ("requires an AlbertForSequenceClassification" in errors) == (pooling is None)


@pytest.mark.slow
def test_evaluate_scores_a_file(run, classifier, classifier_file, tmp_path):
    (tmp_path / "dev.csv").write_text("text,label\nA delight.,good\nDull.,bad\nNoisy.,bad\n")
    arguments = ("--task", "classify", "--data", tmp_path, "--json")
    expected = run("evaluate", "--model", classifier, *arguments)[1]
    status, output, _ = run("evaluate", "--model", classifier_file, *arguments)
    assert status == 0
    found, scores = json.loads(output), json.loads(expected)
    classes = scores.pop("classes")
    for name, one in found.pop("classes").items():
        assert one == pytest.approx(classes.pop(name))
    assert not classes and found == pytest.approx(scores)

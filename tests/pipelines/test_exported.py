"""Pipelines on exported files: the answers of the Keras model, in a process without TensorFlow."""

import json
import subprocess
import sys

import pytest

from albert_tf.pipelines import pipeline

TEXTS = ["the cat sat on a mat", "ada", "her old dog who barked at the moon over france lives"]
MASKED = ["the cat sat on a [MASK]", "[MASK] lives near new [MASK] city"]
QUESTIONS = [
    {"question": "who barked", "context": "the old dog who lives near paris barked at the moon"},
    {"question": "the cat", "context": " ".join(TEXTS)},
]
PAIRS = [("the cat sat", "on a mat"), ("ada lives", "near new york city")]
INPUTS = {
    "text-classification": TEXTS,
    "token-classification": TEXTS,
    "question-answering": QUESTIONS,
    "answerability": QUESTIONS,
    "feature-extraction": TEXTS,
    "fill-mask": MASKED,
    "sentence-order": PAIRS,
}
# Prints an exported file's answers, from a process that never imports TensorFlow.
ALONE = """
import json, sys
from albert_tf import pipeline
task, path, inputs = sys.argv[1:]
inputs = [tuple(each) if isinstance(each, list) else each for each in json.loads(inputs)]
print(json.dumps(pipeline(task, path)(inputs)))
assert not {"keras", "tensorflow"} & sys.modules.keys()
"""


def export(model, tokenizer, path, **options):
    from albert_tf_export import export_onnx, export_tflite

    write = export_onnx if path.suffix == ".onnx" else export_tflite
    if path.suffix == ".tflite":
        options["ids_only"] = True
    write(model, tokenizer, path, check=False, **options)
    return path


def run_alone(task, path, inputs):
    """Returns a file's answers from a fresh process, which must print nothing to stderr."""
    command = [sys.executable, "-c", ALONE, task, path, json.dumps(inputs)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def assert_same(found, expected):
    """Compares results: numbers by 1e-4, all else exactly."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            assert_same(*pair)
    else:
        is_number = isinstance(expected, float)
        assert found == (pytest.approx(expected, abs=1e-4) if is_number else expected)


QUICK = ("text-classification", "fill-mask")


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in INPUTS],
)
def test_answers_of_a_file_are_those_of_keras(kind, model, tokenizer, tmp_path):
    task = "question-answering" if kind == "answerability" else kind
    path = export(model(kind), tokenizer, tmp_path / "model.tflite")
    expected = pipeline(task, model(kind), tokenizer)(INPUTS[kind])
    assert_same(run_alone(task, path, INPUTS[kind]), json.loads(json.dumps(expected)))

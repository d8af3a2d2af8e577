"""A C program with LiteRT's C API gives the outputs of Python's interpreter, or an error."""

import importlib.metadata
import subprocess

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from albert_tf_export import export_tflite

NAMES = ("input_ids", "attention_mask", "token_type_ids")
VERSION = importlib.metadata.version("ai-edge-litert")
pytestmark = pytest.mark.skipif(
    tuple(map(int, VERSION.split(".")[:3])) < (2, 1, 6),
    reason=f"LiteRT's C API has other arguments before 2.1.6, this is {VERSION}",
)


def line(ids, mask=None, types=None):
    mask, types = mask or [1] * len(ids), types or [0] * len(ids)
    return "|".join(" ".join(map(str, row)) for row in (ids, mask, types))


@pytest.fixture(scope="module")
def answers(compiled, package_folder):
    """Returns a function that runs the C program on lines and returns the finished process."""
    folder = package_folder("ai_edge_litert")
    program = compiled("run_tflite.c", folder / "libLiteRt.so", f"-Wl,-rpath,{folder}")

    def run(path, *lines, signature="ids", names=NAMES):
        rows = "".join(f"{each}\n" for each in lines)
        command = [program, path, signature, ",".join(names)]
        return subprocess.run(command, input=rows, capture_output=True, text=True, timeout=300)

    return run


def outputs(answer):
    """The outputs of each line, by name."""
    assert answer.returncode == 0, answer.stderr
    named = [row.split() for row in answer.stdout.splitlines()]
    each = [(name, np.array(values, np.float32)) for name, *values in named]
    return [dict(each[at : at + 2]) for at in range(0, len(each), 2)]


def test_rows_of_any_length(written, answers):
    """The signature `text` in the same file isn't called, so its operators aren't needed."""
    path = written(export_tflite)
    rows = [[2, 9, 11, 30, 3], [2, 17, 3], [2, *range(4, 40), 3]]
    signature = Interpreter(str(path)).get_signature_runner("ids")
    found = outputs(answers(path, *map(line, rows)))
    for ids, answer in zip(rows, found, strict=True):
        values = np.array([ids], np.int32)
        features = (values, np.ones_like(values), np.zeros_like(values))
        expected = signature(**dict(zip(NAMES, features, strict=True)))
        for name in ("logits", "probabilities"):
            np.testing.assert_allclose(answer[name], expected[name][0], rtol=0, atol=1e-6)
    assert np.ptp([each["logits"] for each in found], axis=0).min() > 0.01


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (line([2, -1, 3]), "gather index out of bounds"),
        (line([2, 124, 3]), "gather index out of bounds"),
        (line([2, 9, 3], types=[0, 2, 0]), "gather index out of bounds"),
        (line([2, 9, 3], mask=[1]), "num_input_elements != num_output_elements (1 != 3)"),
        (line([2, 9, 3], types=[0, 0]), "num_input_elements != num_output_elements (2 != 3)"),
        (line([2, *[9] * 39, 3]), "Fitting outputs to the inputs failed"),
        (line([]), "Resizing an input failed"),
        ("2 9 3", "must have the ids of 3 inputs"),
    ],
)
def test_refuses_rows(row, message, written, answers):
    right = line([2, 9, 3])
    answer = answers(written(export_tflite), right, row)
    assert (answer.returncode, answer.stdout.count("\n")) == (1, 2)
    assert message in answer.stderr


def test_fixed_lengths(checked, classifier, answers):
    path = checked(export_tflite, classifier, max_length=None, lengths=(8, 16)).path
    rows = [line([2, *[9] * 6, 3]), line([2, *[9] * 14, 3])]
    for name, right, wrong in (("ids_8", *rows), ("ids_16", *reversed(rows))):
        (found,) = outputs(answers(path, right, signature=name))
        assert found["probabilities"].sum() == pytest.approx(1, abs=1e-6)
        answer = answers(path, wrong, signature=name)
        assert answer.returncode == 1
        assert "Resizing an input failed" in answer.stderr


def test_says_what_is_wrong(written, answers, tmp_path):
    path = written(export_tflite)
    answer = answers(path, signature="absent")
    assert "must have the signature. Received: absent" in answer.stderr
    answer = answers(path, names=("input_ids", "mask", "token_type_ids"))
    assert "must have the named inputs. Received: mask" in answer.stderr
    answer = answers(path, names=NAMES[:2])
    assert "The inputs must be 3 names" in answer.stderr
    wrong = tmp_path / "wrong.tflite"
    wrong.write_bytes(b"not a model")
    for absent in (wrong, tmp_path / "absent.tflite"):
        assert f"{absent} failed with LiteRT's status" in answers(absent).stderr

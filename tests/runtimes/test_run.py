"""Exports run without the package; tests/export/test_check.py has their comparison with Keras."""

import json
import subprocess
import sys

import numpy as np
import pytest

from albert_tf.runtimes import run as runtimes
from albert_tf.runtimes.run import RuntimeSignature


def test_the_reason_of_an_error():
    """The first 200 characters of TensorFlow's message, and of LiteRT's, don't have it."""
    node = "albert/embedding/GatherV2"
    message = (
        f"Graph execution error:\n\nDetected at node {node} defined at (most recent call last):\n"
        "<stack traces unavailable>\nindices[0,0] = -1 is not in [0, 80)\n"
        f"\t [[{{{{node {node}}}}}]]"
    )
    assert runtimes.reason(ValueError(message)) == "indices[0,0] = -1 is not in [0, 80)"
    assert runtimes.reason(ValueError("an earlier one " * 99 + "the last")).endswith("the last")


@pytest.fixture
def calls():
    return []


@pytest.fixture
def echo(calls):
    """Returns a function from shapes to a signature that returns its inputs, and notes them."""

    def run(**arrays):
        calls.append({name: array.shape for name, array in arrays.items()})
        return arrays

    return lambda **shapes: RuntimeSignature(shapes, run)


def test_rows_are_padded_to_fixed_shapes(echo, calls):
    features = {"input_ids": np.ones((3, 4), np.int32)}
    found = echo(input_ids=[2, 5], masked_lm_positions=[2, 6])(features)
    assert found["input_ids"].tolist() == [[1, 1, 1, 1, 0]] * 3
    assert found["masked_lm_positions"].tolist() == [[0] * 6] * 3
    assert calls == [{"input_ids": (2, 5), "masked_lm_positions": (2, 6)}] * 2
    texts = np.array([b"a", b"b", b"c"], object)
    assert echo(text=[2])({"text": texts})["text"].tolist() == texts.tolist()


@pytest.fixture
def run_main(echo, monkeypatch, tmp_path):
    """Returns a function from rows and a signature's shapes to the arrays and the report."""

    def run(rows, **shapes):
        monkeypatch.setitem(runtimes.OPENERS, "tflite", lambda path: {"name": echo(**shapes)})
        runtimes._open.cache_clear()
        (tmp_path / "rows").write_text("".join(json.dumps(row) + "\n" for row in rows))
        runtimes.main("tflite", "a", "name", tmp_path / "rows", tmp_path / "out", 2)
        with np.load(tmp_path / "out.npz", allow_pickle=False) as arrays:
            return dict(arrays), json.loads((tmp_path / "out.json").read_text())

    yield run
    runtimes._open.cache_clear()


def test_rows_of_ids(run_main, calls):
    rows = [
        {"input_ids": [2, 9, 3], "token_type_ids": [0, 0, 1]},
        {"input_ids": [2, 3], "token_type_ids": [0, 1]},
        {"input_ids": [2], "token_type_ids": [1]},
    ]
    shapes = {name: [-1, -1] for name in ("input_ids", "attention_mask", "token_type_ids")}
    arrays, report = run_main(rows, **shapes)
    assert arrays["1/input_ids"].tolist() == [2, 3, 0]
    assert arrays["1/attention_mask"].tolist() == [1, 1, 0]
    assert arrays["2/token_type_ids"].tolist() == [1]
    assert [each["input_ids"] for each in calls] == [(2, 3), (1, 1)]
    assert report.keys() == {"megabytes", "milliseconds"}


def test_rows_of_texts(run_main):
    rows = [{"text": "naïve", "text_pair": "\0"}, {"text": "", "text_pair": "🦕"}]
    arrays, _ = run_main(rows, text=[-1], text_pair=[-1])
    assert arrays["0/text"] == "naïve".encode()
    assert arrays["1/text_pair"] == "🦕".encode()
    assert arrays.keys() == {"0/text", "1/text", "0/text_pair", "1/text_pair"}
    arrays, _ = run_main([{"text": ["a", "b"]}], text=[-1, 2])
    assert arrays["0/text"].tolist() == [b"a", b"b"]


def test_the_file_is_loaded_alone(tmp_path):
    code = f"import runpy, sys; runpy.run_path({runtimes.__file__!r}); "
    code += "assert not {'albert_tf', 'tensorflow', 'keras'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)

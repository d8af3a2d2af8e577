"""The stand-alone scripts, run as a user runs them."""

import ast
import json
import subprocess
import sys

import numpy as np
import pytest
from albert_tf_export import export_saved_model, export_tflite, parity

OURS = {"albert_tf", "albert_tf_export"}


def run(script, *arguments, lines=""):
    """Rows of output, and the modules that were imported."""
    command = [sys.executable, "-X", "importtime", parity.RUNNERS / script, *arguments]
    finished = subprocess.run(
        command, input=lines.encode(), capture_output=True, check=True, timeout=120
    )
    times = [line for line in finished.stderr.decode().splitlines() if "import time:" in line]
    modules = {line.split("|")[-1].strip().split(".")[0] for line in times}
    assert not modules & OURS
    return [json.loads(line) for line in finished.stdout.decode().splitlines()], modules


@pytest.fixture
def vocabulary(tokenizer, tmp_path):
    (tmp_path / "spiece.model").write_bytes(tokenizer.model_bytes)
    return tmp_path / "spiece.model"


@pytest.fixture(scope="module")
def lines(texts):
    """Some as they are, some as JSON."""
    plain = [text for text in texts if "\0" not in text]
    assert len(plain) == 4
    return "".join(
        (json.dumps({"text": text, "key": 7}) if index % 2 else text) + "\n"
        for index, text in enumerate(plain)
    )


@pytest.fixture(scope="module")
def expected(texts, logits):
    return logits[["\0" not in text for text in texts]]


def test_a_brace_alone_is_no_json(written, vocabulary):
    options = ["--vocabulary", vocabulary]
    rows, _ = run("tflite.py", written(export_tflite), *options, lines="{so it goes}\n")
    assert [row["text"] for row in rows] == ["{so it goes}"]


def check(rows, expected, tolerance):
    np.testing.assert_allclose([row["logits"] for row in rows], expected, atol=tolerance, rtol=0)
    assert [row.get("key") for row in rows] == [None, 7, None, 7]
    for row in rows:
        assert list(row["probabilities"]) == ["bad", "naïve", "good"]
        assert row["probabilities"][row["label"]] == max(row["probabilities"].values())
        assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("script", ["saved_model.py", "tflite.py"])
def test_stand_alone(script):
    allowed = {"tensorflow", "tensorflow_text", "ai_edge_litert", "sentencepiece", "numpy"}
    allowed |= set(sys.stdlib_module_names)
    for node in ast.walk(ast.parse((parity.RUNNERS / script).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {name.name.split(".")[0] for name in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            assert node.module.split(".")[0] in allowed


def test_tflite_ids_without_tensorflow(written, lines, expected, vocabulary, tmp_path):
    path = written(export_tflite, quantize="dynamic")
    options = ["--vocabulary", vocabulary, "--report", tmp_path / "report.json", "--threads", "2"]
    rows, modules = run("tflite.py", path, *options, lines=lines)
    check(rows, expected, 0.2)
    assert not modules & {"tensorflow", "tensorflow_text", "keras"}
    report = json.loads((tmp_path / "report.json").read_text())
    assert 0 < report["peak_memory_mb"] < 30
    assert 0 < report["milliseconds"] < 1000


def test_tflite_text(written, lines, expected, tmp_path):
    (tmp_path / "texts").write_text(lines, encoding="utf-8")
    rows, _ = run("tflite.py", written(export_tflite), "--input", tmp_path / "texts")
    check(rows, expected, 2e-6)


def test_saved_model_text(written, lines, expected, tmp_path):
    options = ["--batch", "3", "--report", tmp_path / "report.json"]
    rows, _ = run("saved_model.py", written(export_saved_model), *options, lines=lines)
    check(rows, expected, 2e-6)
    assert json.loads((tmp_path / "report.json").read_text())["peak_memory_mb"] > 0


def test_saved_model_ids_without_tensorflow_text(written, features, logits):
    rows = [
        {"input_ids": ids[mask == 1].tolist()}
        for ids, mask in zip(features["input_ids"], features["attention_mask"], strict=True)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    path = written(export_saved_model, ids_only=True)
    answers, modules = run("saved_model.py", path, "--signature", "ids", lines=lines)
    np.testing.assert_allclose([row["logits"] for row in answers], logits, atol=2e-6, rtol=0)
    assert "tensorflow_text" not in modules
    assert [row["input_ids"] for row in answers] == [row["input_ids"] for row in rows]

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


def fails(script, *arguments, lines):
    """The one line of an error."""
    command = [sys.executable, parity.RUNNERS / script, *arguments]
    finished = subprocess.run(command, input=lines.encode(), capture_output=True, timeout=120)
    assert finished.returncode in (1, 2)
    errors = finished.stderr.decode()
    assert "Traceback" not in errors
    return errors


STRAY = b'caf\xe9 delight\n{"text": "half \\ud83d here"}\n' + "half \ufffd here\n".encode()


@pytest.mark.parametrize("script", ["saved_model.py", "tflite.py", "tflite.py --vocabulary"])
def test_bytes_that_are_not_utf_8(written, vocabulary, script):
    script, *options = script.split()
    path = written(export_saved_model if script == "saved_model.py" else export_tflite)
    command = [
        sys.executable,
        parity.RUNNERS / script,
        path,
        *options,
        *[vocabulary][: len(options)],
    ]
    done = subprocess.run(command, input=STRAY, capture_output=True, check=True, timeout=120)
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [row["text"] for row in rows] == ["caf\ufffd delight", *["half \ufffd here"] * 2]
    assert rows[1]["logits"] == pytest.approx(rows[2]["logits"], abs=1e-5)
    assert rows[1]["logits"] != pytest.approx(rows[0]["logits"], abs=1e-3)


MISTAKES = [
    ('{"foo": 1}\n', "must have text. Received: foo"),
    ('{"text": 7}\n', "text must be a text. Received: '7'"),
    ('{"text": ["a"]}\n', "text must be a text. Received"),
]


@pytest.mark.parametrize(("lines", "message"), MISTAKES)
def test_mistakes_with_a_vocabulary(written, vocabulary, lines, message):
    path = written(export_tflite)
    assert message in fails("tflite.py", path, "--vocabulary", vocabulary, lines=lines)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"input_ids": ["a"]}\n', "input_ids must be a list of ids"),
        ('{"input_ids": 7}\n', "input_ids must be a list of ids"),
        (json.dumps({"input_ids": [2] * 99}) + "\n", "must fit the shape [24]"),
        ('{"input_ids": [2, 999999]}\n', "must be of the model's vocabulary"),
    ],
)
def test_mistakes_with_ids(written, lines, message):
    assert message in fails("tflite.py", written(export_tflite), "--signature", "ids", lines=lines)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"input_ids": ["a"]}\n', "input_ids must be a list of ids"),
        (json.dumps({"input_ids": [2] * 99}) + "\n", "no more of them than its max_length"),
    ],
)
def test_mistakes_with_a_saved_model(written, lines, message):
    path = written(export_saved_model, ids_only=True)
    assert message in fails("saved_model.py", path, "--signature", "ids", lines=lines)


def test_files_that_are_missing_or_others(written, vocabulary, tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    model = written(export_tflite)
    for arguments, message in (
        (("none.tflite", "--vocabulary", vocabulary), "No such file or directory: 'none.tflite'"),
        ((vocabulary, "--vocabulary", vocabulary), "must be a TensorFlow Lite file"),
        ((model, "--vocabulary", tmp_path / "vocab.txt"), "must be a SentencePiece model"),
        ((model, "--vocabulary", "none.model"), "No such file or directory: 'none.model'"),
        ((model, "--vocabulary", vocabulary, "--signature", "masked"), "leave --vocabulary out"),
    ):
        assert message in fails("tflite.py", *arguments, lines="a\n")
    assert "No such file" in fails("saved_model.py", tmp_path / "none", lines="a\n")


def test_readers_that_stop(written, vocabulary):
    command = [sys.executable, parity.RUNNERS / "tflite.py", written(export_tflite)]
    with subprocess.Popen(
        [*command, "--vocabulary", vocabulary],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        process.stdin.write(b"a\n")
        process.stdin.close()
        errors = process.stderr.read().decode()
    assert "Traceback" not in errors
    assert "BrokenPipe" not in errors

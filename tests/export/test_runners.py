"""The runner scripts, which run without the package."""

import ast
import json
import subprocess
import sys

import numpy as np
import pytest
from albert_tf_export import export_saved_model, export_tflite
from albert_tf_export.check import RUNNERS

SCRIPTS = ("saved_model.py", "tflite.py")
ALLOWED = {"_rows", "tensorflow", "tensorflow_text", "ai_edge_litert", "sentencepiece", "numpy"}


@pytest.fixture(scope="module")
def vocabulary(tokenizer, tmp_path_factory):
    file = tmp_path_factory.mktemp("vocabulary") / "spiece.model"
    file.write_bytes(tokenizer.model_bytes)
    return file


@pytest.fixture(scope="module")
def lines(texts):
    """Returns lines of input, some plain and some JSON."""
    plain = [text for text in texts if "\0" not in text]
    assert len(plain) == 4
    return "".join(
        (json.dumps({"text": text, "key": 7}) if index % 2 else text) + "\n"
        for index, text in enumerate(plain)
    )


@pytest.fixture(scope="module")
def expected(texts, logits):
    return logits[["\0" not in text for text in texts]]


@pytest.fixture(scope="module")
def answers(run_script):
    """Returns a function that runs a script in this process and returns its rows."""

    def run(*arguments, lines):
        status, output, errors = run_script(*arguments, lines=lines)
        assert status == 0, errors
        return [json.loads(line) for line in output.splitlines()]

    return run


@pytest.fixture(scope="module")
def fails(run_script):
    """Returns a function that runs a script in this process and returns its message."""

    def run(*arguments, lines):
        status, output, errors = run_script(*arguments, lines=lines)
        assert status in (1, 2)
        assert output == ""
        return errors

    return run


def fresh(script, *arguments, lines):
    """Runs a script in a fresh process; returns its rows and the modules that it imported."""
    command = [sys.executable, "-X", "importtime", RUNNERS / script, *arguments]
    finished = subprocess.run(command, input=lines.encode(), capture_output=True, timeout=300)
    log = finished.stderr.decode().splitlines()
    times = [line for line in log if "import time:" in line]
    assert finished.returncode == 0, [line for line in log if line not in times]
    modules = {line.split("|")[-1].strip().split(".")[0] for line in times}
    assert not modules & {"albert_tf", "albert_tf_export"}
    return [json.loads(line) for line in finished.stdout.decode().splitlines()], modules


def check(rows, expected, tolerance):
    np.testing.assert_allclose([row["logits"] for row in rows], expected, atol=tolerance, rtol=0)
    assert [row.get("key") for row in rows] == [None, 7, None, 7]
    for row in rows:
        assert list(row["probabilities"]) == ["bad", "naïve", "good"]
        assert row["probabilities"][row["label"]] == max(row["probabilities"].values())
        assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("script", [*SCRIPTS, "_rows.py"])
def test_imports(script):
    for node in ast.walk(ast.parse((RUNNERS / script).read_text(encoding="utf-8"))):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names = [node.module]
        assert {name.split(".")[0] for name in names} <= ALLOWED | set(sys.stdlib_module_names)


def test_tflite_ids_without_tensorflow(written, lines, expected, vocabulary, tmp_path):
    path = written(export_tflite, quantize="dynamic")
    options = ["--vocabulary", vocabulary, "--report", tmp_path / "report.json", "--threads", "2"]
    options += ["--max-length", "24"]
    rows, modules = fresh("tflite.py", path, *options, lines=lines)
    check(rows, expected, 0.2)
    assert not modules & {"tensorflow", "tensorflow_text", "keras"}
    report = json.loads((tmp_path / "report.json").read_text())
    assert 0 < report["peak_memory_mb"] < 30
    assert 0 < report["milliseconds"] < 1000


@pytest.mark.slow
def test_saved_model_ids_without_tensorflow_text(written, features, logits):
    rows = [
        {"input_ids": ids[mask == 1].tolist()}
        for ids, mask in zip(features["input_ids"], features["attention_mask"], strict=True)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    path = written(export_saved_model, ids_only=True)
    found, modules = fresh("saved_model.py", path, "--signature", "ids", lines=lines)
    np.testing.assert_allclose([row["logits"] for row in found], logits, atol=2e-6, rtol=0)
    assert "tensorflow_text" not in modules
    assert [row["input_ids"] for row in found] == [row["input_ids"] for row in rows]


def test_tflite_text(written, lines, expected, answers):
    check(answers("tflite.py", written(export_tflite), lines=lines), expected, 2e-6)


def test_saved_model_text(written, lines, expected, answers, tmp_path):
    options = ["--batch", "3", "--report", tmp_path / "report.json"]
    path = written(export_saved_model)
    check(answers("saved_model.py", path, *options, lines=lines), expected, 2e-6)
    assert json.loads((tmp_path / "report.json").read_text()).keys() == {
        "peak_memory_mb",
        "milliseconds",
        "processor_milliseconds",
    }


def test_outputs_as_arrays(written, run_script, tmp_path):
    """Each file is named by the row's number and the output's name."""
    rows = [{"input_ids": [2, 9, 8, 3]}, {"input_ids": [2, 3]}]
    options = ["--signature", "ids", "--save", tmp_path / "outputs.npz"]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    assert run_script("tflite.py", written(export_tflite), *options, lines=lines)[:2] == (0, "")
    arrays = np.load(tmp_path / "outputs.npz", allow_pickle=False)
    outputs = ("logits", "probabilities")
    assert set(arrays.files) == {f"{row}/{name}" for row in (0, 1) for name in outputs}
    assert arrays["0/logits"].dtype == np.float32
    options = ["--save", tmp_path / "outputs.npz"]
    assert run_script("tflite.py", written(export_tflite), *options, lines="a\n")[:2] == (0, "")
    arrays = np.load(tmp_path / "outputs.npz", allow_pickle=False)
    assert set(arrays.files) == {f"0/{name}" for name in (*outputs, "label", "classes")}
    assert arrays["0/classes"].tolist() == [b"bad", "naïve".encode(), b"good"]


def test_a_text_that_begins_with_a_brace(written, vocabulary, answers):
    options = ["--vocabulary", vocabulary]
    rows = answers("tflite.py", written(export_tflite), *options, lines="{so it goes}\n")
    assert [row["text"] for row in rows] == ["{so it goes}"]


STRAY = b'caf\xe9 delight\n{"text": "half \\ud83d here"}\n' + "half \ufffd here\n".encode()


@pytest.mark.parametrize("script", ["saved_model.py", "tflite.py", "tflite.py --vocabulary"])
def test_bytes_that_are_not_utf_8(written, vocabulary, answers, script):
    script, *options = script.split()
    path = written(export_saved_model if script == "saved_model.py" else export_tflite)
    rows = answers(script, path, *options, *[vocabulary][: len(options)], lines=STRAY)
    assert [row["text"] for row in rows] == ["caf\ufffd delight", *["half \ufffd here"] * 2]
    assert rows[1]["logits"] == pytest.approx(rows[2]["logits"], abs=1e-5)
    assert rows[1]["logits"] != pytest.approx(rows[0]["logits"], abs=1e-3)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"foo": 1}\n', "must have text. Received: foo"),
        ('{"text": 7}\n', "text must be a text. Received: '7'"),
        ('{"text": ["a"]}\n', "text must be a text. Received"),
    ],
)
def test_mistakes_with_a_vocabulary(written, vocabulary, fails, lines, message):
    path = written(export_tflite)
    assert message in fails("tflite.py", path, "--vocabulary", vocabulary, lines=lines)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"input_ids": ["a"]}\n', "input_ids must be a list of ids"),
        ('{"input_ids": 7}\n', "input_ids must be a list of ids"),
        (json.dumps({"input_ids": [2] * 99}) + "\n", "no more of them than it has positions"),
        ('{"input_ids": [2, 999999]}\n', "must be of the model's vocabulary"),
    ],
)
def test_mistakes_with_ids(written, fails, lines, message):
    assert message in fails("tflite.py", written(export_tflite), "--signature", "ids", lines=lines)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"input_ids": ["a"]}\n', "input_ids must be a list of ids"),
        (json.dumps({"input_ids": [2] * 99}) + "\n", "no more of them than its max_length"),
    ],
)
def test_mistakes_with_a_saved_model(written, fails, lines, message):
    path = written(export_saved_model, ids_only=True)
    assert message in fails("saved_model.py", path, "--signature", "ids", lines=lines)


def test_missing_and_foreign_files(written, vocabulary, fails, tmp_path):
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


def test_a_reader_that_stops(written, vocabulary):
    command = [sys.executable, RUNNERS / "tflite.py", written(export_tflite)]
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


def test_a_python_without_tensorflow_text(run_script, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    status, output, errors = run_script("tflite.py", "my-model.tflite", lines="A text.\n")
    assert (status, output) == (1, "")
    assert errors.startswith("The package tensorflow-text must be installed. Received: a Python")
    assert "--vocabulary" in errors

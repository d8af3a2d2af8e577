import json
import subprocess
import sys
from pathlib import Path

import pytest

from albert_tf import cli
from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.text.tokenizer import AlbertTokenizer

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def model(tiny_vocabulary, tmp_path_factory):
    """A directory with a classifier of random weights and its tokenizer."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = AlbertTokenizer(tiny_vocabulary, model_max_length=24)
    labels = {0: "bad", 1: "good"}
    config = AlbertConfig.from_size("tiny", vocab_size=tokenizer.vocab_size, id2label=labels)
    AlbertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def run(capsys):
    """A function that runs a command in this process: its status, output and errors."""

    def main(*arguments):
        status = cli.main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return main


def test_predict(run, model):
    status, output, _ = run("predict", "--model", model, "A quiet delight.", "", "Dull.")
    assert status == 0
    rows = [line.split("\t") for line in output.splitlines()]
    assert len(rows) == 3
    assert {label for label, _ in rows} <= {"bad", "good"}
    assert all(0.5 <= float(probability) <= 1 for _, probability in rows)


def test_predict_from_a_file_as_json(run, model, tmp_path):
    texts = ["A quiet delight.", "", "Déjà vu", "Dull."]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    _, output, _ = run("predict", "--model", model, "--input", tmp_path / "texts.txt", "--json")
    rows = [json.loads(line) for line in output.splitlines()]
    assert [row["text"] for row in rows] == texts
    for row in rows:
        assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-6)
        assert row["probabilities"][row["label"]] == max(row["probabilities"].values())
    _, plain, _ = run("predict", "--model", model, "--batch-size", 1, *texts)
    assert [line.split("\t")[0] for line in plain.splitlines()] == [row["label"] for row in rows]


def test_predict_pairs(run, model):
    status, output, _ = run("predict", "--model", model, "--pairs", "One.\tTwo.", "--json")
    assert status == 0
    assert json.loads(output)["text"] == "One.\tTwo."
    status, _, errors = run("predict", "--model", model, "--pairs", "One. Two.")
    assert status == 2
    assert "A pair is two texts with a tab between. Received: 'One. Two.'" in errors


@pytest.mark.slow
def test_predict_streams(model, tmp_path):
    """The first answers come before the input ends, and memory does not grow with it."""
    arguments = [sys.executable, "-m", "albert_tf.cli", "predict", "--model", str(model)]
    process = subprocess.Popen(
        [*arguments, "--input", "-", "--batch-size", "4"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    process.stdin.write("A quiet delight.\n" * 8)  # four more than it must read before it answers
    process.stdin.flush()
    assert process.stdout.readline().split("\t")[0] in ("bad", "good")
    process.stdin.close()
    assert len(process.stdout.readlines()) == 7
    assert process.wait() == 0

    def peak(lines):
        """Bytes at the most, by a small parent: a child's figure begins with its parent's."""
        path = tmp_path / "texts.txt"
        path.write_text(("The music stayed with me for days. " * 400 + "\n") * lines)
        measure = "import os, subprocess, sys\n"
        measure += "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        measure += "_, status, usage = os.wait4(child.pid, 0)\n"
        measure += "print(usage.ru_maxrss * 1024, status)"
        command = [sys.executable, "-c", measure, *arguments, "--input", str(path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        found, status = done.stdout.split()
        assert status == "0", done.stderr
        return int(found)

    few, many = peak(40), peak(4000)  # 0.5 and 56 MB
    assert many - few < 40e6


def test_a_closed_pipe_is_no_error(model):
    line = f"yes 'A quiet delight.' | {sys.executable} -m albert_tf.cli predict --model {model} "
    line += "--input - | head -n 2; echo ${PIPESTATUS[1]}"
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True)
    assert len(done.stdout.splitlines()) == 3
    assert done.stdout.splitlines()[-1] == "0"
    assert "Traceback" not in done.stderr


def test_evaluate(run, model, tmp_path):
    (tmp_path / "dev.csv").write_text("text,label\nA delight.,good\nDull.,bad\nNoisy.,bad\n")
    arguments = ("evaluate", "--model", model, "--task", "classify", "--data")
    status, output, _ = run(*arguments, tmp_path, "--json")
    assert status == 0
    scores = json.loads(output)
    assert scores["examples"] == 3
    _, predicted, _ = run("predict", "--model", model, "A delight.", "Dull.", "Noisy.")
    labels = [line.split("\t")[0] for line in predicted.splitlines()]
    right = sum(map(str.__eq__, labels, ("good", "bad", "bad")))
    assert scores["accuracy"] == pytest.approx(right / 3)
    assert f"accuracy\t{right / 3:.4f}" in run(*arguments, tmp_path / "dev.csv")[1]
    (tmp_path / "dev.csv").write_text("text,label\nA delight.,fine\n")
    status, _, errors = run(*arguments, tmp_path)
    assert (status, "must be one of bad, good. Received: 'fine'" in errors) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("predict", "--model", "{tmp}", "text"), "must hold config.json"),
        (("predict", "--model", "{tmp}/none", "text"), "neither a directory here nor such a name"),
        (("predict", "--model", "{model}"), "Texts come as arguments or with --input"),
        (("predict", "--model", "{model}", "--input", "{tmp}/none"), "No such file or directory"),
        (("predict", "--model", "{model}", "--batch-size", "0", "text"), "must be 1 or more"),
        (
            ("evaluate", "--model", "{model}", "--task", "sst2", "--data", "{tmp}"),
            "one file dev.tsv",
        ),
        (
            (
                "finetune",
                "--task",
                "sst2",
                "--data",
                "{tmp}",
                "--model",
                "tiny",
                "--output",
                "{tmp}/o",
            ),
            "must have one file train.tsv",
        ),
    ],
)
def test_a_users_mistake_is_one_line_and_status_2(run, model, tmp_path, arguments, message):
    filled = [argument.format(tmp=tmp_path, model=model) for argument in arguments]
    status, output, errors = run(*filled)
    assert status == 2
    assert output == ""
    assert errors.startswith("albert-tf: error: ")
    assert message in errors


def test_a_vocabulary_of_another_size(run, model, tmp_path):
    for path in model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["vocab_size"] += 1
    AlbertForSequenceClassification(AlbertConfig.from_dict(config)).save_pretrained(tmp_path)
    status, _, errors = run("predict", "--model", tmp_path, "text")
    assert status == 2
    assert f"{config['vocab_size'] - 1} pieces in the tokenizer" in errors


def test_wrong_use_is_status_2(capsys):
    for arguments in (["fintune"], [], ["predict"]):
        with pytest.raises(SystemExit, match="2"):
            cli.main(arguments)
    assert "albert-tf" in capsys.readouterr().err


def test_version_and_help_need_no_tensorflow():
    code = "import sys, albert_tf.cli as cli\ntry: cli.main([{!r}])\nexcept SystemExit: pass\n"
    for option in ("--version", "--help"):
        check = code.format(option) + "assert not {'keras', 'tensorflow'} & sys.modules.keys()"
        done = subprocess.run(
            [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from albert_tf.assets import reviews
from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training.finetune import finetune
from albert_tf.training.options import FinetuningOptions
from albert_tf.training.run import Run

ROOT = Path(__file__).resolve().parents[2]
GOOD = ("warm", "funny", "clever", "kind", "fresh", "wonderful", "generous", "quiet")
BAD = ("dull", "noisy", "broken", "rude", "cold", "dirty", "late", "smoky")


def write(folder):
    """51 sentences whose label is told by one word, and 13 to judge by."""
    folder.mkdir()
    rows = [
        f"The {thing} was {word}.\t{label}"
        for thing in ("film", "room", "meal", "staff")
        for words, label in ((GOOD, "good"), (BAD, "bad"))
        for word in words
    ]
    for name, part in (
        ("train", [row for row in rows if row not in rows[::5]]),
        ("dev", rows[::5]),
    ):
        (folder / f"{name}.tsv").write_text("text\tlabel\n" + "\n".join(part) + "\n")
    return folder


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "data")


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A model that was fine-tuned on such sentences: its directory, which stays as it is."""
    folder = tmp_path_factory.mktemp("first")
    finetune(options(write(folder / "data"), folder / "model", epochs=1))
    return folder / "model"


def options(data, output, **others):
    given = {"model": "tiny", "epochs": 2, "batch_size": 8, "vocab_size": 120, "max_length": 16}
    return FinetuningOptions(
        **{**given, "task": "classify", "data": data, "output": output, **others}
    )


def test_what_is_left_is_a_model_directory(tmp_path):
    given = {"epochs": 3, "batch_size": 16, "vocab_size": 2000, "max_length": 48}
    given |= {"model": "mini", "text_column": "sentence"}
    report = finetune(options(reviews(), tmp_path / "out", **given))
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        "config.json",
        "model.safetensors",
        "options.yaml",
        "spiece.model",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "report.json",
        "logs",
    }
    assert report == json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["best"]["accuracy"] == max(row["val_accuracy"] for row in report["history"])
    assert report["best"]["accuracy"] > 0.75
    assert report["step"] == report["settings"]["steps"] == 3 * 27
    assert report["versions"].keys() >= {"python", "tensorflow", "keras"}
    assert list((tmp_path / "out" / "logs").rglob("events*"))
    model = AlbertForSequenceClassification.from_pretrained(tmp_path / "out")
    assert model.config.id2label == {0: "negative", 1: "positive"}
    tokenizer = AlbertTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.vocab_size == model.config.vocab_size
    assert tokenizer.model_max_length == 48


def test_a_finished_model_can_be_fine_tuned_on(data, first, tmp_path):
    report = finetune(options(data, tmp_path / "second", model=str(first), steps=3))
    assert report["step"] == 3


def test_regression(tmp_path):
    rows = [f'{{"body": "{"good " * (n % 5 + 1)}", "stars": {n % 5}}}' for n in range(40)]
    (tmp_path / "all.jsonl").write_text("\n".join(rows))
    report = finetune(
        options(
            tmp_path / "all.jsonl",
            tmp_path / "out",
            text_column="body",
            label_column="stars",
            regression=True,
            dev_fraction=0.25,
        )
    )
    assert report["examples"] == {"train": 30, "dev": 10}
    assert {"pearson", "spearman"} <= report["best"].keys()
    model = AlbertForSequenceClassification.from_pretrained(tmp_path / "out")
    assert model.problem_type == "regression"


def test_other_examples_do_not_go_on_with_a_run(data, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "on_epoch_end", stop)
        with pytest.raises(KeyboardInterrupt):
            finetune(options(data, tmp_path / "out", save_steps=3))
    (data / "dev.tsv").write_text((data / "dev.tsv").read_text() + "The soup was cold.\tbad\n")
    with pytest.raises(UserError, match="examples_sha256: '.*' then, '.*' now"):
        finetune(options(data, tmp_path / "out", save_steps=3))


def test_early_stopping(data, tmp_path):
    report = finetune(options(data, tmp_path / "out", epochs=9, learning_rate=1e-9, patience=2))
    assert len(report["history"]) == report["best"]["epoch"] + 2 < 9


def command(data, output, *others):
    arguments = ["--task", "classify", "--data", str(data), "--model", "tiny", "--batch-size", "4"]
    arguments += ["--epochs", "6", "--vocab-size", "120", "--max-length", "16", "--dropout", "0.2"]
    arguments += ["--save-steps", "5", "--output", str(output), *others]
    return [sys.executable, "-m", "albert_tf.cli", "finetune", *arguments]


def run(arguments, **others):
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, **others)


def written_at(path):
    return path.stat().st_mtime_ns if path.exists() else None


@pytest.mark.slow
def test_a_run_that_is_killed_and_then_stopped_ends_as_an_undisturbed_one(data, tmp_path):
    undisturbed = run(command(data, tmp_path / "whole"))
    assert undisturbed.returncode == 0, undisturbed.stderr
    expected = (tmp_path / "whole" / "model.safetensors").read_bytes()
    output = tmp_path / "disturbed"
    state = output / ".training" / "state.safetensors"
    saved = None
    for number, status in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
        process = subprocess.Popen(
            command(data, output), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        while written_at(state) == saved and process.poll() is None:
            time.sleep(0.01)
        os.kill(process.pid, number)
        _, stderr = process.communicate()
        assert process.returncode == status, stderr.decode()
        assert b"Traceback" not in stderr
        assert state.exists() and not (output / "model.safetensors").exists()
        saved = written_at(state)
    resumed = run(command(data, output))
    assert resumed.returncode == 0, resumed.stderr
    assert (output / "model.safetensors").read_bytes() == expected


def test_an_output_that_exists(data, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="must be new, or hold an interrupted run.*--force"):
        finetune(options(data, tmp_path / "out"))
    finetune(options(data, tmp_path / "out", force=True))
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"batch_size": 0}, "batch_size must be 1 or more. Received: 0"),
        ({"steps": -1}, "steps must be 1 or more"),
        ({"max_length": 600}, "max_length=600, max_position_embeddings=128"),
        ({"text_column": "sentence"}, "a column 'sentence'.*'text', 'label'"),
        ({"data": Path("missing")}, "must be a folder, or a file. Received: missing"),
        ({"vocab": Path("missing")}, "vocabulary must be a file .* Received: missing"),
    ],
)
def test_bad_options(data, tmp_path, others, message):
    with pytest.raises(UserError, match=message):
        finetune(options(**{"data": data, "output": tmp_path / "out", **others}))
    assert not (tmp_path / "out" / "config.json").exists()


def test_a_vocabulary_that_is_not_the_models(data, first, tmp_path, tiny_vocabulary):
    model = shutil.copytree(first, tmp_path / "first")
    (model / "spiece.model").write_bytes(tiny_vocabulary)
    with pytest.raises(
        UserError, match=r"\d+ pieces in the tokenizer, vocab_size=\d+ in the model"
    ):
        finetune(options(data, tmp_path / "second", model=str(model)))


def test_a_full_disk_loses_nothing(data, tmp_path, monkeypatch):
    import safetensors.numpy

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.numpy, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        finetune(options(data, tmp_path / "out"))
    monkeypatch.undo()
    assert not list((tmp_path / "out").rglob("*.safetensors"))
    assert finetune(options(data, tmp_path / "out"))["step"] == 14

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from albert_tf import models
from albert_tf.cli import main
from albert_tf.config import AlbertConfig
from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.registry import task_of
from albert_tf.errors import Interrupted, UserError
from albert_tf.files import check_own
from albert_tf.models import AlbertForSequenceClassification, AlbertModel
from albert_tf.models.task import TaskModel
from albert_tf.optimizers import AlbertAdamW, WarmupPolynomialDecay
from albert_tf.outputs import RUN
from albert_tf.recipes import DROPOUT_RATES
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training.callbacks import KeepBest
from albert_tf.training.checkpoints import Saver
from albert_tf.training.curve import Curve
from albert_tf.training.evaluate import evaluate
from albert_tf.training.finetune import finetune
from albert_tf.training.options import FinetuningOptions

pytestmark = pytest.mark.usefixtures("quick_runs")
ROOT = Path(__file__).resolve().parents[2]
GOOD = ("warm", "funny", "clever", "kind", "fresh", "wonderful", "generous", "quiet")
BAD = ("dull", "noisy", "broken", "rude", "cold", "dirty", "late", "smoky")


def write(folder):
    """Writes 51 sentences whose label depends on one word, and 13 for evaluation."""
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


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write(tmp_path_factory.mktemp("reviews") / "data")


def options(data, output, **others):
    given = {"model": "tiny", "batch_size": 8, "max_length": 16}
    given |= {} if "steps" in others else {"epochs": 2}
    given |= {} if {"model", "vocab"} & others.keys() else {"vocab_size": 120}
    return FinetuningOptions(
        **{**given, "task": "classify", "data": data, "output": output, **others}
    )


REPORTS = ("README.md", "confusion.png", "curves.png", "mistakes.md")


class Crash(Exception):
    """Stands in for the death of the process."""


@contextlib.contextmanager
def at_step(number, act):
    """Returns a patch that acts right after a step, before all other work of that step."""
    after = Curve.on_train_batch_end

    def acts(curve, *given, **named):
        if curve.step + 1 == number:
            act()
        after(curve, *given, **named)

    with patch.object(Curve, "on_train_batch_end", acts):
        yield


def crash(*_, **__):
    raise Crash


def crash_and_resume(**given):
    with contextlib.suppress(Crash), at_step(10, crash):
        finetune(**given)
    finetune(**given)


def on_two_devices(module, function, arguments):
    """Calls a function in a process with two logical devices."""
    command = [sys.executable, ROOT / "tests" / "training" / "two_devices.py", module, function]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([*command, json.dumps(arguments, default=str)], env=environment, check=True)


def ask_to_stop():
    signal.raise_signal(signal.SIGINT)


def three_epochs(data, output):
    """Returns options of three epochs of 7 steps, with dropout, so that its seeds matter."""
    given = {"epochs": 3, "dropout": 0.1, "learning_rate": 3e-3, "save_steps": 4}
    return options(data, output, **given)


@pytest.fixture(scope="module")
def uninterrupted(data, tmp_path_factory):
    """Returns the report and the output of an uninterrupted run."""
    output = tmp_path_factory.mktemp("uninterrupted") / "out"
    return finetune(three_epochs(data, output)), output


def test_the_output_is_a_model_directory(uninterrupted, data, tmp_path):
    """An evaluation on the same data has the scores and the reports of the training."""
    report, output = uninterrupted
    check_own(output, RUN)
    names = {"config.json", "model.safetensors", "options.yaml", "report.json", "logs", *REPORTS}
    names |= {"spiece.model", "tokenizer_config.json", "special_tokens_map.json"}
    assert {path.name for path in output.iterdir()} == names
    assert report == json.loads((output / "report.json").read_text())
    assert [row["step"] for row in report["history"]] == [7, 14, 21]
    names = {"loss", "accuracy", "val_loss", "val_accuracy", "val_macro_f1"}
    assert names < report["history"][0].keys()
    assert report["history"][-1]["loss"] < report["history"][0]["loss"]
    assert report["best"]["accuracy"] == max(row["val_accuracy"] for row in report["history"])
    assert report["metrics"] == ["accuracy", "macro_f1"]
    assert report["best"]["step"] == 7 * report["best"]["epoch"]
    assert report["examples"]["train"] % 8  # a smaller last batch
    assert report["examples_per_second"] == 3 * report["examples"]["train"] / report["seconds"]
    assert report["step"] == report["settings"]["steps"] == 21
    assert report["versions"].keys() >= {"python", "tensorflow", "keras"}
    assert list((output / "logs").glob("events*"))
    model = AlbertForSequenceClassification.from_pretrained(output)
    assert model.config.id2label == {0: "bad", 1: "good"}
    tokenizer = AlbertTokenizer.from_pretrained(output)
    assert tokenizer.vocab_size == model.config.vocab_size
    assert tokenizer.model_max_length == 16
    new = tmp_path / "new"
    scores = evaluate(model=str(output), data=data, task="classify", report=new)
    assert scores["accuracy"] == report["best"]["accuracy"] and scores["examples"] == 13
    assert {path.name for path in new.iterdir()} == {"confusion.png", "mistakes.md"}
    for path in new.iterdir():
        assert path.read_bytes() == (output / path.name).read_bytes()


def continued_at(step):
    """Returns a patch that makes a new run resume after a step, without a checkpoint."""
    return patch.object(Saver, "_continue_counts", lambda saver: setattr(saver, "step", step))


def test_a_resumed_run_begins_with_its_next_batch(data, tmp_path):
    """Compares the batches from number 3 on with those from the start."""

    def batches_of_fit(step):
        fitted = patch.object(TaskModel, "fit", side_effect=Crash)
        with continued_at(step), fitted as fit, pytest.raises(Crash):
            finetune(options(data, tmp_path / "out"))
        return fit.call_args.args[0]

    whole, rest = batches_of_fit(0), batches_of_fit(3)
    for expected, found in zip(list(whole.take(5))[3:], rest.take(2), strict=True):
        for one, other in zip(*map(keras.tree.flatten, (expected, found)), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_resumed_run_ends_as_an_uninterrupted_one(data, uninterrupted, tmp_path, ctrl_c_enabled):
    """Crashes and stops one run in an epoch, at its end, in an evaluation and while it saves.

    The last one reads the same examples from another folder. Training's means are added up in
    float32, up to the moments at which a run was interrupted.
    """
    output = tmp_path / "out"
    for disturb in (
        at_step(6, crash),
        at_step(6, ask_to_stop),
        at_step(14, ask_to_stop),
        patch("albert_tf.training.evaluate.model_outputs", crash),
        patch("albert_tf.training.run.write_json", crash),  # while it writes the output
    ):
        with disturb, pytest.raises((Crash, Interrupted)):
            finetune(three_epochs(data, output))
    moved = shutil.copytree(data, tmp_path / "other" / data.name)
    report = finetune(three_epochs(moved, output))
    expected, whole = uninterrupted
    assert (report["best"], report["step"]) == (expected["best"], expected["step"])
    for point, same in zip(report["history"], expected["history"], strict=True):
        assert point == pytest.approx(same, rel=1e-6)
    for name in ("model.safetensors", *REPORTS):
        assert (output / name).read_bytes() == (whole / name).read_bytes()
    assert not (output / "checkpoints").exists()


@pytest.mark.slow
@pytest.mark.tensorflow
def test_two_devices_and_micro_batches_end_with_the_weights_of_one_device(data, tmp_path):
    """The last batch, of three examples, is shared unevenly; a resumed run gives the same bits."""
    sizes = {"vocab_size": 50, "num_hidden_layers": 2, "classifier_dropout_prob": 0.0}
    config = tmp_path / "model.json"
    config.write_text(json.dumps(AlbertConfig.from_size("tiny", **sizes).to_dict()))
    given = {"task": "classify", "data": data, "model": str(config), "vocab_size": 50}
    given |= {"save_steps": 4}  # a checkpoint adds up the metrics before it
    given |= {"epochs": 2, "batch_size": 8, "max_length": 16, "learning_rate": 1e-3, "dropout": 0.0}
    report = finetune(**given, output=tmp_path / "one", strategy="none")
    given |= {"output": tmp_path / "two", "strategy": "mirrored", "micro_batches": 3}
    on_two_devices("tests.training.test_finetune", "crash_and_resume", given)
    whole = {**given, "output": tmp_path / "whole"}
    on_two_devices("albert_tf.training.finetune", "finetune", whole)
    weights = [tmp_path / name / "model.safetensors" for name in ("two", "whole")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=0, atol=1e-5, err_msg=name)
    history = json.loads((tmp_path / "two" / "report.json").read_text())["history"]
    assert history[-1] == pytest.approx(report["history"][-1], abs=1e-5)


@pytest.mark.usefixtures("without_graphs")
def test_regression_from_a_classifier(uninterrupted, tmp_path, caplog):
    """The second task has the first one's encoder, which hardly trains, and another head."""
    rows = [f'{{"body": "{"good " * (n % 5 + 1)}", "stars": {n % 5}}}' for n in range(40)]
    data, first, second = tmp_path / "all.jsonl", uninterrupted[1], tmp_path / "out"
    data.write_text("\n".join(rows))
    given = {"text_column": "body", "label_column": "stars", "regression": True}
    given |= {"dev_fraction": 0.2, "steps": 1, "learning_rate": 1e-30}
    report = finetune(options(data, second, model=str(first), **given))
    assert report["examples"] == {"train": 32, "dev": 8}
    assert f"only 8 examples of {data}" in caplog.text
    assert {"pearson", "spearman"} <= report["best"].keys()
    assert AlbertConfig.from_pretrained(second).problem_type == "regression"
    assert not (second / "confusion.png").exists()
    assert "| distance | rows | expected" in (second / "mistakes.md").read_text()
    before, after = (load_file(folder / "model.safetensors") for folder in (first, second))
    kept = [name for name in before if name.startswith("albert.")]
    assert len(kept) > 10
    for name in kept:
        np.testing.assert_array_equal(before[name], after[name])
    assert (len(before["classifier.weight"]), len(after["classifier.weight"])) == (2, 1)


@pytest.mark.usefixtures("without_graphs")
def test_several_labels(tmp_path, capsys):
    """Stores the thresholds with which the best version was scored."""
    rows = [
        {"text": f"{good} {bad}", "label": [*["kind"] * (good in GOOD), *["bad"] * (bad in BAD)]}
        for good in ("film", *GOOD[:4])
        for bad in ("film", *BAD[:4])
    ]
    path, output = tmp_path / "all.jsonl", tmp_path / "out"
    path.write_text("\n".join(map(json.dumps, rows)))
    given = {"multi_label": True, "dev_fraction": 0.25, "learning_rate": 3e-3, "epochs": 1}
    report = finetune(options(path, output, **given, test=path))
    again = evaluate(model=output, task="classify", data=path)
    assert report["test"].pop("file") == "all.jsonl"
    assert report["test"].pop("in_train_or_dev") == len(rows)
    for one, other in ((report["test"], again), (report["test"]["classes"], again["classes"])):
        for name in one.keys() - {"classes"}:
            assert one[name] == pytest.approx(other[name], abs=1e-6)
    assert report["classes"].keys() == again["classes"].keys()
    assert report["test"]["examples"] == len(rows) > report["examples"]["dev"]
    assert set(report["best"]) >= {"micro_f1", "macro_f1", "mean_average_precision"}
    model = AlbertForSequenceClassification.from_pretrained(output)
    assert model.problem_type == "multi_label_classification"
    assert model.config.labels == ("bad", "kind") and len(model.config.thresholds) == 2
    evaluate(model=output, task="classify", data=path, predictions=tmp_path / "found")
    written = (tmp_path / "found" / "predictions.jsonl").read_text().splitlines()
    last = json.loads(written[-1])
    command = ["predict", "--model", str(output), rows[-1]["text"]]
    assert main([*command, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["labels"] == last["labels"]
    assert row["probabilities"] == pytest.approx(last["probabilities"], abs=1e-5)
    assert main(command) == 0
    fields = capsys.readouterr().out.rstrip("\n").split("\t")
    assert [name for name in fields[::2] if name] == row["labels"]


@pytest.mark.usefixtures("without_graphs")
def test_other_examples_are_refused(tmp_path):
    data = write(tmp_path / "data")
    with at_step(2, crash), pytest.raises(Crash):
        finetune(options(data, tmp_path / "out", save_steps=1))
    (data / "dev.tsv").write_text((data / "dev.tsv").read_text() + "The soup was cold.\tbad\n")
    with pytest.raises(UserError, match="examples_sha256 was '.*', is '.*'"):
        finetune(options(data, tmp_path / "out", save_steps=1))


@pytest.mark.usefixtures("without_graphs")
def test_force_and_patience(data, tmp_path):
    """Only replaces an earlier run; ends after an epoch that is no better."""
    output = tmp_path / "out"
    output.mkdir()
    (output / "options.yaml").touch()
    (output / "README.md").write_text("an earlier card")
    with pytest.raises(UserError, match="out contains a finished run.*force=True"):
        finetune(options(data, output))
    (output / "checkpoints").mkdir()
    notes = [output / name for name in ("logs", "checkpoints/notes.txt", "notes.txt")]
    for path in notes:
        path.write_text("mine")
        for force in (False, True):
            with pytest.raises(UserError, match=f"out contains .*{path.name}, which is not part"):
                finetune(options(data, output, force=force))
        path.unlink()
    without_progress = {"epochs": 5, "learning_rate": 1e-9, "patience": 1, "batch_size": 51}
    report = finetune(options(data, output, force=True, **without_progress))
    assert "earlier" not in (output / "README.md").read_text()
    assert len(report["history"]) == report["best"]["epoch"] + 1 < 5


def test_a_vocabulary_that_is_not_the_models(data, uninterrupted, tmp_path, tiny_vocabulary):
    model = shutil.copytree(uninterrupted[1], tmp_path / "first")
    (model / "spiece.model").write_bytes(tiny_vocabulary)
    with pytest.raises(
        UserError, match=r"\d+ tokens in the tokenizer, vocab_size=\d+ in the model"
    ):
        finetune(options(data, tmp_path / "second", model=str(model)))


def _words(text, word, good):
    return {"words": text.split(), "tags": ["B-WORD" if w == word else "O" for w in text.split()]}


def _question(text, word, good):
    answers = {"text": [word], "answer_start": [text.index(word)]}
    return {"id": text, "question": "How was it?", "context": text, "answers": answers}


# For each task: a row of a file, the columns that `fit` takes, and fields of the configuration.
SAME = {
    "classify": (
        lambda text, word, good: {"text": text, "label": "good" if good else "bad"},
        lambda column: (column("text"), column("label")),
        {"id2label": {0: "bad", 1: "good"}},
    ),
    "tag": (
        _words,
        lambda column: (column("words"), column("tags")),
        {"id2label": {0: "O", 1: "B-WORD"}},
    ),
    "squad": (
        _question,
        lambda column: ((column("question"), column("context")), column("answers")),
        {},
    ),
    "choices": (
        lambda text, word, good: {"context": text, "choices": ["Yes.", "No."], "label": int(good)},
        lambda column: ((column("context"), column("choices")), column("label")),
        {},
    ),
}


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize(
    "task",
    [
        "classify",
        *(pytest.param(task, marks=pytest.mark.slow) for task in SAME if task != "classify"),
    ],
)
def test_the_command_is_fit(task, tiny_tokenizer, tmp_path, monkeypatch):
    """Ten lines of Python give the same weights as the command, with dropout."""
    row_of, columns_of, fields = SAME[task]
    rows = [
        row_of(f"The {thing} was {word}.", f"{word}.", word in GOOD)
        for thing in ("film", "room")
        for word in GOOD + BAD
    ]
    data, encoder = tmp_path / "data", tmp_path / "encoder"
    data.mkdir()
    for name, part in (("train", rows[:24]), ("dev", rows[24:])):
        (data / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in part))
    config = AlbertConfig.from_size("tiny", vocab_size=len(tiny_tokenizer))
    AlbertModel(config).save_pretrained(encoder)
    tiny_tokenizer.save_pretrained(encoder)
    given = {"epochs": 2, "batch_size": 16, "learning_rate": 3e-4, "max_length": 32}
    report = finetune(task=task, data=data, model=str(encoder), output=tmp_path / "a", **given)
    assert report["settings"]["steps"] == 4 and report["settings"]["dropout"] == 0.1

    keras.utils.set_random_seed(12345)
    model = getattr(models, task_of(LabelledData(task=task, data=data)).model).from_pretrained(
        encoder, **fields, **dict.fromkeys(DROPOUT_RATES, 0.1)
    )
    model.tokenizer.model_max_length = 32
    schedule = WarmupPolynomialDecay(3e-4, 0, total_steps=4, form="usual")
    model.compile(AlbertAdamW(schedule, bias_correction=True))
    x, y = columns_of(lambda name: [row[name] for row in rows[:24]])
    # The loss decides between versions with equal scores.
    names = report["metrics"][0], "loss"
    scores = iter({name: point[f"val_{name}"] for name in names} for point in report["history"])
    keep = KeepBest(lambda: next(scores), tmp_path / "b")
    monkeypatch.setattr(np.random, "randint", lambda *_: 12345)  # the seed of the order
    model.fit(x, y, batch_size=16, epochs=2, callbacks=[keep], verbose=0)
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in "ab")
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name], err_msg=name)

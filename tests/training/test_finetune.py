import contextlib
import json
import shutil
import signal
from pathlib import Path

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from albert_tf.cli import main
from albert_tf.config import AlbertConfig
from albert_tf.data import classification_dataset
from albert_tf.errors import Interrupted, UserError
from albert_tf.files import locked
from albert_tf.models import AlbertForSequenceClassification, AlbertModel
from albert_tf.optimizers import AlbertAdamW, WarmupPolynomialDecay
from albert_tf.recipes import DROPOUT_RATES
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training.callbacks import Curve, KeepBest
from albert_tf.training.evaluate import evaluate
from albert_tf.training.finetune import finetune
from albert_tf.training.options import FinetuningOptions

pytestmark = pytest.mark.usefixtures("quick_runs")
ROOT = Path(__file__).resolve().parents[2]
GOOD = ("warm", "funny", "clever", "kind", "fresh", "wonderful", "generous", "quiet")
MNLI = ("entailment", "neutral", "contradiction")
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


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "data")


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

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Curve, "on_train_batch_end", acts)
        yield


@contextlib.contextmanager
def patched(name, function):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(name, function)
        yield


def crash(*_, **__):
    raise Crash


def ask_to_stop():
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(scope="module")
def shared_data(tmp_path_factory):
    return write(tmp_path_factory.mktemp("shared") / "data")


def three_epochs(data, output, **others):
    """Returns options of three epochs of 7 steps, with dropout, so that its seeds matter."""
    given = {"epochs": 3, "dropout": 0.1, "learning_rate": 3e-3, "save_steps": 4}
    return options(data, output, **{**given, **others})


@pytest.fixture(scope="module")
def uninterrupted(shared_data, tmp_path_factory):
    """Returns the report and the output of an uninterrupted run."""
    output = tmp_path_factory.mktemp("uninterrupted") / "out"
    return finetune(three_epochs(shared_data, output)), output


def assert_same_end(report, output, uninterrupted):
    """Compares every bit of the best weights and of the reports, and every score and loss.

    Training's means are added up in float32, up to the moments at which a run was interrupted.
    """
    for name in ("best", "step"):
        assert report[name] == uninterrupted[0][name]
    for point, expected in zip(report["history"], uninterrupted[0]["history"], strict=True):
        assert point == pytest.approx(expected, rel=1e-6)
    for name in ("model.safetensors", *REPORTS):
        assert (output / name).read_bytes() == (uninterrupted[1] / name).read_bytes()


def test_the_output_is_a_model_directory(uninterrupted, shared_data):
    report, output = uninterrupted
    assert {path.name for path in output.iterdir()} == {
        "config.json",
        "model.safetensors",
        "options.yaml",
        "spiece.model",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "report.json",
        "logs",
        *REPORTS,
    }
    assert report == json.loads((output / "report.json").read_text())
    assert [row["step"] for row in report["history"]] == [7, 14, 21]
    assert {"loss", "accuracy", "val_accuracy", "val_macro_f1"} < report["history"][0].keys()
    assert report["history"][-1]["loss"] < report["history"][0]["loss"]
    assert report["best"]["accuracy"] == max(row["val_accuracy"] for row in report["history"])
    assert report["metrics"] == ["accuracy", "macro_f1"]
    assert report["best"]["step"] == 7 * report["best"]["epoch"]
    assert report["examples"]["train"] % 8  # a smaller last batch
    assert report["examples_per_second"] == 3 * report["examples"]["train"] / report["seconds"]
    assert report["step"] == report["settings"]["steps"] == 21
    assert 0 < report["seconds"] < 600
    assert report["versions"].keys() >= {"python", "tensorflow", "keras"}
    assert list((output / "logs").glob("events*"))
    model = AlbertForSequenceClassification.from_pretrained(output)
    assert model.config.id2label == {0: "bad", 1: "good"}
    tokenizer = AlbertTokenizer.from_pretrained(output)
    assert tokenizer.vocab_size == model.config.vocab_size
    assert tokenizer.model_max_length == 16
    scores = evaluate(model=str(output), data=shared_data, task="classify")
    assert scores["accuracy"] == report["best"]["accuracy"] and scores["examples"] == 13


def test_reports_of_an_evaluation(uninterrupted, shared_data, tmp_path):
    """They are those of the training for the same data."""
    evaluate(
        model=str(uninterrupted[1]), data=shared_data, task="classify", report=tmp_path / "new"
    )
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"confusion.png", "mistakes.md"}
    for path in (tmp_path / "new").iterdir():
        assert path.read_bytes() == (uninterrupted[1] / path.name).read_bytes()


class Begun(Exception):
    """A run's batches, as `train` receives them."""


def capture(options, strategy, model, batches, *_):
    raise Begun(batches)


def assert_batches_begin_at_any(module, run, options, monkeypatch):
    """Compares the batches from number 3 on with those from the start."""
    monkeypatch.setattr(f"albert_tf.training.{module}.train", capture)
    with pytest.raises(Begun) as begun:
        run(options)
    (batches,) = begun.value.args
    whole = list(batches(0).take(5))
    for expected, found in zip(whole[3:], batches(3).take(2), strict=True):
        for one, other in zip(*map(keras.tree.flatten, (expected, found)), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_resumed_run_begins_with_its_next_batch(data, tmp_path, monkeypatch):
    given = options(data, tmp_path / "out")
    assert_batches_begin_at_any("finetune", finetune, given, monkeypatch)


@pytest.mark.slow
def test_a_resumed_run_ends_as_an_uninterrupted_one(
    shared_data, uninterrupted, tmp_path, ctrl_c_enabled
):
    """Crashes and stops one run in an epoch, at its end, in an evaluation and while it saves.

    The last one reads the same examples from another folder.
    """
    given = three_epochs(shared_data, tmp_path / "out")
    for disturb in (
        at_step(6, crash),
        at_step(6, ask_to_stop),
        at_step(14, ask_to_stop),
        patched("albert_tf.training.finetune.predictions", crash),
        patched("albert_tf.training.checkpoints.write_json", crash),  # while it writes the output
    ):
        with disturb, pytest.raises((Crash, Interrupted)):
            finetune(given)
    moved = shutil.copytree(shared_data, tmp_path / "other" / shared_data.name)
    report = finetune(three_epochs(moved, tmp_path / "out"))
    assert_same_end(report, tmp_path / "out", uninterrupted)
    assert not (tmp_path / "out" / "checkpoints").exists()


@pytest.mark.usefixtures("without_graphs")
def test_a_finished_model_can_be_fine_tuned_further(data, uninterrupted, tmp_path):
    report = finetune(options(data, tmp_path / "second", model=str(uninterrupted[1]), steps=3))
    assert report["step"] == 3 and report["history"][0]["val_accuracy"] > 0.5


def test_a_model_that_has_not_learned(data, tmp_path, caplog):
    """At a rate of 30 all predictions become alike; the classes have as many examples."""
    report = finetune(options(data, tmp_path / "out", learning_rate=30.0, epochs=1))
    assert report["best"]["one_class"] == 1.0
    assert "nearly all its predictions on dev are alike. Try --learning-rate 10," in caplog.text
    assert "--class-weights" not in caplog.text


@pytest.mark.usefixtures("without_graphs")
def test_two_stages(tmp_path):
    """The second task has the first one's encoder and another head."""
    mnli, stsb = tmp_path / "MNLI", tmp_path / "STS-B"
    for folder, header, labels, names in (
        (mnli, "gold_label", MNLI, ("train", "dev_matched", "dev_mismatched")),
        (stsb, "score", ("0.5", "2", "4.5"), ("train", "dev")),
    ):
        folder.mkdir()
        rows = [f"the {word} film\tthe film\t{labels[n % 3]}" for n, word in enumerate(GOOD)]
        for name in names:
            text = "\n".join([f"sentence1\tsentence2\t{header}", *rows])
            (folder / f"{name}.tsv").write_text(text)
    first, second = tmp_path / "first", tmp_path / "second"
    report = finetune(options(mnli, first, task="mnli", steps=1))
    assert report["best"]["mismatched_accuracy"] == report["best"]["accuracy"]
    given = {"model": str(first), "task": "stsb", "steps": 1, "learning_rate": 1e-30}
    finetune(options(stsb, second, **given))
    before, after = (load_file(folder / "model.safetensors") for folder in (first, second))
    kept = [name for name in before if name.startswith("albert.")]
    assert len(kept) > 10
    for name in kept:
        np.testing.assert_array_equal(before[name], after[name])
    assert (len(before["classifier.weight"]), len(after["classifier.weight"])) == (3, 1)
    assert AlbertConfig.from_pretrained(second).problem_type == "regression"


@pytest.mark.usefixtures("without_graphs")
def test_regression(tmp_path, caplog):
    rows = [f'{{"body": "{"good " * (n % 5 + 1)}", "stars": {n % 5}}}' for n in range(40)]
    (tmp_path / "all.jsonl").write_text("\n".join(rows))
    report = finetune(
        options(
            tmp_path / "all.jsonl",
            tmp_path / "out",
            epochs=1,
            text_column="body",
            label_column="stars",
            regression=True,
            dev_fraction=0.2,
        )
    )
    assert report["examples"] == {"train": 32, "dev": 8}
    assert f"dev has 8 of the examples in {tmp_path / 'all.jsonl'}: too few" in caplog.text
    assert {"pearson", "spearman"} <= report["best"].keys()
    model = AlbertForSequenceClassification.from_pretrained(tmp_path / "out")
    assert model.problem_type == "regression"
    assert not (tmp_path / "out" / "confusion.png").exists()
    assert "| distance | expected" in (tmp_path / "out" / "mistakes.md").read_text()


@pytest.mark.usefixtures("without_graphs")
def test_several_labels(tmp_path, capsys):
    """Stores the thresholds with which the best version was scored."""
    rows = [
        {"text": f"{good} {bad}", "label": [*["kind"] * (good in GOOD), *["bad"] * (bad in BAD)]}
        for good in ("film", *GOOD)
        for bad in ("film", *BAD)
    ]
    path = tmp_path / "all.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    given = {"multi_label": True, "dev_fraction": 0.25, "learning_rate": 3e-3, "epochs": 1}
    report = finetune(options(path, tmp_path / "out", **given))
    best = report["best"]
    assert set(best) >= {"micro_f1", "macro_f1", "mean_average_precision"}
    model = AlbertForSequenceClassification.from_pretrained(tmp_path / "out")
    assert model.problem_type == "multi_label_classification"
    assert model.config.labels == ("bad", "kind") and len(model.config.thresholds) == 2
    arguments = {"model": str(tmp_path / "out"), "task": "classify"}
    scores = evaluate(**arguments, data=path, predictions=tmp_path / "found")
    predicted = [json.loads(line) for line in (tmp_path / "found" / "predictions.jsonl").open()]
    right = sum(
        len({*row["labels"]} & {*each["label"]}) for row, each in zip(predicted, rows, strict=True)
    )
    total = sum(
        len(row["labels"]) + len(each["label"]) for row, each in zip(predicted, rows, strict=True)
    )
    assert scores["micro_f1"] == pytest.approx(2 * right / total)
    assert main(["predict", "--model", str(tmp_path / "out"), "--json", rows[-1]["text"]]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["labels"] == predicted[-1]["labels"]
    assert row["probabilities"] == pytest.approx(predicted[-1]["probabilities"], abs=1e-5)
    assert main(["predict", "--model", str(tmp_path / "out"), rows[-1]["text"]]) == 0
    fields = capsys.readouterr().out.rstrip("\n").split("\t")
    assert [name for name in fields[::2] if name] == row["labels"]


@pytest.mark.usefixtures("without_graphs")
def test_other_examples_are_refused(data, tmp_path):
    with at_step(5, crash), pytest.raises(Crash):
        finetune(options(data, tmp_path / "out", save_steps=3))
    (data / "dev.tsv").write_text((data / "dev.tsv").read_text() + "The soup was cold.\tbad\n")
    with pytest.raises(UserError, match="examples_sha256 was '.*', is '.*'"):
        finetune(options(data, tmp_path / "out", save_steps=3))


@pytest.mark.usefixtures("without_graphs")
def test_a_loss_of_nan_ends_the_run(data, tmp_path):
    with pytest.raises(UserError, match="must be a number. .*lower learning rate.*--force"):
        finetune(options(data, tmp_path / "out", learning_rate=1e38))


@pytest.mark.usefixtures("without_graphs")
def test_an_output_that_exists(data, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    (tmp_path / "out" / "README.md").write_text("an earlier card")
    with pytest.raises(UserError, match="must be new, or hold an interrupted run.*--force"):
        finetune(options(data, tmp_path / "out"))
    with (
        locked(tmp_path / "other"),
        pytest.raises(UserError, match="one run at a time .*other, to which another run"),
    ):
        finetune(options(data, tmp_path / "other"))
    without_progress = {"epochs": 5, "learning_rate": 1e-9, "patience": 1, "batch_size": 16}
    report = finetune(options(data, tmp_path / "out", force=True, **without_progress))
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
    assert "earlier" not in (tmp_path / "out" / "README.md").read_text()
    assert len(report["history"]) == report["best"]["epoch"] + 1 < 5


def test_a_vocabulary_that_is_not_the_models(data, uninterrupted, tmp_path, tiny_vocabulary):
    model = shutil.copytree(uninterrupted[1], tmp_path / "first")
    (model / "spiece.model").write_bytes(tiny_vocabulary)
    with pytest.raises(
        UserError, match=r"\d+ tokens in the tokenizer, vocab_size=\d+ in the model"
    ):
        finetune(options(data, tmp_path / "second", model=str(model)))


@pytest.mark.usefixtures("without_graphs")
def test_the_command_is_fit(tiny_tokenizer, tmp_path):
    """Ten lines of Python give the same weights as the command, with dropout."""
    encoder = tmp_path / "encoder"
    config = AlbertConfig.from_size("tiny", vocab_size=len(tiny_tokenizer))
    AlbertModel(config).save_pretrained(encoder)
    tiny_tokenizer.save_pretrained(encoder)
    texts, labels = ["A fine film.", "Dull.", "Lovely!", "Bad, so bad."] * 3, ["good", "bad"] * 6
    for name in ("train", "dev"):
        rows = zip(texts, labels, strict=True)
        (tmp_path / f"{name}.tsv").write_text(
            "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows)
        )
    given = {"epochs": 2, "batch_size": 4, "learning_rate": 3e-4, "max_length": 32}
    report = finetune(
        task="classify", data=tmp_path, model=str(encoder), output=tmp_path / "a", **given
    )

    keras.utils.set_random_seed(12345)
    rates = dict.fromkeys(DROPOUT_RATES, report["settings"]["dropout"])
    names = {0: "bad", 1: "good"}
    model = AlbertForSequenceClassification.from_pretrained(encoder, id2label=names, **rates)
    schedule = WarmupPolynomialDecay(3e-4, 0, total_steps=6, form="usual")
    model.compile(AlbertAdamW(schedule, bias_correction=True))
    numbers = [model.config.label2id[label] for label in labels]
    dataset = classification_dataset(
        *(model.tokenizer, texts, numbers), batch_size=4, max_length=32, seed=12345
    )
    scores = iter(point["val_accuracy"] for point in report["history"])
    keep = KeepBest(lambda: {"accuracy": next(scores)}, tmp_path / "b")
    model.fit(dataset, epochs=2, callbacks=[keep], verbose=0)
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in "ab")
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name], err_msg=name)

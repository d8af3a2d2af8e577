import dataclasses

import huggingface_hub
import pytest

from albert_tf.checkpoints.hub import in_cell
from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.registry import task_of, train_and_dev
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.options import decisive
from albert_tf.training import reports
from albert_tf.training.options import FinetuningOptions


@pytest.fixture
def report(tmp_path):
    (tmp_path / "secret" / "reviews").mkdir(parents=True)
    scores = {"matthews": 0.25, "macro_f1": 0.5, "best_threshold": 9}
    return {
        "settings": {
            "task": "classify",
            "data": str(tmp_path / "secret" / "reviews"),
            "examples_sha256": "0123abcd",
            "labels": ["bad", "good"],
            "model": "albert/albert-base-v2",
            "seed": 7,
            "patience": None,
            "max_length": 99,
            "regression": False,
            "multi_label": False,
            "class_weights": [],
            "vocab_size": 8000,
            "dev_fraction": 0.1,
            "label_separator": ",",
        },
        "parameters": 1234,
        "examples": {"train": 5000, "dev": 400},
        "data": {"cut": 3},
        "metrics": [*scores],
        "history": [
            {
                **{"step": 9, "loss": 0.5, "val_loss": 0.75},
                **{f"val_{name}": value for name, value in scores.items()},
            }
        ],
        "best": {"epoch": 1, "step": 9, "score": 0.25, **scores},
        "classes": {"b|d": {"precision": 0.5, "recall": 1.0, "f1-score": 2 / 3, "support": 1234}},
        "versions": {"python": "3.11"},
    }


@pytest.fixture(scope="module")
def model(small_config):
    return AlbertForSequenceClassification(
        dataclasses.replace(small_config, id2label={0: "bad", 1: "good"})
    )


def test_a_card_as_the_hub_reads_it(report, model):
    card = huggingface_hub.ModelCard(reports.card("my-model", report, model))
    data = card.data
    assert (data.pipeline_tag, data.library_name) == ("text-classification", "albert_tf")
    assert (data.base_model, data.model_name) == ("albert/albert-base-v2", "my-model")
    assert data.license is data.language is data.datasets is None
    assert data.metrics == ["matthews", "macro_f1"]
    assert [
        (each.metric_type, each.metric_value, each.dataset_type, each.task_type)
        for each in data.eval_results
    ] == [
        ("matthews", 0.25, "classify", "text-classification"),
        ("macro_f1", 0.5, "classify", "text-classification"),
    ]
    for part in (
        'AlbertForSequenceClassification.from_pretrained("my-model")',
        "| matthews | 0.2500 |",
        "5,000, 400 in dev",
        "0123abcd",
        "99 tokens",
        "| seed | 7 |",
        "reviews",
    ):
        assert part in card.text
    assert "| b\\|d | 0.5000 | 1.0000 | 0.6667 | 1,234 |" in card.text
    hidden = ("patience", "secret", "regression", "class_weights", "vocab_size", "dev_fraction")
    for name in (*hidden, "multi_label", "label_separator"):
        assert in_cell(name) not in card.text


@pytest.mark.parametrize("task", ["classify", "sst2", "tag", "squad", "choices", "similarity"])
def test_a_card_of_each_task(report, model, tmp_path, task):
    """The settings of a run contain only the options that its task has."""
    data = report["settings"]["data"]
    options = FinetuningOptions(task=task, data=data, model="tiny", output="out", seed=7)
    report["settings"] = {**decisive(options), "data": data, "labels": [], "max_length": 99}
    text = reports.card("my-model", report, model)
    assert "| seed | 7 |" in text
    assert (in_cell("choices_columns") in text) == (task == "choices")


def test_a_card_lists_the_settings_that_had_an_effect(report, model, tmp_path):
    file = tmp_path / "mails.csv"
    file.touch()
    report["settings"] |= {"data": str(file), "multi_label": True, "class_weights": ["balanced"]}
    report["settings"] |= {"dropout": 0.0, "warmup": 0}
    text = reports.card("my-model", report, model)
    for name, value in (("dev_fraction", 0.1), ("multi_label", True), ("label_separator", ",")):
        assert f"| {in_cell(name)} | {value} |" in text
    assert "balanced" in text and "| dropout | 0.0 |" in text and "| warmup | 0 |" in text


def test_test_scores_on_a_card(report, model):
    found = {"file": "test.csv", "in_train_or_dev": 0, "accuracy": 0.5, "one_class": 1.0}
    report["test"] = {**found, "examples": 1234, "classes": report["classes"]}
    _, text = reports.card("my-model", report, model).split("| on test | |")
    assert "| accuracy | 0.5000 |\n| examples | 1,234 |\n| file | test.csv |" in text
    assert in_cell("one_class") not in text and text.count("| 1,234 |") == 2


def test_a_card_names_a_dataset_of_the_hub(report, model):
    report["settings"] |= {"data": "hub:nyu-mll/glue/sst2@abc", "model": "small"}
    data = huggingface_hub.ModelCard(reports.card("my-model", report, model)).data
    assert data.datasets == ["nyu-mll/glue"] and data.get("base_model") is None
    assert {each.dataset_type for each in data.eval_results} == {"nyu-mll/glue"}


def test_a_card_shows_control_characters(report, model):
    """Of the names of the output, the data, the labels and the scores, also in the metadata."""
    hostile = "hub:owner/data\u202e\x1b[31m"
    report["settings"] |= {"data": hostile, "model": hostile, "labels": [hostile]}
    report["metrics"].append(hostile)
    report["best"][hostile] = 0.5
    text = reports.card(hostile, report, model)
    assert text.replace("\n", "").isprintable() and text.count(r"\u202e") > 9
    assert huggingface_hub.ModelCard(text).data.datasets == [hostile.removeprefix("hub:")]


def test_curves_of_training_and_dev(tmp_path, report, model, monkeypatch):
    drawn = []
    monkeypatch.setattr(reports, "plot_curves", lambda *given: drawn.append(given))
    reports.write_finetuning(tmp_path, tmp_path, report, model)
    scores = {"matthews": 0.25, "macro_f1": 0.5, "best_threshold": 9}
    [(history, evaluation, names, _, best)] = drawn
    assert (history, best) == (report["history"], 9)
    assert evaluation == [{"step": 9, "loss": 0.75, **scores}]
    assert names == ["loss", *scores]


def test_reports_replace_an_earlier_runs(tmp_path, report, model):
    (tmp_path / "confusion.png").touch()
    (tmp_path / "best").mkdir()
    reports.write_finetuning(tmp_path, tmp_path / "best", report, model)
    assert {path.name for path in (tmp_path / "best").iterdir()} == {"README.md", "curves.png"}
    assert not (tmp_path / "confusion.png").exists()


def test_a_summary(tmp_path):
    train = [
        *(("fine film", "good"), ("dull film", "bad"), ("dull film", "bad"), ("dull film", "Bad ")),
        *((f"a film of number {number}", "bad") for number in range(40)),
        *(("", "bad"), ("", "good")),
    ]
    dev = [("fine film", "good"), ("a boat", "bad")]
    for name, rows in (("train.csv", train), ("validation.csv", dev)):
        lines = "".join(f"{text},{label}\n" for text, label in rows)
        (tmp_path / name).write_text(f"text,label\n{lines}")
    task = task_of(LabelledData(task="classify", data=tmp_path, skip_bad_rows=True))
    found = reports.summarize(task, *train_and_dev(task, 0.1, 0))
    assert found == {
        "rows": {"train": 44, "dev": 2},
        "columns": {"text": "text", "label": "label"},
        "labels": {"bad": 42, "good": 1, "Bad": 1},
        "alike": [["bad", "Bad"]],
        "skipped": 2,
        "duplicates": 1,
        "contradictions": 1,
        "in_both": 1,
    }
    lines = reports.in_lines({**found, "cut": 11, "max_length": 16, "baseline": {"accuracy": 0.5}})
    assert [line.split()[0] for line in lines] == [
        *("rows", "columns", "labels", "alike", "unbalanced", "cut", "skipped", "duplicates"),
        *("contradictions", "in", "baseline"),
    ]


def test_the_results_of_a_fine_tuning():
    """Joins each epoch's means with its scores on dev; the first score chose the best version."""
    history = [{"step": step, "learning_rate": 0.1, "loss": 9.0 / step} for step in (3, 6)]
    scores = [
        {"step": 3, "f1": 0.7, "loss": 0.25, "one_class": 1.0},
        {"step": 6, "f1": 0.5, "loss": 0.5},
    ]
    best = {"number": 1, **scores[0]}
    assert reports.versions().keys() >= {"python", "keras"}
    assert reports.results(history, scores, best) == {
        "metrics": ["f1"],
        "history": [
            {**history[0], "val_f1": 0.7, "val_loss": 0.25, "val_one_class": 1.0},
            {**history[1], "val_f1": 0.5, "val_loss": 0.5},
        ],
        "best": {"epoch": 1, "step": 3, "score": 0.7, "f1": 0.7, "loss": 0.25, "one_class": 1.0},
    }

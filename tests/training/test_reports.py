import dataclasses
import math
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
from matplotlib.figure import Figure

from albert_tf.data.options import LabelledData
from albert_tf.data.readers import Example
from albert_tf.data.tasks.base import GradedPrediction
from albert_tf.data.tasks.classification import Classification
from albert_tf.data.tasks.registry import task_of
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.training import reports

RIGHT = GradedPrediction("fine", "a", "a", 0.99, True)


def wrong(text="bad", confidence=0.5, expected="a", predicted="b"):
    return GradedPrediction(text, expected, predicted, confidence, False)


def test_the_most_confident_mistakes_come_first():
    graded = [wrong("doubtful", 0.51), RIGHT, wrong("certain", 0.98), wrong("so so", 0.7)]
    assert reports.mistakes(graded).splitlines()[2:] == [
        "3 of 4 predictions are wrong.",
        "",
        "| confidence | expected | predicted | text |",
        "|---|---|---|---|",
        "| 0.98 | a | b | certain |",
        "| 0.7 | a | b | so so |",
        "| 0.51 | a | b | doubtful |",
    ]
    assert reports.mistakes([RIGHT] * 3) == "# Mistakes\n\n0 of 3 predictions are wrong.\n"


def test_fifty_mistakes_of_many():
    text = reports.mistakes([wrong(confidence=row / 100) for row in range(99)])
    assert "99 of 99 predictions are wrong. These 50 have the highest confidence." in text
    assert text.count("| bad |") == 50
    assert "| 0.49 |" in text and "| 0.48 |" not in text


def test_texts_stay_texts_in_markdown():
    text = "<b>a|b</b> `x` *y* [z](u)\u202e\x07$1$\nsecond part\n" + "long " * 99
    row = reports.mistakes([wrong(text, predicted="x|y")]).splitlines()[-1]
    cells = row.replace("\\|", "").split(" | ")
    assert len(cells) == 4 and cells[2] == "xy"
    for part in (
        r"\<b\>a\|b\</b\> \`x\` \*y\* \[z\](u)\\u202e\\x07\$1\$<br>second part<br>long ",
        "…",
    ):
        assert part in row


def test_a_long_text_is_cut_around_the_answer():
    text = f"{'before ' * 99}here{' after' * 99}"
    row = reports.mistakes([wrong(f"Where?\n{text}", expected="here", predicted="")])
    expected, predicted, shown = (cell.strip() for cell in row.splitlines()[-1].split("|")[2:5])
    assert (expected, predicted) == ("here", "–")
    assert shown.startswith("Where?<br>…") and shown.endswith("…") and " here after" in shown


@pytest.fixture
def drawn(monkeypatch):
    """Returns the list of written figures."""
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    return figures


def test_a_confusion_matrix_has_shares_of_rows(tmp_path, drawn):
    pairs = [("a$b$", "a$b$")] * 3 + [("a$b$", "中"), ("中", "a$b$")]
    reports.plot_confusion(pairs, tmp_path / "confusion.png")
    axes = drawn[0].axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), [[0.75, 0.25], [1, 0]])
    assert [text.get_text() for text in axes.texts] == ["75%", "25%", "100%", "0%"]
    assert [text.get_text() for text in axes.get_yticklabels()] == [r"a\$b\$", "中"]


def test_a_confusion_matrix_of_many_classes_shows_the_most_missed(tmp_path, drawn):
    names = [f"class {number}" for number in range(40)]
    pairs = [*zip(names, names, strict=True), *((name, "other") for name in names[20:])]
    reports.plot_confusion(pairs, tmp_path / "confusion.png")
    axes = drawn[0].axes[0]
    shown = [text.get_text() for text in axes.get_yticklabels()]
    assert len(shown) == 30 and {*names[20:]} < {*shown} and not axes.texts


def test_curves(tmp_path, drawn):
    history = [{"step": 100, "loss": 9.0}, {"step": 200, "loss": math.nan}]
    evaluation = [{"step": 200, "f1": 0.5, "odd": 1}]
    names = ("loss", "f1", "missing")
    reports.plot_curves(history, evaluation, names, tmp_path / "curves.png", best=200)
    loss, f1 = drawn[0].axes
    assert (loss.get_title(), f1.get_title()) == ("loss", "f1")
    assert loss.lines[0].get_xydata().shape == (2, 2)  # a loss of NaN is a gap
    assert f1.lines[0].get_xydata().tolist() == [[200, 0.5]]
    assert f1.lines[1].get_xdata() == [200, 200]
    labels = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in (loss, f1)]
    assert labels == [["training", "best version"], ["evaluation", "best version"]]


def test_reports_of_another_task_are_replaced(tmp_path, small_config):
    """Writes the same bytes each time."""
    task = Classification(LabelledData(task="classify", data=Path("d")))
    config = dataclasses.replace(small_config, id2label={0: "bad", 1: "good"})
    examples = [Example("warm", None, "good"), Example("cold", None, "bad")]
    found = [np.array([0.25, 0.75]), np.array([0.25, 0.75])]
    written = []
    for _ in range(2):
        reports.write_predictions(tmp_path, task, examples, found, config)
        written.append({path.name: path.read_bytes() for path in tmp_path.iterdir()})
    assert written[0] == written[1]
    assert written[0].keys() == {"confusion.png", "mistakes.md"}
    assert "| 0.75 | bad | good | cold |" in written[0]["mistakes.md"].decode()
    stars = Classification(LabelledData(task="classify", data=Path("d"), regression=True))
    config = dataclasses.replace(config, id2label={0: "score"}, problem_type="regression")
    numbers = [Example("warm", None, "4"), Example("cold", None, "1")]
    reports.write_predictions(tmp_path, stars, numbers, [np.array([2.5]), np.array([1.0])], config)
    assert [path.name for path in tmp_path.iterdir()] == ["mistakes.md"]
    text = (tmp_path / "mistakes.md").read_text()
    assert text.startswith("# Largest errors\n\nThe mean distance of 2 predictions is 0.75.\n")
    assert "| 1.5 | 4 | 2.5 | warm |" in text


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
        },
        "parameters": 1234,
        "examples": {"train": 5000, "dev": 400},
        "data": {"cut": 3},
        "metrics": [*scores],
        "history": [
            {"step": 9, "loss": 0.5, **{f"val_{name}": value for name, value in scores.items()}}
        ],
        "best": {"epoch": 1, "step": 9, "score": 0.25, **scores},
        "versions": {"python": "3.11"},
    }


@pytest.fixture
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
    assert "patience" not in card.text and "secret" not in card.text


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
    found = reports.summarize(task, *task.train_and_dev(0.1, 0))
    assert found == {
        "rows": {"train": 44, "dev": 2},
        "columns": {"text": "text", "label": "label"},
        "labels": {"bad": 42, "good": 1, "Bad ": 1},
        "alike": [["bad", "Bad "]],
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

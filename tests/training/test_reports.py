import dataclasses
import json
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
from matplotlib.image import imread

from albert_tf.data.options import LabelledData
from albert_tf.data.readers import Example
from albert_tf.data.tasks.base import ByThreshold, GradedPrediction
from albert_tf.data.tasks.classification import Classification
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.training import charts, reports

RIGHT = GradedPrediction("fine", "a", "a", 0.99, True)


def wrong(text="bad", confidence=0.5, expected="a", predicted="b"):
    return GradedPrediction(text, expected, predicted, confidence, False)


def test_the_most_confident_mistakes_come_first():
    graded = [wrong("doubtful", 0.51), RIGHT, wrong("certain", 0.98), wrong("so so", 0.7)]
    text = reports.mistakes(graded)
    assert "3 of 4 predictions are wrong.\n" in text
    assert [row.split(" | ")[3] for row in text.splitlines()[6:]] == [
        "certain |",
        "so so |",
        "doubtful |",
    ]
    assert "| 0.980 | a | b | certain |" in text and "fine" not in text


def test_fifty_mistakes_of_many():
    text = reports.mistakes([wrong(confidence=row / 100) for row in range(99)])
    assert "99 of 99 predictions are wrong. These 50 have the highest confidence." in text
    assert text.count("| bad |") == 50
    assert "| 0.490 |" in text and "| 0.480 |" not in text


def test_a_number_is_not_wrong():
    graded = [
        GradedPrediction(f"text {row}", "2", f"{2 + row}", float(row), row == 0) for row in range(3)
    ]
    text = reports.mistakes(graded, is_regression=True)
    assert text.startswith(
        "# Largest errors\n\nThe mean distance of 3 predictions from their labels is 1.\n"
    )
    assert "wrong" not in text
    assert text.splitlines()[6] == "| 2 | 2 | 4 | text 2 |"


def test_no_mistake_is_said():
    assert reports.mistakes([RIGHT] * 3) == "# Mistakes\n\nNone: all 3 predictions are right.\n"


def test_texts_stay_texts_in_markdown():
    text = "<b>a|b</b> `x` *y* [z](u)\u202e\x07$1$\nsecond part\n" + "long " * 99
    row = reports.mistakes([wrong(text, predicted="x|y")]).splitlines()[-1]
    cells = row.replace("\\|", "").split(" | ")
    assert len(cells) == 4 and cells[2] == "xy"
    for part in (r"\<b\>a\|b\</b\> \`x\` \*y\* \[z\](u)  \$1\$<br>second part<br>long ", "…"):
        assert part in row


def test_a_long_text_is_cut_around_the_answer():
    text = f"{'before ' * 99}here{' after' * 99}"
    row = reports.mistakes([wrong(f"Where?\n{text}", expected="here", predicted="")])
    expected, predicted, shown = (cell.strip() for cell in row.splitlines()[-1].split("|")[2:5])
    assert (expected, predicted) == ("here", "–")
    assert shown.startswith("Where?<br>…") and shown.endswith("…") and " here after" in shown


def test_a_confusion_matrix_of_many_classes_shows_the_most_confused(tmp_path, monkeypatch):
    names = [f"${number}$ 中 {'very ' * 9}long" for number in range(40)]
    pairs = [(names[row], names[row + 1]) for row in range(20, 39)]
    kept = charts._most_confused(names, pairs)
    assert len(kept) == 30 and set(names[20:]) < set(kept)
    assert kept == sorted(kept, key=names.index)
    charts.plot_confusion(names, pairs, tmp_path / "confusion.png")
    assert imread(tmp_path / "confusion.png").size


@pytest.fixture
def drawn(monkeypatch):
    """Returns the list of written figures."""
    figures, save = [], charts.save
    monkeypatch.setattr(charts, "save", lambda *both: figures.append(both[0]) or save(*both))
    return figures


def test_a_confusion_matrix_has_counts_and_shares(tmp_path, drawn):
    pairs = [("a", "a")] * 3 + [("a", "b"), ("b", "a")]
    charts.plot_confusion(["a", "b", "c"], pairs, tmp_path / "confusion.png")
    axes = drawn[0].axes[0]
    assert [text.get_text() for text in axes.texts] == list("310100000")
    shares = axes.images[0].get_array()
    np.testing.assert_allclose(shares, [[0.75, 0.25, 0], [1, 0, 0], [0, 0, 0]])


def test_scores_by_threshold(tmp_path, drawn):
    line = ByThreshold("f1", [-1.0, 0.0, 2.0], [0.5, 0.75, 0.25], chosen=1.0)
    charts.plot_by_threshold([line, line], tmp_path / "scores.png")
    (axes,) = drawn[0].axes
    assert len(axes.lines) == 4
    assert axes.lines[0].get_xydata().tolist() == [[-1, 0.5], [0, 0.75], [2, 0.25]]
    assert axes.lines[1].get_xydata().tolist() == [[1, 0.5]]


def test_numbers_beside_their_labels(tmp_path, drawn):
    graded = [wrong(expected="4", predicted="3.5"), wrong(expected="1e-3", predicted="-2")]
    charts.plot_numbers(graded, tmp_path / "scores.png")
    (axes,) = drawn[0].axes
    assert axes.collections[0].get_offsets().tolist() == [[4, 3.5], [0.001, -2]]
    assert axes.lines[0].get_xydata().tolist() == [[-2, -2], [4, 4]]


def test_reports_of_another_task_are_replaced(tmp_path, small_config):
    task = Classification(LabelledData(task="classify", data=Path("d")))
    config = dataclasses.replace(small_config, id2label={0: "bad", 1: "good"})
    examples = [Example("warm", None, "good"), Example("cold", None, "bad")]
    found = [np.array([0.25, 0.75]), np.array([0.25, 0.75])]
    (tmp_path / "scores.png").touch()
    for _ in range(2):
        reports.write_predictions(tmp_path, task, examples, found, config)
        files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert files.keys() == {"confusion.png", "mistakes.md"}
        assert "| 0.750 | bad | good | cold |" in files["mistakes.md"].decode()
    reports.write_predictions(tmp_path, task, examples, found, config)
    assert files == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


@pytest.fixture
def report(tmp_path):
    (tmp_path / "secret" / "reviews").mkdir(parents=True)
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
        "metrics": ["matthews", "macro_f1", "best_threshold"],
        "history": [
            {
                "step": 9,
                "loss": 0.5,
                "val_matthews": 0.25,
                "val_macro_f1": 0.5,
                "val_best_threshold": 9,
            }
        ],
        "best": {
            "epoch": 1,
            "step": 9,
            "score": 0.25,
            "matthews": 0.25,
            "macro_f1": 0.5,
            "best_threshold": 9,
        },
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
    assert data.base_model == "albert/albert-base-v2"
    assert data.license is data.language is data.datasets is None
    assert data.metrics == ["f1", "matthews_correlation"]
    assert data.model_name == "my-model"
    found = {(each.metric_type, each.metric_name): each.metric_value for each in data.eval_results}
    assert found == {("matthews_correlation", "matthews"): 0.25, ("f1", "macro_f1"): 0.5}
    assert {each.dataset_type for each in data.eval_results} == {"classify"}
    assert {each.task_type for each in data.eval_results} == {"text-classification"}
    assert 'AlbertForSequenceClassification.from_pretrained("my-model")' in card.text
    for part in (
        "| matthews | 0.2500 |",
        "5,000 for training, 400 in dev",
        "0123abcd",
        "99 tokens",
    ):
        assert part in card.text
    assert "| seed | 7 |" in card.text and "patience" not in card.text
    assert "reviews" in card.text and "secret" not in card.text


def test_a_card_names_a_dataset_of_the_hub(report, model):
    report["settings"] |= {"data": "hub:nyu-mll/glue/sst2@abc", "model": "small"}
    data = huggingface_hub.ModelCard(reports.card("my-model", report, model)).data
    assert data.datasets == ["nyu-mll/glue"] and data.get("base_model") is None
    assert {each.dataset_type for each in data.eval_results} == {"nyu-mll/glue"}


def write_finetuning(output, report, model):
    """Writes a run's reports as `finetune` does; returns the card."""
    folder = output / "best"
    folder.mkdir(parents=True, exist_ok=True)
    reports.write_finetuning(output, folder, report, model)
    for path in folder.iterdir():
        path.replace(output / path.name)
    (output / "report.json").write_text(json.dumps(report))
    return (output / "README.md").read_text()


def test_an_edited_card_is_kept(tmp_path, report, model):
    output, old = tmp_path / "out", tmp_path / "out" / "README.old.md"
    first = write_finetuning(output, report, model)
    assert (output / "curves.png").exists()
    report["settings"]["seed"] = 8
    second = write_finetuning(output, report, model)
    assert first != second and not old.exists()
    (output / "README.md").write_text("edited")
    report["settings"]["seed"] = 9
    third = write_finetuning(output, report, model)
    assert third != second and old.read_text() == "edited"
    (output / "report.json").unlink()  # as after a crash before it was written
    assert write_finetuning(output, report, model) == third
    assert old.read_text() == "edited"

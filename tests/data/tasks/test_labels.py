import json
from pathlib import Path

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.options import TaskData
from albert_tf.data.readers import Example
from albert_tf.data.tasks.base import Predicted
from albert_tf.data.tasks.classification import ONE_CLASS
from albert_tf.data.tasks.labels import MultiLabel, Regression, SingleLabel
from albert_tf.data.tasks.registry import task_of, training_data
from albert_tf.errors import UserError
from albert_tf.evaluation.metrics import evaluate_labels
from tests.data.conftest import read, task, write

NAMES = ("long", "sad", "warm")
SEVERAL = task("classify", multi_label=True)


def examples(*labels):
    return [Example(f"text {number}", None, names) for number, names in enumerate(labels)]


def probabilities(*rows):
    return [np.array(row) for row in rows]


def config(**changes):
    fields = SEVERAL.config_fields(examples(("warm", "sad"), ("long",), ()))
    return AlbertConfig(**{**fields, **changes})


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("a.jsonl", [{"text": "a", "label": [1]}], "list of strings.*Received: .1. .*line 1"),
        ("a.jsonl", [{"text": "a", "label": ["x", ""]}], "list of strings"),
        ("a.jsonl", [{"text": "a"}], "'label'. Received: "),
        ("a.csv", "text,label\na,['x' 'y']\n", r"list of strings.*Received: \"\['x' 'y'\]"),
        ("a.csv", "text,label\na,\"{'x', 'y'}\"\n", "list of strings.*Received: \"{'x', 'y'}"),
        ("a.csv", 'text,label\na,"x,,y"\n', "',' separates labels.*Received: 'x,,y'.*line 2"),
    ],
)
def test_bad_labels(tmp_path, file, content, message):
    with pytest.raises(UserError, match=message):
        read(write(tmp_path / file, content), multi_label=True)


@pytest.mark.parametrize("separator", [";", "|", "/"])
def test_labels_with_another_separator(tmp_path, separator):
    labels = ("bug", "bug{0} ui", "ui{0}docs", "docs{0}bug{0}ui")
    lines = ["text,label", *(f"a,{label.format(separator)}" for label in labels)]
    path = write(tmp_path / "a.csv", "\n".join(lines))
    several = task("classify", path, multi_label=True)
    message = f"3 of 4 labels with '[{separator}]', .* --label-separator '?[{separator}]"
    with pytest.raises(UserError, match=message):
        training_data(several.options, 0.5, 1)
    named = task("classify", path, multi_label=True, label_separator=separator)
    assert len(named.config_fields(named.read(path))["id2label"]) == 3
    write(path, "\n".join([*lines, 'a,"x/y,z"']))  # names may have it
    assert len(several.config_fields(several.read(path))["id2label"]) == 6


def test_labels_of_the_model():
    assert config().labels == NAMES
    assert config().problem_type == "multi_label_classification"
    found = SEVERAL.targets(examples(("sad",), (), ("warm", "long")), config())
    np.testing.assert_array_equal(found, [[0, 1, 0], [0, 0, 0], [1, 0, 1]])
    with pytest.raises(UserError, match="--multi-label .* Received: 1 examples"):
        SEVERAL.config_fields(examples(()))


def test_a_trained_model_says_what_its_labels_are():
    options = TaskData(task="classify", data=Path())
    one = AlbertConfig(id2label={0: "score"}, problem_type="regression")
    for trained, expected in ((config(), MultiLabel), (one, Regression), (None, SingleLabel)):
        assert type(task_of(options, trained)) is expected


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (("false", "true"), ["True", "false", "TRUE"]),
        (("False", "True"), ["true", "False", "TRUE"]),
        (("0", "1"), ["1.0", "0", "1"]),
        (("0.0", "1.0"), ["1", "0.0", "1.0"]),
        (("-1.0", "1.0"), ["1", "-1", "1"]),
    ],
)
def test_one_label_as_csv_and_parquet_spell_it(tmp_path, names, labels):
    config = AlbertConfig(id2label=dict(enumerate(names)))
    examples = [Example("a", None, label) for label in labels]
    single = SingleLabel(TaskData(task="classify", data=Path()))
    single.check(examples, config)
    assert single.targets(examples, config) == [1, 0, 1]
    predicted = [np.eye(2)[target] for target in (1, 0, 1)]
    single.write(Predicted(examples, predicted, config), tmp_path)
    written = (tmp_path / "predictions.tsv").read_text().split()[3::2]
    assert written == [names[1], names[0], names[1]]
    with pytest.raises(UserError, match=f"must be one of {names[0]}, {names[1]}. Received: '01'"):
        single.check([Example("a", None, "01")], config)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (("1.0", "0", "1", "1"), ["0", "1"]),
        (("True", "FALSE", "true", "true"), ["FALSE", "true"]),
        (("TRUE", "tRUE", "True", "True"), ["True", "tRUE"]),  # only the usual spellings
    ],
)
def test_spellings_within_a_file_are_one_class(labels, names):
    examples = [Example("a", None, label) for label in labels]
    single = task("classify")
    config = AlbertConfig(**single.config_fields(examples))
    assert list(config.labels) == names
    assert single.targets(examples, config)[::2] == [names.index(labels[3])] * 2
    assert single.keys(examples).labels == [(names[n],) for n in single.targets(examples, config)]


def test_an_unseen_label_in_dev_is_named(tmp_path):
    write(tmp_path / "train.csv", "text,label\na,x\nb,\n")
    write(tmp_path / "dev.csv", 'text,label\na,"x,z"\n')
    with pytest.raises(UserError, match="must be one of x. Received: 'z' .*dev.csv, line 2"):
        training_data(task("classify", tmp_path, multi_label=True).options, 0.1, 1)


def test_scores_of_one_label():
    """Its absence is no class of its own."""
    labels, absent = np.array([[1], [0], [0], [0]]), np.zeros((4, 1))
    assert evaluate_labels(labels, absent, absent)["micro_f1"] == 0
    assert evaluate_labels(labels, labels, labels)["macro_f1"] == 1


def test_scores_by_hand():
    given = examples(("long",), ("sad",), ("long", "sad"), ())
    found = probabilities((0.9, 0.2, 0.1), (0.6, 0.4, 0.1), (0.7, 0.8, 0.1), (0.1, 0.3, 0.1))
    scores = SEVERAL.scores(Predicted(given, found, config()))
    # long: 2 right, 1 false; sad: 1 right, 1 missed; warm: never
    assert scores["micro_f1"] == pytest.approx(2 * 3 / (2 * 3 + 1 + 1))
    assert scores["macro_f1"] == pytest.approx((4 / 5 + 2 / 3 + 0) / 3)
    assert scores["mean_average_precision"] == pytest.approx(1)
    thresholds = SEVERAL.fit_thresholds(Predicted(given, found, config()))["thresholds"]
    assert thresholds == pytest.approx((0.65, 0.35, 0.5))
    assert SEVERAL.scores(Predicted(given, found, config(thresholds=thresholds)))["micro_f1"] == 1
    none = SEVERAL.fit_thresholds(Predicted(given[3:], found[:1], config()))
    assert none == {"thresholds": (0.5,) * 3}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("probability", [0.1, 0.9])
def test_the_same_labels_for_all_texts_are_said(probability):
    found = probabilities(*[[probability] * 3] * 2)
    assert SEVERAL.scores(Predicted(examples(("long",), ()), found, config()))[ONE_CLASS] == 1
    scores = SEVERAL.scores(Predicted(examples((), ()), found, config()))  # no label at all
    assert scores == {"micro_f1": 0, "macro_f1": 0, "mean_average_precision": 0}


def test_written_predictions(tmp_path):
    SEVERAL.write(
        Predicted(examples((), ()), probabilities((0.9, 0.8, 0.1), (0, 0, 0)), config()), tmp_path
    )
    lines = (tmp_path / "predictions.jsonl").read_text().splitlines()
    assert [json.loads(line)["labels"] for line in lines] == [["long", "sad"], []]
    assert json.loads(lines[0])["probabilities"] == {"long": 0.9, "sad": 0.8, "warm": 0.1}

"""What a run says of its examples."""

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.registry import task_of
from albert_tf.data.tasks.summary import in_lines, is_unbalanced, shares, summarize
from albert_tf.errors import UserError

TRAIN = [
    *(("fine film", "good"), ("dull film", "bad"), ("dull film", "bad"), ("dull film", "Bad ")),
    *((f"a film of number {number}", "bad") for number in range(40)),
]


def task(path, **options):
    given = {"task": "classify", "data": path, "skip_bad_rows": True, **options}
    return task_of(LabelledData(**given))


def write(path, rows):
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "train.csv", [*TRAIN, ("", "bad"), ("", "good")])
    write(tmp_path / "validation.csv", [("fine film", "good"), ("a boat", "bad")])
    return tmp_path


def test_a_summary(folder):
    tool = task(folder)
    found = summarize(tool, *tool.train_and_dev(0.1, 0))
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
    lines = in_lines({**found, "cut": 11, "max_length": 16, "baseline": {"accuracy": 0.5}})
    assert [line.split()[0] for line in lines] == [
        *("rows", "columns", "labels", "alike", "unbalanced", "skipped", "cut", "duplicates"),
        *("contradictions", "in", "baseline"),
    ]
    assert "'bad' = 'Bad '" in lines[3]
    assert "11 rows (25%) have more than 16 tokens" in lines[6]
    assert is_unbalanced(found["labels"]) and shares(found["labels"]) == "bad 95.5%, Bad  2.3%"


def test_nothing_odd_is_not_said(tmp_path):
    write(tmp_path / "train.csv", [(f"text {row}", "ab"[row % 2]) for row in range(9)])
    write(tmp_path / "dev.csv", [("other", "a")])
    tool = task(tmp_path)
    found = summarize(tool, *tool.train_and_dev(0.1, 0)) | {"cut": 0, "max_length": 9}
    assert [line.split()[0] for line in in_lines(found)] == ["rows", "columns", "labels"]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("several", [False, True])
def test_a_label_that_occurs_once_is_learned(tmp_path, seed, several):
    labels = ["rare", *["b|c"] * 2, *["a"] * 20] if several else ["rare", "b", "b", *["a"] * 20]
    write(tmp_path / "all.csv", [(f"text {row}", label) for row, label in enumerate(labels)])
    options = {"multi_label": True, "label_separator": "|"} if several else {}
    tool = task(tmp_path / "all.csv", **options)
    train, dev = tool.train_and_dev(0.1, seed)
    assert len(train) + len(dev) == 23 and dev
    learned = {name for each in train for name in tool.labels(each)}
    assert learned == {"rare", "a", "b", *("c" * several)}
    tool.check(dev, AlbertConfig(**tool.config_fields(train)))


def test_a_baseline_learns(tmp_path):
    words = ["wonderful", "dreadful"]
    rows = [(f"a {words[row % 2]} film {row}", "ab"[row % 2]) for row in range(40)]
    write(tmp_path / "train.csv", rows)
    write(tmp_path / "dev.csv", [("so wonderful", "a"), ("how dreadful", "b")])
    tool = task(tmp_path)
    train, dev = tool.train_and_dev(0.1, 0)
    config = AlbertConfig(**tool.config_fields(train))
    assert tool.baseline(train, dev, config) == {"accuracy": 1.0, "macro_f1": 1.0}


@pytest.mark.parametrize("options", [{"regression": True}, {"multi_label": True}])
def test_a_task_without_a_baseline(tmp_path, options):
    tool = task(tmp_path, **options)
    with pytest.raises(UserError, match="A baseline needs texts with one label each. Received"):
        tool.baseline([], [], AlbertConfig())

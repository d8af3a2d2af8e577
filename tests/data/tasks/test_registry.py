import json
from collections import Counter
from pathlib import Path

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.base import Keys
from albert_tf.data.tasks.registry import split_rows, task_of, train_and_dev
from albert_tf.errors import UserError


def task(name, data, **others):
    return task_of(LabelledData(task=name, data=Path(data), **others))


def test_a_single_file_is_split_by_label(tmp_path):
    path = tmp_path / "all.tsv"
    rows = [f"text {number}\t{'rare' if number % 5 == 0 else 'common'}" for number in range(100)]
    path.write_text("text\tlabel\n" + "\n".join(rows))
    train, dev = train_and_dev(task("classify", path), 0.2, 3)
    assert (len(train), len(dev)) == (80, 20)
    assert [example.label for example in dev].count("rare") == 4
    assert not set(train) & set(dev)
    assert train_and_dev(task("classify", path), 0.2, 3) == (train, dev)
    assert train_and_dev(task("classify", path), 0.2, 4)[1] != dev


def test_a_single_file_is_split_by_sets_of_labels(tmp_path):
    sets = [["sad"], ["sad", "warm"], [], ["sad"]]
    rows = [json.dumps({"text": str(row), "label": sets[row % 4]}) for row in range(80)]
    path = tmp_path / "all.jsonl"
    path.write_text("\n".join(rows))
    train, dev = train_and_dev(task("classify", path, multi_label=True), 0.1, 1)
    assert Counter(each.label for each in dev) == {("sad", "warm"): 2, ("sad",): 4, (): 2}
    assert len(train) == 72
    assert len(train_and_dev(task("classify", path, multi_label=True), 0.025, 1)[1]) == 2, (
        "fewer examples than sets"
    )


def test_a_table_too_small_to_be_divided(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,x\nb,y\nc,z\n")
    message = "dev_fraction=.* 3 examples, of which 3 have labels that occur only once"
    with pytest.raises(UserError, match=message):
        train_and_dev(task("classify", path, multi_label=True), 0.1, 1)


@pytest.mark.parametrize("seed", range(10))
def test_a_split_without_dev_is_refused(tmp_path, seed):
    path = tmp_path / "all.csv"
    path.write_text("text,label\n" + "".join(f"a {row},{row // 2}\n" for row in range(4)))
    try:
        _, dev = train_and_dev(task("classify", path), 0.1, seed)
    except UserError as error:
        assert "too few examples to split" in str(error)
    else:
        assert dev


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("several", [False, True])
def test_a_label_that_occurs_once_is_learned(tmp_path, seed, several):
    labels = ["rare", *["b,c"] * 2, *["a"] * 20] if several else ["rare", "b", "b", *["a"] * 20]
    lines = (f"text {row}\t{label}\n" for row, label in enumerate(labels))
    path = tmp_path / "all.tsv"
    path.write_text("text\tlabel\n" + "".join(lines))
    classify = task("classify", path, multi_label=several)
    train, dev = train_and_dev(classify, 0.1, seed)
    assert len(train) + len(dev) == 23 and dev
    learned = {name for names in classify.keys(train).labels for name in names}
    assert learned == {"rare", "a", "b", *("c" * several)}
    classify.check(dev, AlbertConfig(**classify.config_fields(train)))


@pytest.mark.parametrize("seed", range(3))
def test_groups_stay_on_one_side(seed):
    groups = [row // 4 for row in range(40)]
    train, dev = split_rows(Keys(groups=groups), 40, 0.2, seed)
    assert sorted([*train, *dev]) == list(range(40)) and len(dev) == 8
    assert not {groups[row] for row in train} & {groups[row] for row in dev}


@pytest.mark.parametrize("regression", [False, True])
def test_the_rows_of_a_group_column_stay_together(tmp_path, regression):
    path = tmp_path / "all.csv"
    labels = [2, 1, *[0, 1] * 9]  # the first one occurs in one group only
    rows = [f"text {row},{label},author {row // 4}" for row, label in enumerate(labels)]
    path.write_text("\n".join(["text,label,author", *rows]))
    given = task("classify", path, group_column="author", regression=regression)
    sizes = set()
    for seed in range(6):
        train, dev = train_and_dev(given, 0.4, seed)
        groups = [{each.group for each in part} for part in (train, dev)]
        assert groups[0] | groups[1] == {f"author {number}" for number in range(5)}
        assert not groups[0] & groups[1] and len(train) + len(dev) == 20
        given.check(dev, AlbertConfig(**given.config_fields(train)))
        sizes.add(len(dev))
    assert sizes == ({8} if regression else {4, 8})  # a group with a label of its own is in train


def test_a_split_without_keys_is_random():
    train, dev = split_rows(Keys(), 10, 0.3, 1)
    assert len(dev) == 3 and sorted([*train, *dev]) == list(range(10))
    assert split_rows(Keys(), 10, 0.3, 1) == (train, dev) != split_rows(Keys(), 10, 0.3, 2)

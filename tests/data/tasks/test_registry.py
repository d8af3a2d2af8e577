from collections import Counter

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.tasks.base import Keys
from albert_tf.data.tasks.registry import split_rows, train_and_dev
from albert_tf.errors import UserError
from tests.data.conftest import task, write


def test_a_single_file_is_split_by_label(tmp_path):
    labels = ["rare" if number % 5 == 0 else "common" for number in range(100)]
    rows = [{"text": f"text {row}", "label": label} for row, label in enumerate(labels)]
    path = write(tmp_path / "all.jsonl", rows)
    train, dev = train_and_dev(task("classify", path), 0.2, 3)
    assert (len(train), len(dev)) == (80, 20)
    assert [example.label for example in dev].count("rare") == 4
    assert not set(train) & set(dev)
    assert train_and_dev(task("classify", path), 0.2, 3) == (train, dev)
    assert train_and_dev(task("classify", path), 0.2, 4)[1] != dev


def test_a_single_file_is_split_by_sets_of_labels(tmp_path):
    sets = [["sad"], ["sad", "warm"], [], ["sad"]]
    rows = [{"text": str(row), "label": sets[row % 4]} for row in range(80)]
    several = task("classify", write(tmp_path / "all.jsonl", rows), multi_label=True)
    train, dev = train_and_dev(several, 0.1, 1)
    assert Counter(each.label for each in dev) == {("sad", "warm"): 2, ("sad",): 4, (): 2}
    assert len(train) == 72
    assert len(train_and_dev(several, 0.025, 1)[1]) == 2, "fewer examples than sets"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "classify",
            "text,label\na,x\nb,y\nc,z\n",
            "3 examples, of which 3 have labels that occur",
        ),
        ("squad", "question,context,answer\nA?,B.,B\n", "1 examples in 1 groups, of which 0 have"),
    ],
)
def test_a_table_too_small_to_be_divided(tmp_path, name, content, message):
    path = write(tmp_path / "a.csv", content)
    with pytest.raises(UserError, match=f"a.csv .* dev_fraction=0.1: {message}"):
        train_and_dev(task(name, path), 0.1, 1)


@pytest.mark.parametrize("seed", range(10))
def test_a_split_without_dev_is_refused(tmp_path, seed):
    path = write(tmp_path / "all.csv", "text,label\na,0\nb,0\nc,1\nd,1\n")
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
    rows = [{"text": f"text {row}", "label": label} for row, label in enumerate(labels)]
    classify = task("classify", write(tmp_path / "all.jsonl", rows), multi_label=several)
    train, dev = train_and_dev(classify, 0.1, seed)
    assert len(train) + len(dev) == 23 and dev
    learned = {name for names in classify.keys(train).labels for name in names}
    assert learned == {"rare", "a", "b", *("c" * several)}
    classify.check(dev, AlbertConfig(**classify.config_fields(train)))


QUESTION = {"question": "?", "context": "He ran.", "answers": {"text": [], "answer_start": []}}


@pytest.mark.parametrize(
    ("name", "fields", "column", "group_of"),
    [
        ("squad", QUESTION, "title", lambda example: example.article),
        ("squad", QUESTION, "context", lambda example: example.context),
        (
            "choices",
            {"choices": ["a", "b"], "label": 0},
            "context",
            lambda example: example.context,
        ),
        ("similarity", {}, "anchor", lambda example: example.texts[0]),
    ],
)
def test_groups_stay_on_one_side(tmp_path, name, fields, column, group_of):
    rows = [{**fields, column: f"{row // 3}", "positive": f"text {row}"} for row in range(21)]
    path = write(tmp_path / "all.jsonl", rows)
    train, dev = train_and_dev(task(name, path), 0.3, 1)
    assert (len(train), len(dev)) == (12, 9)
    assert set(map(group_of, train)).isdisjoint(map(group_of, dev))


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

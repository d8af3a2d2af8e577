"""Datasets on the Hub, which are replaced by datasets in memory, and Parquet files."""

import json
import sys
from datetime import timedelta
from decimal import Decimal

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from albert_tf.data.tasks.registry import read_split, train_and_dev
from albert_tf.errors import UserError
from tests.data.conftest import assert_read, read, task

GLUE = {  # the columns of texts, and the labels
    "sst2": (["sentence"], ["negative", "positive"]),
    "mnli": (["premise", "hypothesis"], ["entailment", "neutral", "contradiction"]),
    "qqp": (["question1", "question2"], ["not_duplicate", "duplicate"]),
    "rte": (["sentence1", "sentence2"], ["entailment", "not_entailment"]),
}


def glue(name, label):
    texts, labels = GLUE[name]
    dataset = datasets.Dataset.from_list([{**dict.fromkeys(texts, "A text."), "label": label}])
    return dataset.cast_column("label", datasets.ClassLabel(names=labels))


@pytest.fixture
def hub(monkeypatch):
    """Replaces the hub by data sets by name, configuration and split; returns what is asked for."""
    stored, asked = {}, []

    def load_dataset(name, config=None, *, split, revision=None):
        asked.append((name, config, split, revision))
        if (name, config, split) not in stored:
            raise datasets.exceptions.DatasetNotFoundError(f"Dataset '{name}' doesn't exist.")
        return stored[name, config, split]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    stored["asked"] = asked
    return stored


@pytest.mark.parametrize(
    ("name", "label", "expected"), [("sst2", 1, "1"), ("qqp", 0, "0"), ("rte", 1, "not_entailment")]
)
def test_glue_needs_no_names_of_columns(hub, name, label, expected):
    for split in ("train", "validation"):
        hub["nyu-mll/glue", name, split] = glue(name, label)
    train, dev = train_and_dev(task(name, f"hub:nyu-mll/glue/{name}@abc"), 0.1, 1)
    assert train[0].label == dev[0].label == expected
    assert train[0].location == f"hub:nyu-mll/glue/{name}@abc/train, row 1"
    assert hub["asked"][1] == ("nyu-mll/glue", name, "validation", "abc")


def test_both_dev_sets_of_mnli(hub):
    for split in ("validation_matched", "validation_mismatched"):
        hub["nyu-mll/glue", "mnli", split] = glue("mnli", 2)
    found = read_split(task("mnli", "hub:nyu-mll/glue/mnli"), "dev")
    parts = [(each.label, each.part) for each in found]
    assert parts == [("contradiction", ""), ("contradiction", "mismatched")]


def test_test_splits_have_no_labels(hub):
    hub["nyu-mll/glue", "sst2", "test"] = glue("sst2", -1)
    sst2 = task("sst2", "hub:nyu-mll/glue/sst2")
    assert read_split(sst2, "test", labelled=False)[0].label is None
    with pytest.raises(UserError, match="'label' must not be empty. Received: .*test, row 1"):
        read_split(sst2, "test")


def test_a_short_name_is_an_owner_s_or_a_configuration(hub):
    hub["glue", "sst2", "train"] = glue("sst2", 0)
    assert read_split(task("sst2", "hub:glue/sst2"), "train")[0].label == "0"
    assert [each[:2] for each in hub["asked"]] == [("glue/sst2", None), ("glue", "sst2")]


SQUAD = {
    "context": "She sells bread.",
    "question": "What does she sell?",
    "answers": {"text": ["bread"], "answer_start": [10]},
}
RACE = {"article": "A.", "question": "Who?", "options": ["x", "y"], "answer": "B"}
SWAG = {"sent1": "She sits.", "sent2": "She", **{f"ending{n}": str(n) for n in range(4)}}
CHOICES = datasets.ClassLabel(names=list("0123"))
TAGS = datasets.List(datasets.ClassLabel(names=["O", "B-x"]))


@pytest.mark.parametrize(
    ("name", "row", "features", "expected"),
    [
        ("squad", SQUAD, {}, {"golds": ("bread",), "span": (10, 15)}),
        ("race", {**RACE, "example_id": "middle7.txt"}, {}, {"label": 1, "part": "middle"}),
        ("swag", {**SWAG, "label": 3}, {"label": CHOICES}, {"label": 3, "choices": (*"0123",)}),
        (
            "tag",
            {"tokens": ["a", "b"], "ner_tags": [0, 1]},
            {"ner_tags": TAGS},
            {"tags": ("O", "B-x")},
        ),
    ],
)
def test_other_tasks(hub, name, row, features, expected):
    dataset = datasets.Dataset.from_list([row])
    hub["owner/name", "config", "train"] = dataset.cast(
        datasets.Features({**dataset.features, **features})
    )
    (example,) = read_split(task(name, "hub:owner/name/config"), "train")
    assert {field: getattr(example, field) for field in expected} == expected


def test_what_is_missing_is_said(hub, monkeypatch):
    with pytest.raises(UserError, match="split train of hub:a/b: Dataset 'a/b'"):
        read_split(task("sst2", "hub:a/b"), "train")

    def offline(*_, **__):
        raise ConnectionError("Couldn't reach the Hub")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with pytest.raises(UserError, match="split train of hub:a/b/c: Couldn't reach the Hub"):
        read_split(task("sst2", "hub:a/b/c"), "train")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"hub:a/b/c/train requires .*albert_tf\[datasets\]"):
        read_split(task("sst2", "hub:a/b/c"), "train")


def test_a_folder_of_parquet_files(tmp_path, monkeypatch):
    """Reads files with and without names of classes, directly and through `datasets`."""
    glue("rte", 1).to_parquet(tmp_path / "train.parquet")
    parquet(tmp_path / "dev.parquet", sentence1=["a"], sentence2=["b"], label=["1"])
    train, dev = train_and_dev(task("rte", tmp_path), 0.1, 1)
    assert train[0].label == dev[0].label == "not_entailment"
    assert train[0].location == f"{tmp_path}/train.parquet, row 1"
    loaded = datasets.load_dataset(str(tmp_path), split="train", cache_dir=str(tmp_path / "cache"))
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: loaded)
    assert read_split(task("rte", "hub:o/rte"), "train")[0].label == "not_entailment"


def test_files_that_are_no_parquet(tmp_path, monkeypatch):
    path = parquet(tmp_path / "mails.parquet", text=["a"], label=["spam"])
    with pytest.raises(UserError, match="--encoding .* Received: cp1252"):
        read(path, encoding="cp1252")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match="mails.parquet is not a valid .parquet file"):
        read(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"mails.parquet requires .*pyarrow.*albert_tf\[datasets\]"):
        read(path)


def parquet(path, description=None, **columns):
    """Writes a Parquet file; `description` is what `datasets` writes of columns."""
    table = pyarrow.table(list(columns.values()), names=list(columns))
    if description:
        info = json.dumps({"info": {"features": description}})
        table = table.replace_schema_metadata({"huggingface": info})
    pyarrow.parquet.write_table(table, path)
    return path


def test_parquet_with_text_as_bytes(tmp_path):
    path = parquet(tmp_path / "a.parquet", text=["Déjà vu".encode()], label=[b"ham"])
    assert_read(path, [("Déjà vu", None, "ham")])


@pytest.mark.parametrize("kind", ["List", "Sequence"])
def test_parquet_names_the_numbers_of_tags(tmp_path, kind):
    """The schema is that of `datasets`, for a list of classes."""
    classes = {"_type": "ClassLabel", "names": ["O", "B-PER"]}
    described = {"ner_tags": {"_type": kind, "feature": classes}, "id": {"_type": "Value"}}
    columns = {"tokens": [["Anna", "ran"]], "ner_tags": [[1, 0]], "id": ["7"]}
    path = parquet(tmp_path / "a.parquet", described, **columns)
    assert_read(path, [(("Anna", "ran"), ("B-PER", "O"))], "tag")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([Decimal("1.10")], r"Decimal\('1.10'\)"),
        ([timedelta(days=1)], r"datetime.timedelta\(days=1\)"),
        (pyarrow.array([b"good"], pyarrow.binary(4)), "b'good'"),
        ([b"d\xe9j\xe0"], "UTF8|utf-8"),
        (pyarrow.array([300_000_000_000], pyarrow.timestamp("s")), "out of range"),
        (pyarrow.array([b"d\xe9j\xe0"]).view(pyarrow.string()), "UnicodeDecodeError"),
    ],
)
def test_parquet_with_values_that_are_no_text(tmp_path, values, message):
    """A column that isn't read may contain them."""
    path = parquet(tmp_path / "a.parquet", text=["a"], label=values)
    with pytest.raises(UserError, match=f"'label' must be a string.*{message}.*a.parquet, row 1"):
        read(path)
    assert_read(parquet(path, text=["a"], label=["b"], other=values), [("a", None, "b")])


def test_a_bad_row_of_parquet_can_be_skipped(tmp_path):
    path = parquet(tmp_path / "a.parquet", text=[b"good", b"d\xe9j\xe0"], label=["x", "y"])
    with pytest.raises(UserError, match="'text' must be .*row 2"):
        read(path)
    assert_read(path, [("good", None, "x")], skip_bad_rows=True)


def test_parquet_with_two_columns_of_one_name(tmp_path):
    path = tmp_path / "a.parquet"
    table = pyarrow.table([["a"], ["b"], ["c"]], names=["text", "label", "text"])
    pyarrow.parquet.write_table(table, path)
    with pytest.raises(UserError, match="a.parquet, with 'text' more than once"):
        read(path)


@pytest.mark.parametrize("names", [["ham", "spam"], None])
def test_parquet_that_was_written_again(tmp_path, names):
    """The file keeps the column description from `datasets`, which may be of other columns."""
    path, described = tmp_path / "a.parquet", {"_type": "ClassLabel", "names": names}
    stale = {"label": described, "folder": described}
    assert_read(parquet(path, stale, text=["a"], label=["spam"]), [("a", None, "spam")])
    expected = "spam" if names else "1.0"
    assert_read(parquet(path, stale, text=["a"], label=[1.0]), [("a", None, expected)])
    if names:
        with pytest.raises(UserError, match="index into ham, spam. Received: 0.5"):
            read(parquet(path, stale, text=["a"], label=[0.5]))

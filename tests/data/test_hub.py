import gzip
import json
import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.registry import read_split, task_of, train_and_dev
from albert_tf.errors import UserError

NAMES = {
    "sst2": ["negative", "positive"],
    "mnli": ["entailment", "neutral", "contradiction"],
    "qqp": ["not_duplicate", "duplicate"],
    "rte": ["entailment", "not_entailment"],
}
TEXTS = {
    "sst2": ["sentence"],
    "mnli": ["premise", "hypothesis"],
    "qqp": ["question1", "question2"],
    "rte": ["sentence1", "sentence2"],
}


def columns(rows, **features):
    text = datasets.Value("string")
    return datasets.Dataset.from_list(
        rows, datasets.Features({**dict.fromkeys(rows[0], text), **features})
    )


def glue(task, label):
    row = {**dict.fromkeys(TEXTS[task], "A text."), "label": label}
    return columns([row], label=datasets.ClassLabel(names=NAMES[task]))


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


def task(name, data, **others):
    return task_of(LabelledData(task=name, data=Path(data), **others))


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
    assert [(each.label, each.part) for each in found] == [
        ("contradiction", ""),
        ("contradiction", "mismatched"),
    ]


def test_test_splits_have_no_labels(hub):
    hub["nyu-mll/glue", "sst2", "test"] = glue("sst2", -1)
    (example,) = read_split(task("sst2", "hub:nyu-mll/glue/sst2"), "test", labelled=False)
    assert example.label is None
    with pytest.raises(UserError, match="'label' must not be empty. Received: .*test, row 1"):
        read_split(task("sst2", "hub:nyu-mll/glue/sst2"), "test")


def test_a_short_name_is_an_owner_s_or_a_configuration(hub):
    hub["glue", "sst2", "train"] = glue("sst2", 0)
    assert read_split(task("sst2", "hub:glue/sst2"), "train")[0].label == "0"
    assert [each[:2] for each in hub["asked"]] == [("glue/sst2", None), ("glue", "sst2")]


def test_other_tasks(hub):
    text, number = datasets.Value("string"), datasets.Value("int32")
    hub["rajpurkar/squad", None, "train"] = columns(
        [
            {
                "id": "q1",
                "title": "Bread",
                "context": "She sells bread.",
                "question": "What does she sell?",
                "answers": {"text": ["bread"], "answer_start": [10]},
            }
        ],
        answers={"text": datasets.List(text), "answer_start": datasets.List(number)},
    )
    (question,) = read_split(task("squad", "hub:rajpurkar/squad"), "train")
    assert question.golds == ("bread",) and question.span == (10, 15)
    row = {"example_id": "middle7.txt", "article": "A.", "answer": "B", "question": "Who?"}
    hub["ehovy/race", "all", "train"] = columns(
        [{**row, "options": ["x", "y"]}], options=datasets.List(text)
    )
    (example,) = read_split(task("race", "hub:ehovy/race/all"), "train")
    assert (example.label, example.part, example.choices) == (1, "middle", ("x", "y"))
    tags = datasets.List(datasets.ClassLabel(names=["O", "B-x"]))
    hub["o/wnut", None, "train"] = columns(
        [{"tokens": ["In", "Rome"], "ner_tags": [0, 1]}], tokens=datasets.List(text), ner_tags=tags
    )
    (sentence,) = read_split(task("tag", "hub:o/wnut"), "train")
    assert sentence.tags == ("O", "B-x")
    swag = {"sent1": "She sits.", "sent2": "She", **{f"ending{n}": str(n) for n in range(4)}}
    hub["allenai/swag", "regular", "validation"] = columns(
        [{**swag, "label": 3}], label=datasets.ClassLabel(names=list("0123"))
    )
    assert read_split(task("swag", "hub:allenai/swag/regular"), "dev")[0].label == 3


def test_what_is_missing_is_said(hub, monkeypatch):
    with pytest.raises(UserError, match="split train of hub:a/b: Dataset 'a/b'"):
        read_split(task("sst2", "hub:a/b"), "train")

    def offline(*_, **__):
        raise ConnectionError("Couldn't reach the Hub")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with pytest.raises(UserError, match="split train of hub:a/b/c: Couldn't reach the Hub"):
        read_split(task("sst2", "hub:a/b/c"), "train")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        UserError, match=r"hub:a/b/c/train requires the datasets package.*albert_tf\[datasets\]"
    ):
        read_split(task("sst2", "hub:a/b/c"), "train")


def test_a_folder_of_parquet_files(tmp_path, monkeypatch):
    """Reads files with and without names of classes, directly and through `datasets`."""
    glue("rte", 1).to_parquet(tmp_path / "train.parquet")
    columns([{"sentence1": "a", "sentence2": "b", "label": "1"}]).to_parquet(
        tmp_path / "dev.parquet"
    )
    train, dev = train_and_dev(task("rte", tmp_path), 0.1, 1)
    assert train[0].label == dev[0].label == "not_entailment"
    assert train[0].location == f"{tmp_path}/train.parquet, row 1"
    loaded = datasets.load_dataset(str(tmp_path), split="train", cache_dir=str(tmp_path / "cache"))
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: loaded)
    assert read_split(task("rte", "hub:o/rte"), "train")[0].label == "not_entailment"


def test_own_parquet_files(tmp_path, monkeypatch):
    names = datasets.ClassLabel(names=["ham", "spam"])
    path = tmp_path / "mails.parquet"
    columns([{"text": "a", "label": 1}, {"text": "b", "label": 0}], label=names).to_parquet(path)
    assert [each.label for each in task("classify", path).read(path)] == ["spam", "ham"]
    with pytest.raises(UserError, match="--encoding .* Received: cp1252"):
        task("classify", path, encoding="cp1252").read(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match="mails.parquet is not a valid .parquet file"):
        task("classify", path).read(path)
    path.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"mails.parquet requires .*pyarrow.*albert_tf\[datasets\]"):
        task("classify", path).read(path)


def parquet(path, description=None, **given):
    """Writes a Parquet file; `description` is what `datasets` writes of columns."""
    table = pyarrow.table(list(given.values()), names=list(given))
    if description:
        info = json.dumps({"info": {"features": description}})
        table = table.replace_schema_metadata({"huggingface": info})
    pyarrow.parquet.write_table(table, path)
    return task("classify", path).read(path)


def test_parquet_with_text_as_bytes(tmp_path):
    (example,) = parquet(tmp_path / "a.parquet", text=["Déjà vu".encode()], label=[b"ham"])
    assert example[:3] == ("Déjà vu", None, "ham")


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
    path = tmp_path / "a.parquet"
    with pytest.raises(UserError, match=f"'label' must be a string.*{message}.*a.parquet, row 1"):
        parquet(path, text=["a"], label=values)
    assert parquet(path, text=["a"], label=["b"], other=values)[0].label == "b"


def test_a_bad_row_of_parquet_can_be_skipped(tmp_path):
    path = tmp_path / "a.parquet"
    pair = {"text": [b"good", b"d\xe9j\xe0"], "label": ["x", "y"]}
    with pytest.raises(UserError, match="'text' must be .*row 2"):
        parquet(path, **pair)
    (example,) = task("classify", path, skip_bad_rows=True).read(path)
    assert example.text == "good"


def test_parquet_with_two_columns_of_one_name(tmp_path):
    path = tmp_path / "a.parquet"
    table = pyarrow.table([["a"], ["b"], ["c"]], names=["text", "label", "text"])
    pyarrow.parquet.write_table(table, path)
    with pytest.raises(UserError, match="a.parquet, with 'text' more than once"):
        task("classify", path).read(path)


@pytest.mark.parametrize("names", [["ham", "spam"], None])
def test_parquet_that_was_written_again(tmp_path, names):
    """The file keeps the column description from `datasets`, which may be of other columns."""
    described = {"_type": "ClassLabel", "names": names}
    stale = {"label": described, "folder": described}
    (example,) = parquet(tmp_path / "a.parquet", stale, text=["a"], label=["spam"])
    assert example.label == "spam"
    (example,) = parquet(tmp_path / "a.parquet", stale, text=["a"], label=[1.0])
    assert example.label == ("spam" if names else "1.0")
    if names:
        with pytest.raises(UserError, match="index into ham, spam. Received: 0.5"):
            parquet(tmp_path / "a.parquet", stale, text=["a"], label=[0.5])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv.gz", "text\tlabel\nDéjà vu\tx\n"),
        ("a.csv.gz", 'text,label\n"Déjà vu",x\n'),
        ("a.jsonl.gz", '{"text": "Déjà vu", "label": "x"}\n'),
    ],
)
def test_compressed_files(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()))
    (example,) = task("classify", path).read(path)
    assert example[:3] == ("Déjà vu", None, "x")
    path.write_bytes(content.encode())
    with pytest.raises(UserError, match="not a valid .gz file: Not a gzipped file"):
        task("classify", path).read(path)
    path.write_bytes(gzip.compress(content.encode("latin1")))
    with pytest.raises(UserError, match="isn't UTF-8: line [12] contains the byte 0xe9"):
        task("classify", path).read(path)

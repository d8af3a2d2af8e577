from datetime import date
from pathlib import Path

import pytest

from albert_tf.data.readers import rows_of
from albert_tf.data.table_output import check_format, write_table
from albert_tf.data.tables import Columns
from albert_tf.errors import UserError

TEXTS = ['a "b", c', "tab\there", "two\nlines", "", "' ;", "Déjà\u2028vu", '"quoted"']
SUFFIXES = [".csv", ".tsv", ".jsonl", ".json", ".parquet"]


def read(path):
    return [row.fields for row in rows_of(path, Columns("text"))]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_are_read_as_they_were_written(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    texts = [*TEXTS, *["a\rb"] * (suffix != ".tsv")]
    rows = [{"text": text, "id": str(number)} for number, text in enumerate(texts)]
    write_table(path, ["text", "id"], rows, suffix)
    assert read(path) == rows


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_with_other_columns(tmp_path, suffix):
    """Values stay in their columns, whatever the order and number of a row's fields."""
    path = tmp_path / f"table{suffix}"
    rows = [{"id": "1", "text": "a"}, {"text": "b", "id": "2", "more": "x"}, {"text": "c"}]
    write_table(path, ["id", "text", "more"], rows, suffix)
    none = "" if suffix in (".csv", ".tsv") else None
    assert read(path) == [
        {"id": "1", "text": "a", "more": none},
        {"id": "2", "text": "b", "more": "x"},
        {"id": none, "text": "c", "more": none},
    ]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_other_values(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    row = {
        "text": "a",
        "score": 0.25,
        "labels": ["x", "y, z"],
        "none": None,
        "day": date(2026, 1, 2),
    }
    write_table(path, list(row), [row], suffix)
    (found,) = read(path)
    if suffix in (".csv", ".tsv"):
        assert [*found.values()] == ["a", "0.25", '["x", "y, z"]', "", "2026-01-02"]
    else:
        day = row["day"] if suffix == ".parquet" else "2026-01-02"
        assert found == {**row, "day": day}


def test_code_points_that_utf_8_lacks(tmp_path):
    for suffix in (".csv", ".jsonl"):
        write_table(tmp_path / "table", ["text"], [{"text": "a\ud800b"}], suffix)
        assert "a?b" in (tmp_path / "table").read_text("utf-8")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_values_that_cannot_be_read(tmp_path, suffix):
    rows = [{"text": "a", "year": ValueError("year 10000")}]
    with pytest.raises(UserError, match="'year' contains a value.*year 10000"):
        write_table(tmp_path / "table", ["text", "year"], rows, suffix)


@pytest.mark.parametrize(("suffix", "value"), [(".csv", b"a"), (".json", b"a"), (".jsonl", {1})])
def test_values_that_text_lacks(tmp_path, suffix, value):
    with pytest.raises(UserError, match=r"Write a \.parquet file"):
        write_table(tmp_path / "table", ["text"], [{"text": value}], suffix)


def test_a_line_break_that_tsv_lacks(tmp_path):
    with pytest.raises(UserError, match=r"carriage return.*'a\\rb'.*\.csv"):
        write_table(tmp_path / "table", ["text"], [{"text": "a\rb"}], ".tsv")


@pytest.mark.parametrize("values", [(1, "x"), (2**70, 1)])
def test_columns_that_parquet_lacks(tmp_path, values):
    rows = [{"text": value} for value in values]
    with pytest.raises(UserError, match=r"'text' has no Parquet type: .* \.jsonl file"):
        write_table(tmp_path / "table", ["text"], rows, ".parquet")


@pytest.mark.parametrize("name", ["table.xlsx", "table", "table.csv.gz"])
def test_formats_that_are_not_written(name):
    with pytest.raises(UserError, match=name):
        check_format(Path(name))

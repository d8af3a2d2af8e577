from datetime import date
from pathlib import Path

import pytest

from albert_tf.data.readers import rows_of
from albert_tf.data.table_output import check_format, check_values, write_table
from albert_tf.data.tables import Columns
from albert_tf.errors import UserError

TEXTS = ['a "b", c', "tab\there", "two\nlines", "", "' ;", "Déjà\u2028vu", '"quoted"']
SUFFIXES = [".csv", ".tsv", ".jsonl", ".json", ".parquet"]


def written(path, names, rows):
    """Returns the rows of a table after writing and reading them."""
    write_table(path, names, rows, path.suffix)
    return [row.fields for row in rows_of(path, Columns("text"))]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_are_read_as_they_were_written(tmp_path, suffix):
    path, is_table = tmp_path / f"table{suffix}", suffix in (".csv", ".tsv")
    texts = [*TEXTS, *["a\rb"] * (suffix != ".tsv")]
    rows = [{"text": text, "id": str(number)} for number, text in enumerate(texts)]
    assert written(path, ["text", "id"], rows) == rows
    values = {"text": "a", "score": 0.25, "labels": ["x", "y, z"], "none": None}
    day = date(2026, 1, 2)
    (found,) = written(path, [*values, "day"], [{**values, "day": day}])
    assert found.pop("day") == (day if suffix == ".parquet" else str(day))
    as_text = {"text": "a", "score": "0.25", "labels": '["x", "y, z"]', "none": ""}
    assert found == (as_text if is_table else values)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_with_other_columns(tmp_path, suffix):
    """Values stay in their columns, whatever the order and number of a row's fields."""
    rows = [{"id": "1", "text": "a"}, {"text": "b", "id": "2", "more": "x"}, {"text": "c"}]
    none = "" if suffix in (".csv", ".tsv") else None
    assert written(tmp_path / f"table{suffix}", ["id", "text", "more"], rows) == [
        {"id": "1", "text": "a", "more": none},
        {"id": "2", "text": "b", "more": "x"},
        {"id": none, "text": "c", "more": none},
    ]


def test_code_points_that_utf_8_lacks(tmp_path):
    for suffix in (".csv", ".jsonl"):
        assert (
            written(tmp_path / f"a{suffix}", ["text"], [{"text": "a\ud800b"}])[0]["text"] == "a?b"
        )


UNREADABLE = ValueError("year 10000")


@pytest.mark.parametrize(
    ("suffix", "values", "message"),
    [
        *((suffix, [UNREADABLE], "'text' contains a value.*year 10000") for suffix in SUFFIXES),
        *((suffix, [b"a"], r"Write a \.parquet file") for suffix in (".csv", ".json")),
        (".jsonl", [{1}], r"Write a \.parquet file"),
        (".tsv", ["a\rb"], r"carriage return.*'a\\rb'.*\.csv"),
        (".parquet", [1, "x"], r"'text' has no Parquet type: .* \.jsonl file"),
        (".parquet", [2**70, 1], r"'text' has no Parquet type: .* \.jsonl file"),
    ],
)
def test_values_that_a_format_lacks(tmp_path, suffix, values, message):
    rows = [{"text": value} for value in values]
    with pytest.raises(UserError, match=message):
        check_values(["text"], rows, suffix)
    with pytest.raises(UserError, match=message):
        write_table(tmp_path / "table", ["text"], rows, suffix)


@pytest.mark.parametrize("name", ["table.xlsx", "table", "table.csv.gz"])
def test_formats_that_are_not_written(name):
    with pytest.raises(UserError, match=name):
        check_format(Path(name))

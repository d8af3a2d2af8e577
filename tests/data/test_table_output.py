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
    rows = [{"text": text, "id": str(number)} for number, text in enumerate(TEXTS)]
    write_table(path, rows, suffix)
    assert read(path) == rows


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
    write_table(path, [row], suffix)
    (found,) = read(path)
    if suffix in (".csv", ".tsv"):
        assert [*found.values()] == ["a", "0.25", '["x", "y, z"]', "", "2026-01-02"]
    else:
        day = row["day"] if suffix == ".parquet" else "2026-01-02"
        assert found == {**row, "day": day}


def test_code_points_that_utf_8_lacks(tmp_path):
    for suffix in (".csv", ".jsonl"):
        write_table(tmp_path / "table", [{"text": "a\ud800b"}], suffix)
        assert "a?b" in (tmp_path / "table").read_text("utf-8")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_values_that_a_format_lacks(tmp_path, suffix):
    with pytest.raises(UserError, match=r"\.(parquet|jsonl) file"):
        write_table(tmp_path / "table", [{"text": ValueError("year 10000")}], suffix)


@pytest.mark.parametrize("name", ["table.xlsx", "table", "table.csv.gz"])
def test_formats_that_are_not_written(name):
    with pytest.raises(UserError, match=name):
        check_format(Path(name))

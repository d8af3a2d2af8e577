"""Writes tables in the formats that `readers.rows_of` reads."""

import csv
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

from albert_tf.data import hub
from albert_tf.errors import UserError, short_repr

Rows = Iterable[Mapping[str, Any]]
Values = Iterable[Sequence[Any]]


def check_format(path: Path) -> None:
    """Raises a `UserError` if tables of this format can't be written."""
    if path.suffix not in _WRITERS:
        raise UserError(
            f"The output must be a table ({', '.join(_WRITERS)}). Received: {path}. Choose one of "
            "these suffixes."
        )
    if path.suffix == hub.PARQUET:
        hub.require_pyarrow(path)


def write_table(path: Path, names: Sequence[str], rows: Rows, suffix: str) -> None:
    """Writes a table.

    In text tables, None is written as an empty field, and lists and objects as JSON. Code points
    that UTF-8 can't represent become "?". Rows of `.json` and `.parquet` files are collected in
    memory.

    Args:
        path: file to write; its suffix is ignored, because `suffix` determines the format.
        names: names of the columns. If a row lacks a column, its value is None.
        suffix: suffix that determines the format; see `check_format`.
    Raises:
        UserError: if the format can't represent a value.
    """
    _WRITERS[suffix](path, names, (_values(names, row) for row in rows))


def check_values(names: Sequence[str], rows: Rows, suffix: str) -> None:
    """Raises the errors that `write_table` would raise, without writing a file."""
    values = (_values(names, row) for row in rows)
    if suffix == hub.PARQUET:
        _arrow_table(names, values)
    else:
        _WRITERS[suffix](Path(os.devnull), names, values)


def add_columns(path: Path, source: Path, rows: Rows) -> None:
    """Writes a Parquet file with the columns of another, which keep their types, and new columns.

    Args:
        path: file to write.
        source: file with the old columns.
        rows: values of the new columns, for each row of `source`.
    """
    import pyarrow
    from pyarrow import parquet

    with parquet.ParquetFile(source) as file:  # read_table would add columns named in the path
        table = file.read()
    new = pyarrow.Table.from_pylist(list(rows))
    for name in new.column_names:
        table = table.append_column(name, new[name])
    parquet.write_table(table, path)


def _values(names: Sequence[str], row: Mapping[str, Any]) -> list[Any]:
    values = [row.get(name) for name in names]
    for name, value in zip(names, values, strict=True):
        if isinstance(value, Exception):  # from a Parquet file
            raise UserError(
                f"The column {name!r} contains a value that can't be read: {value}. Remove the "
                "column."
            )
    return values


def _write_separated(path: Path, names: Sequence[str], rows: Values, separator: str) -> None:
    with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
        # csv.writer doesn't quote carriage returns, but readers treat them as line ends.
        plain, quoted = (
            csv.writer(file, delimiter=separator, lineterminator="\n", quoting=quoting)
            for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
        )
        for row in chain([names], rows):
            cells = [*map(_cell, row)]
            has_return = any("\r" in cell for cell in cells)
            if has_return and separator == "\t":  # quotation marks are part of the text
                raise UserError(
                    "A .tsv table can't contain a carriage return. "
                    f"Received: {short_repr(cells)}. Write a .csv file."
                )
            (quoted if has_return else plain).writerow(cells)


def _cell(value: Any) -> str:
    if isinstance(value, str | date):
        return str(value)
    return "" if value is None else _json(value)


def _write_lines(path: Path, names: Sequence[str], rows: Values) -> None:
    with path.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
        file.writelines(_json(dict(zip(names, row, strict=True))) + "\n" for row in rows)


def _write_json(path: Path, names: Sequence[str], rows: Values) -> None:
    content = _json([dict(zip(names, row, strict=True)) for row in rows])
    path.write_text(content + "\n", encoding="utf-8", errors="replace", newline="\n")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_date)


def _date(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    raise UserError(
        f"JSON and text tables can't contain the value {short_repr(value)}. Write a .parquet file, "
        "or remove the column."
    )


def _write_parquet(path: Path, names: Sequence[str], rows: Values) -> None:
    from pyarrow import parquet

    parquet.write_table(_arrow_table(names, rows), path)


def _arrow_table(names: Sequence[str], rows: Values) -> Any:
    import pyarrow

    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    table = {}
    for name, values in columns.items():
        try:
            table[name] = pyarrow.array(values)
        except (pyarrow.ArrowException, ValueError, OverflowError, TypeError) as error:
            raise UserError(
                f"The column {name!r} has no Parquet type: {error}. Write a .jsonl file, or remove "
                "the column."
            ) from error
    return pyarrow.table(table)


_WRITERS: Final[Mapping[str, Callable[[Path, Sequence[str], Values], None]]] = {
    ".csv": partial(_write_separated, separator=","),
    ".tsv": partial(_write_separated, separator="\t"),
    ".jsonl": _write_lines,
    ".json": _write_json,
    hub.PARQUET: _write_parquet,
}

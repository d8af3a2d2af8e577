"""Writes tables of the formats that `readers.rows_of` reads."""

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any, Final

from albert_tf.data import hub
from albert_tf.errors import UserError, short_repr

Rows = Iterable[Mapping[str, Any]]


def check_format(path: Path) -> None:
    """Raises a `UserError` if tables of this format can't be written."""
    if path.suffix not in _WRITERS:
        raise UserError(
            f"The output must be a table ({', '.join(_WRITERS)}). Received: {path}. Choose one of "
            "these suffixes."
        )
    if path.suffix == hub.PARQUET:
        hub.require_pyarrow(path)


def write_table(path: Path, rows: Rows, suffix: str) -> None:
    """Writes rows with the same columns to a file.

    In text tables, None is an empty field, and lists and objects are written as JSON. Code points
    that UTF-8 can't represent become "?".

    Args:
        path: file to write, whose own suffix is ignored.
        suffix: determines the format; see `check_format`.
    Raises:
        UserError: if the format can't represent a value.
    """
    _WRITERS[suffix](path, rows)


def _write_separated(path: Path, rows: Rows, separator: str) -> None:
    with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        rows = iter(rows)
        for first in rows:
            writer.writerow(first)
            writer.writerows(map(_cell, row.values()) for row in chain([first], rows))


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, str | date) else _json(value)


def _write_lines(path: Path, rows: Iterable[Any]) -> None:
    with path.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
        file.writelines(_json(row) + "\n" for row in rows)


def _write_json(path: Path, rows: Rows) -> None:
    _write_lines(path, [list(rows)])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_date)


def _date(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    raise UserError(
        f"JSON and text tables can't contain the value {short_repr(value)}. Write a .parquet file, "
        "or remove the column."
    )


def _write_parquet(path: Path, rows: Rows) -> None:
    import pyarrow
    from pyarrow import parquet

    try:
        parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), path)
    except pyarrow.ArrowException as error:
        raise UserError(
            f"The values of a column have no common Parquet type: {error}. Write a .jsonl file."
        ) from error


_WRITERS: Final[Mapping[str, Callable[[Path, Rows], None]]] = {
    ".csv": lambda path, rows: _write_separated(path, rows, ","),
    ".tsv": lambda path, rows: _write_separated(path, rows, "\t"),
    ".jsonl": _write_lines,
    ".json": _write_json,
    hub.PARQUET: _write_parquet,
}

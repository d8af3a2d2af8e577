"""Builds examples from the rows of TSV, CSV, JSON, and Parquet files, and of datasets on the Hub.

`rows_of` opens a file in any of these formats. `make_each` builds an example from each row, and
either stops at a bad row or skips it.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from albert_tf.data import hub
from albert_tf.data.json_rows import json_rows
from albert_tf.data.tables import BAD_ROW, NAME_COLUMN, Columns, table_rows
from albert_tf.data.text_files import check_compression, require_file, warn_once
from albert_tf.errors import UserError, listed, short_repr

_PLAIN: Final = (".tsv", ".csv", ".jsonl", ".json")
TEXT_FORMATS: Final = (*_PLAIN, *(f"{ending}.gz" for ending in _PLAIN))
FORMATS: Final = (*TEXT_FORMATS, hub.PARQUET)
SHEETS: Final = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
Item = TypeVar("Item")
Made = TypeVar("Made")


class Example(NamedTuple):
    """A text or a text pair, with its label as spelled in the file.

    Attributes:
        label: a string, a tuple of strings if there are several labels, or None.
        part: name of a set that is scored separately, such as MNLI's mismatched examples.
        group: the value of the group column. Rows with the same value stay together.
        location: location of the example in its file, for error messages.
    """

    text: str
    text_pair: str | None
    label: Any
    part: str = ""
    group: str = ""
    location: str = ""


class Location(str):
    """The location of a row in its file, for error messages.

    Attributes:
        row: 0-based index of the row in the file, counting bad rows.
    """

    row: int

    def __new__(cls, place: str, row: int) -> "Location":
        location = super().__new__(cls, place)
        location.row = row
        return location


def row_numbers(locations: Iterable[str]) -> list[int]:
    """Returns the 0-based index of each example in its file, or in the list if there is no file."""
    return [getattr(location, "row", number) for number, location in enumerate(locations)]


class Row(NamedTuple):
    """A row of a file: its location, for error messages, and its values by column."""

    location: str
    fields: Mapping[Any, Any]

    def text(self, name: str | int, may_be_empty: bool = False) -> str:
        """Returns a value as text. Numbers and booleans are formatted as in JSON.

        Raises:
            UserError: the row has no such column; the value is neither a string nor a finite
                number; or the value is empty and `may_be_empty` is false.
        """
        self.require([name])
        text = self.optional_text(name)
        if not text and not may_be_empty:
            raise UserError(f"{name!r} must not be empty. Received: {self.location}.")
        return text

    def optional_text(self, name: str | int | None) -> str:
        """Returns a value as text, or "" if it is blank or the row has no such column."""
        return self._to_text(self.get(name), name)

    def get(self, name: str | int | None) -> Any:
        """Returns a value, or None if it is missing. `a.b` is the field `b` of the object `a`."""
        value = self.fields.get(name)
        if value is None and isinstance(name, str) and "." in name and name not in self.fields:
            value = self.fields
            for part in name.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def items(self, name: str | int) -> list[Any]:
        """Returns the items of a list.

        Raises:
            UserError: the row has no such column, or the value isn't a list.
        """
        self.require([name])
        value = self.get(name)
        if not isinstance(value, list):
            raise UserError(
                f"{name!r} must be a list. Received: {short_repr(value)} ({self.location})."
            )
        return value

    def texts(self, name: str | int) -> list[str]:
        """Returns the items of a list as texts. A blank item becomes ""."""
        return [self._to_text(item, name) for item in self.items(name)]

    def _to_text(self, value: Any, name: str | int | None) -> str:
        is_number = isinstance(value, float) and math.isfinite(value)
        if value is None or isinstance(value, str | int) or is_number:
            text = value if isinstance(value, str) else json.dumps(value)
            return "" if value is None or not text.strip() else text
        if isinstance(value, date):  # in a Parquet file
            return str(value)
        raise UserError(
            f"{name!r} must be a string or a number. Received: {short_repr(value)} "
            f"({self.location})."
        )

    def require(self, names: Iterable[str | int]) -> None:
        """Raises a `UserError` if the row lacks one of these columns."""
        for name in names:
            if name not in self.fields and self.get(name) is None:
                raise UserError(
                    f"Every row must have a column {name!r}. Received: {self.location}, with "
                    f"{listed(map(repr, self.fields))}. {NAME_COLUMN}"
                )


def read_examples(
    path: Path,
    columns: Columns,
    skip_bad_rows: bool | None = False,
    part: str = "",
    read_label: Callable[[Row, str | int], Any] = Row.text,
    encoding: str | None = None,
) -> list[Example]:
    """Reads texts or pairs of texts with their labels; see `rows_of` and `make_each`.

    Without a label column, texts may be empty, because every row needs a prediction.
    """
    may_be_empty = columns.label is None

    def example(row: Row) -> Example:
        text = row.text(columns.text, may_be_empty)
        pair = None if columns.text_pair is None else row.text(columns.text_pair, may_be_empty)
        label = None if columns.label is None else read_label(row, columns.label)
        group = "" if columns.group is None else row.text(columns.group)
        return Example(text, pair, label, part, group, row.location)

    return make_each(path, rows_of(path, columns, encoding), example, skip_bad_rows)


def rows_of(
    path: Path, columns: Sequence[str | int | None], encoding: str | None = None
) -> Iterator[Row]:
    """Yields the rows of a `.tsv`, `.csv`, `.jsonl`, `.json`, or `.parquet` file lazily.

    All formats except `.parquet` can be compressed (`.gz`). In a `.tsv` file, quotation marks are
    part of the text, unless the whole file quotes fields as Excel and pandas do. If the header
    contains the columns only when split at a different separator, that separator is used and
    logged.

    Args:
        path: the file, or a split on the Hub as returned by `hub.split`.
        columns: the columns that the file must have. If the first is an index, the file has no
            header.
        encoding: a Python codec. Default: UTF-8, unless there is a byte order mark.
    Raises:
        UserError: the file doesn't exist, has the wrong format or encoding, or lacks a column.
    """
    check_file(path, FORMATS)
    unit = "line"
    if hub.is_hub(path) or path.suffix == hub.PARQUET:
        rows, unit = hub.rows(path, encoding), "row"
    elif path.name.removesuffix(".gz").endswith((".json", ".jsonl")):
        rows = json_rows(path, encoding)
    else:
        rows = table_rows(path, columns, encoding)
    return locate(path, rows, unit)


def locate(
    path: Path, rows: Iterable[tuple[int, Mapping[Any, Any]]], unit: str = "line"
) -> Iterator[Row]:
    """Yields rows with their locations, such as "FILE, line 3"; `unit` is "line" or "row"."""
    for index, (number, fields) in enumerate(rows):
        yield Row(Location(f"{path}, {unit} {number}", index), fields)


def check_file(path: Path, formats: Sequence[str], content: str = "examples") -> None:
    """Rejects a path that is neither a regular file in one of the formats nor a Hub split."""
    if hub.is_hub(path):
        return
    require_file(path)
    if not path.name.endswith(tuple(formats)):
        plain = [end for end in formats if f"{end}.gz" in formats]
        save = (
            " Save the sheet as CSV." if path.suffix.lower() in SHEETS and ".csv" in formats else ""
        )
        raise UserError(
            f"A file of {content} must end in {', '.join(plain)} (each also as .gz), or "
            f"{hub.PARQUET}. Received: {path}.{save}"
        )


def make_each(
    source: Path,
    items: Iterable[Item],
    make: Callable[[Item], Made],
    skip_bad_rows: bool | None = False,
    name: str = "row",
) -> list[Made]:
    """Builds an example from each item of a file or folder.

    Args:
        make: function that builds an example from an item and raises `UserError` for a bad item.
        skip_bad_rows: whether to skip bad rows (such as some in GLUE's QQP), and log how many. A
            row is bad if it isn't JSON, doesn't fit the header, or is rejected by `make`. None
            means False, but errors don't recommend skipping, because every row needs a prediction.
    Raises:
        UserError: there are no items, or an item is bad (the message gives its location).
    """
    done, bad = [], []
    for item in items:
        try:
            if isinstance(item, Row):
                check_row(item)
            done.append(make(item))
        except UserError as error:
            bad.append(error)
            if skip_bad_rows:
                continue
            check_compression(source)
            if skip_bad_rows is None:
                raise
            raise UserError(
                f"{error} Correct the row, or skip such rows with --skip-bad-rows."
            ) from error
    if not done:
        raise UserError(f"A file must have at least one {name}. Received: {source}.")
    _skipped[source] = len(bad)
    if bad:
        warn_once(f"{source}: skipped {len(bad)} bad {name}s; the first: {bad[0]}")
    return done


def skipped_rows(source: Path) -> int:
    """Returns the number of rows skipped when the file was read."""
    return _skipped.get(source, 0)


_skipped: dict[Path, int] = {}


def check_row(row: Row) -> None:
    """Raises a `UserError` for a row that can't be read, or whose fields don't fit the header."""
    if BAD_ROW not in row.fields:
        return
    fault = row.fields[BAD_ROW]
    if isinstance(fault, UserError):
        raise fault
    raise UserError(
        "Every row must have as many fields as the first. "
        f"Received: {row.location}, {len(fault)} fields."
    )

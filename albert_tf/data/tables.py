"""Rows of CSV and TSV tables, as written by spreadsheets, pandas, and GLUE.

`pandas.read_csv` and `pyarrow.csv` aren't used, because they accept rows with too few fields or
stray quotation marks, and change their content. They don't report line numbers, and they can't
distinguish tables with quoted fields from GLUE's, where quotation marks are part of the text.
"""

import contextlib
import csv
import difflib
import io
import re
from collections.abc import Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any, Final, NamedTuple

from albert_tf.data.lines import LONGEST_LINE
from albert_tf.data.text_files import open_text, warn_once
from albert_tf.errors import UserError, listed

csv.field_size_limit(LONGEST_LINE)  # a text may be a whole book; the default is 131,072
SEPARATORS: Final = (",", ";", "\t", "|")
# Key of a row that can't be read. The value is the error, or the fields if their number is wrong.
BAD_ROW: Final = None
NAME_COLUMN: Final = "Rename one of these, or name it with an option such as --text-column."
NO_HEADER: Final = (
    "If the first line is an example, insert a line with the names of the columns above it."
)
NAMED_SEPARATOR: Final = re.compile('sep=([^"\r\n])[\r\n]*')  # tells Excel the separator


class Columns(NamedTuple):
    """The columns of a file: their names, or their 0-based indices if the file has no header."""

    text: str | int
    label: str | int | None = None
    text_pair: str | int | None = None
    group: str | None = None


# The option that names each column.
_OPTIONS: Final = Columns(
    text="--text-column",
    label="--label-column; predict a file without labels with albert-tf evaluate --submission",
    text_pair="--text-pair-column",
    group="--group-column",
)


def table_rows(
    path: Path, columns: Sequence[str | int | None], encoding: str | None
) -> Iterator[tuple[int, dict[Any, Any]]]:
    """Yields, for each row, the number of its last line and its fields by column.

    Args:
        columns: the columns that the file must have. If the first is an index, the file has no
            header.
    """
    has_header = not isinstance(columns[0], int)
    is_tsv = path.name.removesuffix(".gz").endswith(".tsv")
    with open_text(path, "", encoding) as file:
        first = next(file, None)
        if first is None:
            return
        lines = [first]
        if named := NAMED_SEPARATOR.fullmatch(first):
            lines.append(next(file, ""))
        separator = named[1] if named else _separator(path, first, is_tsv, columns)
        dialect: dict[str, Any] = {"strict": True}
        if is_tsv and separator == "\t" and not _has_quoted_fields(path, encoding):
            dialect = {"quoting": csv.QUOTE_NONE}
        reader = csv.reader(chain(lines, file), delimiter=separator, **dialect)
        if named:
            next(reader)
        names: list[str] | None = None
        header: list[Any] | None = None
        while True:
            before = reader.line_num
            try:
                row = next(reader, None)
            except csv.Error as error:
                fault = UserError(f"{path}, line {reader.line_num}: {error}.")
                # A field with an unclosed quotation mark contains the rows after it.
                if header is None or reader.line_num > before + 1:
                    raise fault from error
                yield reader.line_num, {BAD_ROW: fault}
                continue
            if row is None:
                return
            if header is None:
                header = list(range(len(row)))
                if has_header:
                    names, header = row, _header(path, row, columns)
                    continue
            if not row:
                continue
            fields = dict(zip(header, row, strict=False))
            if row == names and len(row) > 1:
                fields = {BAD_ROW: repeated_header(path, reader.line_num)}
            yield reader.line_num, fields if len(row) == len(header) else {BAD_ROW: row}


def repeated_header(path: Path, line: int) -> UserError:
    """Returns the error for a header in the middle of a file."""
    return UserError(f"{path}, line {line}, repeats the header, as if files had been joined.")


def _separator(path: Path, line: str, is_tsv: bool, columns: Sequence[str | int | None]) -> str:
    """Returns the separator that yields all required columns, and warns if it is unusual."""
    usual = "\t" if is_tsv else ","
    wanted = {name for name in columns if isinstance(name, str)}
    for separator in (usual, *SEPARATORS):
        with contextlib.suppress(csv.Error, StopIteration):
            header = {name.strip() for name in next(csv.reader([line], delimiter=separator))}
            if wanted <= header and (wanted or len(header) > 1):
                if separator != usual:
                    warn_once(f"{path}: reading {separator!r} as the column separator.")
                return separator
    most = max(SEPARATORS, key=line.count)
    return most if usual not in line and most in line else usual


def _has_quoted_fields(path: Path, encoding: str | None) -> bool:
    """Returns whether a TSV file quotes fields, as Excel and pandas do, and warns if it does."""
    with open_text(path, "", encoding) as lines:
        is_quoted = _is_quoted(lines)
    if is_quoted:
        warn_once(
            f"{path}: dropping quotation marks around fields, because the whole file quotes fields "
            "as Excel and pandas do. In GLUE's files, quotation marks are part of the text."
        )
    return is_quoted


def _is_quoted(lines: Iterator[str]) -> bool:
    """Returns whether all quotation marks are used the way csv, pandas, or Excel uses them.

    `csv.writer` must reproduce each record from its fields. Excel also quotes fields that contain a
    comma. In GLUE's files, a quotation mark can occur inside a text or at one end of a text. A
    quotation can also open in one row and close in another.
    """
    taken: list[str] = []
    tabs, is_quoted = -1, False
    # csv also quotes fields that contain a character of `lineterminator`, such as the "," in ",\n".
    ends = ["\n", ",\n"]

    def record_lines() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line

    def as_written(row: Sequence[str], end: str, quoting: Any = csv.QUOTE_MINIMAL) -> str:
        record = io.StringIO()
        csv.writer(record, delimiter="\t", lineterminator=end, quoting=quoting).writerow(row)
        return record.getvalue().removesuffix(end)

    try:
        for row in csv.reader(record_lines(), delimiter="\t", strict=True):
            record = "".join(taken).rstrip("\r\n")
            if tabs < 0:
                tabs = record.count("\t")
                if '"' in record and record == as_written(row, "\n", csv.QUOTE_ALL):
                    return True
            if '"' in record or "," in record:
                ends = [end for end in ends if record == as_written(row, end)]
                are_rows = len(taken) > 1 and all(line.count("\t") == tabs for line in taken)
                if are_rows or not ends:
                    return False
            is_quoted = is_quoted or '"' in record
            taken.clear()
    except csv.Error:
        return False
    return is_quoted


def _header(path: Path, first: list[str], columns: Sequence[str | int | None]) -> list[Any]:
    """Returns the column names, and rejects a header that lacks or repeats one of `columns`.

    Other repeated names get a number as a suffix, as in pandas: "note", "note.1".
    """
    header = [name if name in columns else name.strip() for name in first]
    for position, name in enumerate(columns):
        if name is None:
            continue
        if header.count(str(name)) > 1:
            raise UserError(
                f"Column names must be unique. Received: {path}, with {name!r} "
                f"{header.count(str(name))} times. Rename one."
            )
        if name not in header:
            near = [column for column in header if column.casefold() == str(name).casefold()]
            near = near or difflib.get_close_matches(str(name), header, n=1)
            hint = NAME_COLUMN
            if isinstance(columns, Columns):
                hint = f"Name one of these with {_OPTIONS[position]}."
            hint = f"{hint} {NO_HEADER}"
            if near:
                hint = f"Did you mean {near[0]!r}? {NAME_COLUMN}"
            raise UserError(
                f"The file must have a column {name!r}. Received: {path}, with the columns "
                f"{listed(map(repr, header))}. {hint}"
            )
    names: list[str] = []
    for name in header:
        others = (f"{name}.{number}" for number in count(1))
        names.append(next(each for each in chain([name], others) if each not in names))
    return names

"""Rows of TSV, CSV, JSON and Parquet files, and of data sets on Hugging Face's hub."""

import codecs
import contextlib
import csv
import difflib
import functools
import gzip
import io
import json
import logging
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeVar

from albert_tf.data import hub
from albert_tf.data.corpus.reading import LONGEST_LINE, bounded_lines
from albert_tf.errors import UserError, escaped, listed, short_repr
from albert_tf.files import fault

_PLAIN: Final = (".tsv", ".csv", ".jsonl", ".json")
TEXT_FORMATS: Final = (*_PLAIN, *(f"{ending}.gz" for ending in _PLAIN))
FORMATS: Final = (*TEXT_FORMATS, hub.PARQUET)
csv.field_size_limit(LONGEST_LINE)  # a text may be a whole book; the default is 131,072
LARGEST: Final = 2**29  # bytes of a file that is read whole; in memory JSON takes ten times as much
SEPARATORS: Final = (",", ";", "\t", "|")  # as spreadsheets write tables
# Encodings that a file's first bytes name; UTF-32's begins as UTF-16's does.
_MARKS: Final = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_UTF8: Final = "utf-8-sig"
_DATA_FIRST: Final = re.compile(r'\{\s*"data"\s*:\s*\[\s*\{')  # an object with a list of rows
_SKIP: Final = "Correct the row, or skip such rows with --skip-bad-rows."
# Key of a row that can't be read. Its value is the error, or the fields of a row whose number of
# fields isn't the header's.
BAD_ROW: Final = None
SHEETS: Final = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
logger = logging.getLogger(__name__)
Item = TypeVar("Item")
Made = TypeVar("Made")
_WAY_OUT: Final = "Name one of these with an option such as --text-column."


class Columns(NamedTuple):
    """The columns of a file: their names, or their positions if the file has no header."""

    text: str | int
    label: str | int | None = None
    text_pair: str | int | None = None


# What to do if a file lacks the column.
_NAMED_BY: Final = Columns(
    text="--text-column",
    label="--label-column; predict a file without labels with albert-tf evaluate --submission",
    text_pair="--text-pair-column",
)


class Example(NamedTuple):
    """A text or a pair of texts, its label as in the file, and its place there for errors.

    Several labels are a tuple. `part` names a set that is scored by itself, such as MNLI's
    mismatched one.
    """

    text: str
    text_pair: str | None
    label: Any  # text, a tuple of texts, or None
    part: str = ""
    location: str = ""


class Location(str):
    """The place of a row in a file, for errors.

    Attributes:
        row: 0-based index among all rows of the file, bad ones included.
    """

    row: int

    def __new__(cls, place: str, row: int) -> "Location":
        location = super().__new__(cls, place)
        location.row = row
        return location


def row_numbers(locations: Iterable[str]) -> list[int]:
    """Returns the 0-based index of each example in its file; without a file, its position."""
    return [getattr(location, "row", number) for number, location in enumerate(locations)]


class Row(NamedTuple):
    """A row of a file: its place for errors, and its values by column."""

    location: str
    fields: Mapping[Any, Any]

    def text(self, name: str | int, may_be_empty: bool = False) -> str:
        """Returns a value as text; a number, true or false of JSON as JSON has it.

        Raises:
            UserError: the row has no such column, it is empty and may not be, or it is a list, an
                object or no number.
        """
        self.require([name])
        written = self.optional_text(name)
        if not written and not may_be_empty:
            raise UserError(f"{name!r} must not be empty. Received: {self.location}.")
        return written

    def optional_text(self, name: str | int | None) -> str:
        """Returns a value as text; "" if the row has no such column, or it is blank.

        None names no column.
        """
        return self._written(self.get(name), name)

    def get(self, name: str | int | None) -> Any:
        """Returns a value, or None; `a.b` is the field b of the object a."""
        value = self.fields.get(name)
        if value is None and isinstance(name, str) and "." in name and name not in self.fields:
            value = self.fields
            for part in name.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def items(self, name: str | int) -> list[Any]:
        """Returns a list.

        Raises:
            UserError: the row has no such column, or the value isn't a list.
        """
        self.require([name])
        value = self.get(name)
        if not isinstance(value, list):
            raise UserError(
                f"{name!r} must be a list. Received: {short_repr(value)}, {self.location}."
            )
        return value

    def texts(self, name: str | int) -> list[str]:
        """Returns the items of a list as texts; "" for a blank one."""
        return [self._written(item, name) for item in self.items(name)]

    def _written(self, value: Any, name: str | int | None) -> str:
        is_number = isinstance(value, float) and math.isfinite(value)
        if value is None or isinstance(value, str | int) or is_number:
            text = value if isinstance(value, str) else json.dumps(value)
            return "" if value is None or not text.strip() else text
        if isinstance(value, date):  # of Parquet
            return str(value)
        several = " For several labels give --multi-label." * isinstance(value, list)
        raise UserError(
            f"{name!r} must be a text or a number. Received: {short_repr(value)}, "
            f"{self.location}.{several}"
        )

    def require(self, names: Iterable[str | int]) -> None:
        """Refuses a row without one of these columns."""
        for name in names:
            if name not in self.fields and self.get(name) is None:
                raise UserError(
                    f"Every row must have {name!r}. Received: {self.location}, with "
                    f"{listed(map(repr, self.fields))}. {_WAY_OUT}"
                )


def read_examples(
    path: Path,
    columns: Columns,
    skip_bad_rows: bool | None = False,
    part: str = "",
    read_label: Callable[[Row, str | int], Any] = Row.text,
    encoding: str | None = None,
) -> list[Example]:
    """Reads texts or pairs of texts with their labels; see `read_rows`.

    Without a column of labels a text may be empty, since each row needs a prediction.
    """
    may_be_empty = columns.label is None

    def example(row: Row) -> Example:
        text = row.text(columns.text, may_be_empty)
        pair = None if columns.text_pair is None else row.text(columns.text_pair, may_be_empty)
        label = None if columns.label is None else read_label(row, columns.label)
        return Example(text, pair, label, part, row.location)

    return read_rows(path, columns, example, skip_bad_rows, encoding=encoding)


def read_rows(
    path: Path,
    columns: Sequence[str | int | None],
    make: Callable[[Row], Made],
    skip_bad_rows: bool | None = False,
    rows: Iterator[tuple[int, Mapping[Any, Any]]] | None = None,
    encoding: str | None = None,
) -> list[Made]:
    """Reads a `.tsv` (tabs), `.csv`, `.jsonl`, `.json`, each also `.gz`, or `.parquet`.

    Quotation marks of a `.tsv` are text, unless all of the file is quoted as csv does.
    A table whose header has the columns only with another separator of `SEPARATORS` is read with
    that one, and says so.

    Args:
        path: the file, in UTF-8 unless its first bytes name another encoding; or a split on the
            hub, as `hub.split` names it.
        columns: the columns that it must have; if the first is a number, it has no header.
        make: makes an example of a row; a `UserError` says that the row is bad.
        skip_bad_rows: skips rows that aren't JSON, that don't fit the header, or that `make`
            rejects, and logs their number. GLUE's QQP has some. None is False for rows that all
            need a prediction: their errors don't recommend it.
        rows: the rows of a file of another format, each with the number of its line.
        encoding: a name that Python knows, where it is known.
    Raises:
        UserError: no such file, another format, another encoding, a missing column, a bad row (the
            message names the line), or no row at all.
    """
    if rows is None:
        placed = rows_of(path, columns, encoding)
    else:
        require_file(path)
        placed = _placed(path, rows)

    def checked(row: Row) -> Made:
        check_row(row)
        return make(row)

    return made(path, placed, checked, skip_bad_rows)


def rows_of(
    path: Path, columns: Sequence[str | int | None], encoding: str | None = None
) -> Iterator[Row]:
    """Yields the rows of a file, which is read as needed; see `read_rows` for all else."""
    if hub.is_hub(path):
        return _numbered(hub.rows(path, encoding))
    require_file(path)
    check_ending(path, FORMATS)
    if path.suffix == hub.PARQUET:
        return _numbered(hub.rows(path, encoding))
    is_json = path.name.removesuffix(".gz").endswith((".json", ".jsonl"))
    return _placed(
        path, json_rows(path, encoding) if is_json else _table_rows(path, columns, encoding)
    )


def _placed(path: Path, rows: Iterable[tuple[int, Mapping[Any, Any]]]) -> Iterator[Row]:
    return _numbered((f"{path}, line {line}", fields) for line, fields in rows)


def _numbered(rows: Iterable[tuple[str, Mapping[Any, Any]]]) -> Iterator[Row]:
    for number, (place, fields) in enumerate(rows):
        yield Row(Location(place, number), fields)


def check_ending(path: Path, formats: Sequence[str], content: str = "examples") -> None:
    """Rejects a file whose name ends in none of the formats.

    Args:
        content: what the file contains, for the message.
    """
    if not path.name.endswith(tuple(formats)):
        plain = [end for end in formats if f"{end}.gz" in formats]
        save = (
            " Save the sheet as CSV." if path.suffix.lower() in SHEETS and ".csv" in formats else ""
        )
        raise UserError(
            f"A file of {content} must end in {', '.join(plain)} or {hub.PARQUET}, each but "
            f"{hub.PARQUET} also .gz. Received: {path}.{save}"
        )


def require_file(path: Path) -> None:
    """Rejects a path that is not a regular file: reading a pipe could wait forever."""
    if not path.is_file():
        raise UserError(
            f"Examples must be in a regular file. Received: {path}, which {fault(path)}."
        )


def made(
    source: Path,
    items: Iterable[Item],
    make: Callable[[Item], Made],
    skip_bad_rows: bool | None = False,
    name: str = "row",
) -> list[Made]:
    """Makes an example of each item of a file or folder; see `read_rows`.

    Args:
        name: what an item is, for messages.
    """
    done, bad = [], []
    for item in items:
        try:
            done.append(make(item))
        except UserError as error:
            bad.append(error)
            if skip_bad_rows:
                continue
            check_compression(source)
            if skip_bad_rows is None:
                raise
            raise UserError(f"{error} {_SKIP}") from error
    if not done:
        raise UserError(f"A file must have at least one {name}. Received: {source}.")
    _skipped[source] = len(bad)
    if bad:
        say_once(f"{source}: skipped {len(bad)} bad {name}s; the first: {bad[0]}")
    return done


def skipped_rows(source: Path) -> int:
    """Returns how many rows of a file were skipped when it was read."""
    return _skipped.get(source, 0)


_skipped: dict[Path, int] = {}


@functools.lru_cache(maxsize=1000)
def say_once(message: str) -> None:
    """Logs a warning, unless it was logged before: a command checks its data, then reads it."""
    logger.warning(message)


def check_row(row: Row) -> None:
    """Rejects a row that can't be read, or with more or fewer fields than its table's header."""
    if BAD_ROW not in row.fields:
        return
    fault = row.fields[BAD_ROW]
    if isinstance(fault, UserError):
        raise fault
    raise UserError(
        "Every row must have as many fields as the first. "
        f"Received: {row.location}, {len(fault)} fields."
    )


def check_compression(path: Path) -> None:
    """Rejects a damaged `.gz` file, whose checksum comes after rows that may be damaged."""
    if path.suffix == ".gz":
        with _whole(path), gzip.open(path) as file:
            while file.read(1 << 20):
                pass


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(
            f"A .gz file must be whole. Received: {path}: {error}. Copy it again from its source."
        ) from error


@contextlib.contextmanager
def opened(
    path: Path, newline: str | None = None, encoding: str | None = None, whole: bool = False
) -> Iterator[Iterator[str]]:
    """Opens a file of text, compressed if its name ends in `.gz`, to read its lines.

    Args:
        encoding: default: the one that the first bytes name, otherwise UTF-8.
        whole: whether it is one value over its lines, of which the file's size is the bound.
    Raises:
        UserError: it has another encoding, its compression is damaged, it is too large, or a line
            is longer than `LONGEST_LINE`.
    """
    try:
        "".encode(encoding or _UTF8)
    except (LookupError, UnicodeError) as error:
        raise UserError(
            "encoding must be a name that Python knows, such as cp1252, latin-1 or utf-16. "
            f"Received: {encoding!r}."
        ) from error
    whole = whole and path.suffix != ".gz"  # of unknown size
    if whole and path.stat().st_size > LARGEST:
        raise _too_large(path)
    try:
        with _whole(path), _bytes(path) as binary:
            chosen = encoding or _named_encoding(binary)
            if codecs.lookup(chosen).name == "utf-8":
                chosen = _UTF8  # A byte order mark is no text.
            with io.TextIOWrapper(binary, chosen, newline=newline) as file:
                yield file if whole else bounded_lines(file, path)
    except UserError:
        check_compression(path)
        raise
    except UnicodeError as error:  # of UTF-16, too, where the mark is missing
        check_compression(path)
        raise _other_encoding(path, encoding, error) from error


def _bytes(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _named_encoding(file: IO[bytes]) -> str:
    """Returns the encoding that a file's first bytes name."""
    first = file.peek(4)[:4]  # type: ignore[attr-defined]
    return next((name for mark, name in _MARKS.items() if first.startswith(mark)), _UTF8)


def _other_encoding(path: Path, encoding: str | None, error: UnicodeError) -> UserError:
    """Returns an error that names the line and the encodings that it may have."""
    if encoding:
        reason = str(error)[:160]
        return UserError(
            f"A file of examples must have the encoding that is given, {encoding}. Received: "
            f"{path}: {reason}. Give its own with --encoding."
        )
    number, line = _bad_line(path)
    byte = error.object[error.start] if isinstance(error, UnicodeDecodeError) else 0
    guess = "utf-16" if line.count(0) > len(line) // 4 else "cp1252"
    return UserError(
        f"A file of examples must be UTF-8. Received: {path}, line {number}, with the byte "
        f"{byte:#04x}. Name its encoding: --encoding {guess}, or another one; or convert it."
    )


def _bad_line(path: Path) -> tuple[int, bytes]:
    """The number and the bytes of the first line that isn't UTF-8."""
    with _bytes(path) as file, contextlib.suppress(UserError):  # of a longer line
        for number, line in enumerate(bounded_lines(file, path), start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number, line
    return 1, b""


def _table_rows(
    path: Path, columns: Sequence[str | int | None], encoding: str | None
) -> Iterator[tuple[int, dict[Any, Any]]]:
    """Yields the rows of a TSV or CSV file as dicts, with the number of their last line."""
    has_header = not isinstance(columns[0], int)
    is_tsv = path.name.removesuffix(".gz").endswith(".tsv")
    with opened(path, "", encoding) as file:
        first = next(file, None)
        if first is None:
            return
        separator = _separator(path, first, is_tsv, columns)
        how: dict[str, Any] = {"strict": True}
        if is_tsv and separator == "\t":
            with opened(path, "", encoding) as again:
                is_quoted = _is_quoted(again)
            if is_quoted:
                say_once(
                    f"{path}: quotation marks around fields are dropped, as Excel and pandas write "
                    "them; GLUE's files have them as text."
                )
            else:
                how = {"quoting": csv.QUOTE_NONE}
        reader = csv.reader(chain([first], file), delimiter=separator, **how)
        header: list[Any] | None = None
        while True:
            before = reader.line_num
            try:
                row = next(reader, None)
            except csv.Error as error:
                fault = UserError(f"{path}, line {reader.line_num}: {error}.")
                # A quotation mark that isn't closed takes in the rows after it.
                if header is None or reader.line_num > before + 1:
                    raise fault from error
                yield reader.line_num, {BAD_ROW: fault}
                continue
            if row is None:
                return
            if header is None:
                header = list(range(len(row)))
                if has_header:
                    header = _header(path, row, columns)
                    continue
            if not row:
                continue
            fields = dict(zip(header, row, strict=False))
            yield reader.line_num, fields if len(row) == len(header) else {BAD_ROW: row}


def _is_quoted(lines: Iterator[str]) -> bool:
    """Returns whether a table with tabs has quotation marks as csv, pandas or Excel write them.

    Each record that has any must be the one that csv writes for its fields; Excel also quotes every
    field with a comma. GLUE's tables have them within texts, at one end of a text, or over lines
    that are whole rows.
    """
    taken: list[str] = []
    tabs, is_quoted = -1, False
    ends = ["\n", ",\n"]  # csv quotes a field that has a character of the line's end, too

    def record_lines() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line

    def written(row: Sequence[str], end: str, quoting: Any = csv.QUOTE_MINIMAL) -> str:
        record = io.StringIO()
        csv.writer(record, delimiter="\t", lineterminator=end, quoting=quoting).writerow(row)
        return record.getvalue().removesuffix(end)

    try:
        for row in csv.reader(record_lines(), delimiter="\t", strict=True):
            record = "".join(taken).rstrip("\r\n")
            if tabs < 0:
                tabs = record.count("\t")
                if '"' in record and record == written(row, "\n", csv.QUOTE_ALL):
                    return True
            if '"' in record or "," in record:
                ends = [end for end in ends if record == written(row, end)]
                are_rows = len(taken) > 1 and all(line.count("\t") == tabs for line in taken)
                if are_rows or not ends:
                    return False
            is_quoted = is_quoted or '"' in record
            taken.clear()
    except csv.Error:
        return False
    return is_quoted


def _separator(path: Path, line: str, is_tsv: bool, columns: Sequence[str | int | None]) -> str:
    """Returns the separator with which a header has the columns; says if it isn't the usual one."""
    usual = "\t" if is_tsv else ","
    wanted = {name for name in columns if isinstance(name, str)}
    for separator in (usual, *SEPARATORS):
        with contextlib.suppress(csv.Error, StopIteration):
            header = {name.strip() for name in next(csv.reader([line], delimiter=separator))}
            if wanted <= header and (wanted or len(header) > 1):
                if separator != usual:
                    say_once(f"{path}: columns are separated by {separator!r}.")
                return separator
    most = max(SEPARATORS, key=line.count)
    return most if usual not in line and most in line else usual


def _header(path: Path, first: list[str], columns: Sequence[str | int | None]) -> list[Any]:
    header = [name if name in columns else name.strip() for name in first]
    for number, name in enumerate(columns):
        if name is None:
            continue
        if header.count(str(name)) > 1:
            raise UserError(
                f"A column must have a name of its own. Received: {path}, with {name!r} "
                f"{header.count(str(name))} times. Rename one."
            )
        if name not in header:
            near = [column for column in header if column.casefold() == str(name).casefold()]
            near = near or difflib.get_close_matches(str(name), header, n=1)
            hint = _WAY_OUT
            if isinstance(columns, Columns):
                hint = f"Name one of these with {_NAMED_BY[number]}."
            if near:
                hint = f"Is it {near[0]!r}? Name it, as with --text-column."
            raise UserError(
                f"The file must have a column {name!r}. Received: {path}, with the columns "
                f"{listed(map(repr, header))}. {hint}"
            )
    return header


def json_rows(path: Path, encoding: str | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number and the object of each line of JSON that isn't blank.

    A line that isn't an object is yielded as a `BAD_ROW`. A file that begins with "[" is one list,
    whose objects are numbered; so is the list `data` of a file that is one object.
    """
    with opened(path, encoding=encoding, whole=".jsonl" not in path.name) as file:
        lines = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
        begin, first = next(lines, (1, ""))
        second = next(lines, None)
        rest = chain(() if second is None else (second,), lines)
        if _is_whole(first, path, is_alone=second is None):
            content = read_value(_joined(path, first, rest), f"{path}")
            yield from enumerate(_objects(content, path), start=1)
            return
        for number, line in chain([(begin, first)] if first else [], rest):
            try:
                row = read_value(line, f"{path}, line {number},")
            except UserError as error:
                row = {BAD_ROW: error}
            if not isinstance(row, dict):
                received = type(row).__name__
                row = {
                    BAD_ROW: UserError(
                        f"{path}, line {number}, must be a JSON object. Received: {received}."
                    )
                }
            yield number, row


def _is_whole(first: str, path: Path, is_alone: bool) -> bool:
    """Whether a file is one value of JSON, by the first line that isn't blank.

    Args:
        is_alone: whether no other line follows.
    """
    begin = first.strip()
    if not begin.startswith("{") or ".jsonl" in path.name:
        return begin.startswith("[")
    return not begin.endswith("}") or (is_alone and _DATA_FIRST.match(begin) is not None)


def _joined(path: Path, first: str, lines: Iterable[tuple[int, str]]) -> str:
    """Joins the lines of one value of JSON, within a bound."""
    parts, size = [first], len(first)
    for _, line in lines:
        parts.append(line)
        size += len(line)
        if size > LARGEST:
            raise _too_large(path)
    return "".join(parts)


def _too_large(path: Path) -> UserError:
    return UserError(
        f"A file that is one value of JSON must have {LARGEST:,} bytes at most. "
        f"Received: {path}, which has more. Divide it, or write an object a line (.jsonl)."
    )


def _objects(content: Any, path: Path) -> list[dict[str, Any]]:
    if isinstance(content, dict):
        content = content.get("data", content)
    if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
        raise UserError(
            f"A file of JSON must be a list of objects, or an object a line. Received: {path}, "
            f"{short_repr(content)}."
        )
    return content


def read_value(text: str, location: str) -> Any:
    """Reads a value of JSON.

    Args:
        location: of the text, for the message.
    Raises:
        UserError: it isn't JSON, or has half a surrogate pair, which no file of text can hold.
    """
    try:
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = escaped(error.object[error.start])
        raise UserError(
            f"{location} must be text of whole characters. Received: {half}, half a surrogate "
            "pair. Correct it, or leave it out."
        ) from error
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{location} must be JSON: {error}. Received: {short_repr(text.strip())}. If it was "
            "cut, copy the file again."
        ) from error
    return value

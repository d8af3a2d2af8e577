"""Rows of TSV, CSV, JSONL and Parquet files, and of data sets on Hugging Face's hub."""

import contextlib
import csv
import gzip
import io
import json
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeVar

from albert_tf.data import hub
from albert_tf.data.corpus.lines import LONGEST_LINE, bounded_lines
from albert_tf.errors import UserError, escaped, listed, short_repr

TEXT_FORMATS: Final = (".tsv", ".csv", ".jsonl", ".tsv.gz", ".csv.gz", ".jsonl.gz")
FORMATS: Final = (*TEXT_FORMATS, hub.PARQUET)
csv.field_size_limit(LONGEST_LINE)  # a text may be a whole book; the default is 131,072
BAD_WIDTH: Final = None  # key of a row with more or fewer fields than the header
logger = logging.getLogger(__name__)
Item = TypeVar("Item")
Made = TypeVar("Made")
_WAY_OUT: Final = (
    "Name another column with an option, such as --label-column; predict a file without labels "
    "with albert-tf predict --submission."
)


class Columns(NamedTuple):
    """The columns of a file: their names, or their positions if the file has no header."""

    text: str | int
    label: str | int | None = None
    text_pair: str | int | None = None


class Example(NamedTuple):
    """A text or a pair of texts, its label as in the file, and its place there for errors.

    Several labels are a tuple. `part` names a set that is scored by itself, such as MNLI's
    mismatched one.
    """

    text: str
    text_pair: str | None
    label: Any  # text, a tuple of texts, or None
    part: str = ""
    place: str = ""


class Row(NamedTuple):
    """A row of a file: its place for errors, and its values by column."""

    place: str
    fields: Mapping[Any, Any]

    def text(self, name: str | int, may_be_empty: bool = False) -> str:
        """Returns a value as text; one of JSON that isn't text, as JSON.

        Raises:
            UserError: the row has no such column, or it is empty and may not be.
        """
        self.require([name])
        written = self.optional_text(name)
        if not written and not may_be_empty:
            raise UserError(f"{name!r} must not be empty. Received: {self.place}.")
        return written

    def optional_text(self, name: str | int | None) -> str:
        """Returns a value as text; "" if the row has no such column, or it is blank.

        None names no column.
        """
        return _written(self.fields.get(name))

    def items(self, name: str | int) -> list[Any]:
        """Returns a list.

        Raises:
            UserError: the row has no such column, or the value isn't a list.
        """
        self.require([name])
        if not isinstance(self.fields[name], list):
            raise UserError(
                f"{name!r} must be a list. Received: {short_repr(self.fields[name])}, {self.place}."
            )
        return self.fields[name]

    def texts(self, name: str | int) -> list[str]:
        """Returns the items of a list as texts; "" for a blank one."""
        return [_written(item) for item in self.items(name)]

    def require(self, names: Iterable[str | int]) -> None:
        """Refuses a row without one of these columns."""
        for name in names:
            if name not in self.fields:
                raise UserError(
                    f"Every row must have {name!r}. Received: {self.place}, with "
                    f"{listed(map(repr, self.fields))}. {_WAY_OUT}"
                )


def _written(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return "" if value is None or not text.strip() else text


def read_examples(
    path: Path,
    columns: Columns,
    skip_bad_rows: bool = False,
    part: str = "",
    read_label: Callable[[Row, str | int], Any] = Row.text,
) -> list[Example]:
    """Reads texts or pairs of texts with their labels; see `read_rows`.

    Without a column of labels a text may be empty, since each row needs a prediction.
    """
    may_be_empty = columns.label is None

    def example(row: Row) -> Example:
        text = row.text(columns.text, may_be_empty)
        pair = None if columns.text_pair is None else row.text(columns.text_pair, may_be_empty)
        label = None if columns.label is None else read_label(row, columns.label)
        return Example(text, pair, label, part, row.place)

    return read_rows(path, columns, example, skip_bad_rows)


def read_rows(
    path: Path,
    columns: Sequence[str | int | None],
    make: Callable[[Row], Made],
    skip_bad_rows: bool = False,
    rows: Iterator[tuple[int, Mapping[Any, Any]]] | None = None,
) -> list[Made]:
    """Reads a `.tsv` (tabs, no quoting), `.csv`, `.jsonl`, each also `.gz`, or `.parquet` file.

    Args:
        path: the file, in UTF-8; or a split on the hub, as `hub.split` names it.
        columns: the columns that it must have; if the first is a number, it has no header.
        make: makes an example of a row; a `UserError` says that the row is bad.
        skip_bad_rows: skips rows that don't fit the header or that `make` refuses, and logs their
            number. GLUE's QQP has some.
        rows: the rows of a file of another format, each with the number of its line.
    Raises:
        UserError: no such file, another format, not UTF-8, a missing column, a bad row (the
            message names the line), or no row at all.
    """
    if hub.is_hub(path):
        return made(path, starmap(Row, hub.rows(path)), make, skip_bad_rows)
    if not path.is_file():
        raise UserError(f"Examples must be in a file. Received: {path}, which isn't one.")
    if rows is None:
        ending = next((end for end in FORMATS if path.name.endswith(end)), None)
        if ending is None:
            raise UserError(
                f"A file of examples must end in {', '.join(FORMATS)}. Received: {path}."
            )
        if ending == hub.PARQUET:
            return made(path, starmap(Row, hub.rows(path)), make, skip_bad_rows)
        rows = json_rows(path) if ".jsonl" in ending else _table_rows(path, columns)

    def checked(row: Row) -> Made:
        _check_width(row)
        return make(row)

    placed = (Row(f"{path}, line {line}", fields) for line, fields in rows)
    return made(path, placed, checked, skip_bad_rows)


def made(
    source: Path,
    items: Iterable[Item],
    make: Callable[[Item], Made],
    skip_bad_rows: bool = False,
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
            if not skip_bad_rows:
                raise
    if not done:
        raise UserError(f"A file must have at least one {name}. Received: {source}.")
    if bad:
        logger.warning("%s: skipped %d bad %ss; the first: %s", source, len(bad), name, bad[0])
    return done


def _check_width(row: Row) -> None:
    if BAD_WIDTH in row.fields:
        raise UserError(
            "Every row must have as many fields as the first. "
            f"Received: {row.place}, {len(row.fields[BAD_WIDTH])} fields."
        )


@contextlib.contextmanager
def opened(path: Path, newline: str | None = None) -> Iterator[Iterator[str]]:
    """Opens a file of UTF-8, compressed if its name ends in `.gz`, to read its lines.

    Raises:
        UserError: it isn't UTF-8, its compression is damaged, or a line is longer than
            `LONGEST_LINE`.
    """
    try:
        with _bytes(path) as binary, io.TextIOWrapper(binary, "utf-8-sig", newline=newline) as file:
            yield bounded_lines(file, path)
    except UnicodeDecodeError as error:
        raise UserError(
            f"A file of examples must be UTF-8. Received: {path}, line {_bad_line(path)}, with the "
            f"byte {error.object[error.start]:#04x}. Convert it: iconv -f latin1 -t utf-8."
        ) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(
            f"A .gz file must be whole. Received: {path}: {error}. Copy it again from its source."
        ) from error


def _bytes(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _bad_line(path: Path) -> int:
    """The number of the first line that isn't UTF-8."""
    with _bytes(path) as file:
        for number, line in enumerate(bounded_lines(file, path), start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    raise AssertionError(f"{path} is UTF-8.")


def _table_rows(
    path: Path, columns: Sequence[str | int | None]
) -> Iterator[tuple[int, dict[Any, Any]]]:
    """Yields the rows of a TSV or CSV file as dicts, with the number of their last line."""
    has_header = not isinstance(columns[0], int)
    with opened(path, newline="") as file:
        if path.name.removesuffix(".gz").endswith(".tsv"):
            reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        else:
            reader = csv.reader(file, strict=True)
        header: list[Any] | None = None
        try:
            for row in reader:
                if header is None:
                    header = list(range(len(row)))
                    if has_header:
                        header = _header(path, row, columns)
                        continue
                if not row:
                    continue
                fields = dict(zip(header, row, strict=False))
                yield reader.line_num, fields if len(row) == len(header) else {BAD_WIDTH: row}
        except csv.Error as error:
            raise UserError(f"{path}, line {reader.line_num}: {error}.") from error


def _header(path: Path, first: list[str], columns: Sequence[str | int | None]) -> list[Any]:
    for name in columns:
        if name is not None and name not in first:
            raise UserError(
                f"The file must have a column {name!r}. Received: {path}, with the columns "
                f"{listed(map(repr, first))}. {_WAY_OUT}"
            )
    return first


def json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number and the object of each line of JSON that isn't blank."""
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            row = read_value(line, f"{path}, line {number},")
            if not isinstance(row, dict):
                raise UserError(
                    f"{path}, line {number}, must be a JSON object. Received: {type(row).__name__}."
                )
            yield number, row


def read_value(text: str, place: str) -> Any:
    """Reads a value of JSON.

    Args:
        place: of the text, for the message.
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
            f"{place} must be text of whole characters. Received: {half}, half a surrogate pair. "
            "Correct it, or leave it out."
        ) from error
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{place} must be JSON: {error}. Received: {short_repr(text.strip())}. If it was cut, "
            "copy the file again."
        ) from error
    return value

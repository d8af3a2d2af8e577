"""Options, inputs, and printed results of the commands that take texts."""

import json
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from albert_tf.data.options import ENCODING
from albert_tf.data.readers import FORMATS, SHEETS, Row, check_row, rows_of
from albert_tf.data.tables import Columns
from albert_tf.data.text_files import check_compression
from albert_tf.errors import UserError, escaped
from albert_tf.files import is_exported
from albert_tf.options import COUNT, Checked, flag, option
from albert_tf.progress import count
from albert_tf.tasks import BY_MODEL, ENCODER, SIMILARITY

_OF_TABLES: Final = ("text_column", "text_pair_column", "encoding")
Given = TypeVar("Given")
Block = Sequence[Sequence[object]]


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(Checked):
    """The options of commands that process texts or questions one by one."""

    model: str = option(
        help='model directory, Hub model ID, "small", or an exported .tflite or .onnx file, which '
        "runs without TensorFlow",
        metavar="NAME",
        is_path=True,
    )
    input: str | None = option(
        None, help="file with one text per line; - for standard input", metavar="FILE", is_path=True
    )
    json: bool = option(False, help="print one JSON object per line")
    batch_size: int = option(32, help="number of texts per batch", range=COUNT)

    @property
    def needs_tensorflow(self) -> bool:
        """Whether the model is a checkpoint, not an exported file."""
        return not is_exported(self.model)

    @property
    def source(self) -> str | None:
        """The input file, "-" for standard input, or None for texts from arguments."""
        return self.input

    def pipeline(self, task: str, **choices: Any) -> Any:
        """Returns a task's pipeline. Input is sorted across batches, unless it is a pipe."""
        from albert_tf.pipelines import pipeline
        from albert_tf.pipelines.base import SORTED

        result = pipeline(task, self.model, batch_size=self.batch_size, **choices)
        if self.can_be_read_again:
            result.ahead = SORTED
        return result

    @property
    def can_be_read_again(self) -> bool:
        """Whether texts come from arguments or a file, not from a pipe."""
        return self.source is None or (self.source != "-" and not Path(self.source).is_fifo())

    def lines(self) -> Iterator[str]:
        """Yields the lines of the source, without line breaks.

        Bytes that aren't UTF-8 become surrogates. Raises the same errors as `text_lines`.
        """
        from albert_tf.data.corpus.documents import text_lines

        for line in text_lines(str(self.source)):
            yield line.rstrip(b"\r\n").decode(errors="surrogateescape")

    def check_input(self) -> None:
        """Checks that the source can be read, unless it is a pipe."""
        if self.source is not None and self.can_be_read_again:
            next(self.lines(), None)


@dataclass(frozen=True, kw_only=True)
class TextInputOptions(AnswerOptions):
    """The options of commands that take texts as arguments or from a file."""

    text: tuple[str, ...] = option(
        (), help="texts to process; - for standard input", positional=True, may_be_empty=True
    )
    text_column: str | None = option(
        None, help="name of the text column in a table (.csv, .tsv, .json, .parquet); default: text"
    )
    encoding: str | None = option(None, help=ENCODING, metavar="NAME")

    @property
    def source(self) -> str | None:
        """The input file, or "-" for standard input (the default if that is a pipe or a file)."""
        if self.text or self.input is not None:
            return "-" if self.text == ("-",) else self.input
        try:
            mode = os.fstat(sys.stdin.fileno()).st_mode
        except (AttributeError, OSError, ValueError):  # closed, or an in-memory stream
            return None
        return "-" if stat.S_ISFIFO(mode) or stat.S_ISREG(mode) else None

    @property
    def has_table(self) -> bool:
        """Whether the input file is a table, according to its suffix."""
        endings = (*FORMATS, ".ndjson", *SHEETS)
        return self.source is not None and self.source.lower().endswith(endings)

    def check_texts(self, model: str = "AlbertModel") -> None:
        """Checks the texts, and the model as `check_model` does, without loading TensorFlow."""
        sources = bool(self.text) + (self.input is not None)
        if sources > 1 or (not sources and self.source is None):
            raise UserError("Pass texts either as arguments or with --input.")
        if "-" in self.text and len(self.text) > 1:
            raise UserError("Standard input (-) can't be combined with texts passed as arguments.")
        if self.has_table:
            next(self.texts(), None)
        elif given := [name for name in _OF_TABLES if getattr(self, name, None) is not None]:
            flags = ", ".join(map(flag, given))
            raise UserError(f"{flags} requires a table of texts ({', '.join(FORMATS)}).")
        else:
            self.check_input()
        check_model(self.model, model)

    def texts(self) -> Iterator[str]:
        """Returns the texts from the arguments or from a file. A file is read as needed."""
        if self.source is None:
            return iter(self.text)
        return self._column() if self.has_table else self.lines()

    def _column(self) -> Iterator[str]:
        """Yields the texts of a table; those of a pair are joined with a tab, as for `--pairs`."""
        column, pair = self._columns()
        for row in self.rows():
            try:
                check_row(row)
                text = row.text(column, may_be_empty=True)
                if pair is not None:
                    text = text.replace("\t", " ") + "\t" + row.text(pair, may_be_empty=True)
            except UserError:
                check_compression(Path(str(self.source)))
                raise
            yield text

    def rows(self) -> Iterator[Row]:
        """Yields the rows of the table."""
        column, pair = self._columns()
        return rows_of(Path(str(self.source)), Columns(column, None, pair), self.encoding)

    def _columns(self) -> tuple[str, str | None]:
        """Returns the names of the columns with the texts and the second texts."""
        return self.text_column or "text", getattr(self, "text_pair_column", None)


def with_inputs(
    process: Callable[[Iterator[Given]], Iterable[Any]], given: Iterable[Given]
) -> Iterator[tuple[Given, Any]]:
    """Yields each input with its result, and flushes standard output before waiting for input.

    Args:
        process: function that takes an iterator of inputs and yields their results.
    """
    waiting: deque[Given] = deque()

    def record() -> Iterator[Given]:
        for each in given:
            waiting.append(each)
            yield each

    for result in process(record()):
        count("results")
        yield waiting.popleft(), result
        if not waiting:
            sys.stdout.flush()


def print_results(results: Iterable[tuple[dict[str, Any], Sequence[Block]]], as_json: bool) -> int:
    """Prints the results of all inputs and returns exit status 0.

    Args:
        results: for each input, a JSON object and blocks of lines. A line is a list of columns.
        as_json: whether to print one object per line, instead of blocks separated by empty lines.
    """
    is_first = True
    for row, blocks in results:
        if as_json:
            print_json(row)
            continue
        for block in blocks:
            if not is_first:
                print()
            is_first = False
            for columns in block:
                print_row(columns)
    return 0


def print_row(columns: Iterable[object]) -> None:
    """Prints columns separated by tabs; tabs and line breaks within a column are escaped."""
    print("\t".join(map(escaped, columns)))


def aligned(rows: Iterable[Sequence[object]], numbers: bool = False) -> str:
    """Returns a table as text with aligned columns.

    Args:
        numbers: whether to right-align all columns but the first.
    """
    cells = [[escaped(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *others in cells:
        padded = zip(others, widths[1:], strict=True)
        rest = [cell.rjust(width) if numbers else cell.ljust(width) for cell, width in padded]
        lines.append("  ".join([first.ljust(widths[0]), *rest]).rstrip())
    return "\n".join(lines)


def printable(text: str) -> str:
    """Replaces invalid bytes and lone surrogates with U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def print_json(row: dict[str, Any]) -> None:
    """Prints a row as JSON on one line, in ASCII if the output isn't Unicode."""
    line = printable(json.dumps(row, ensure_ascii=False))
    takes_all = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    print(line if takes_all else json.dumps(json.loads(line)))


def check_model(name: str, wanted: str | None = None) -> Any:
    """Rejects a missing or unsuitable model; returns the configuration, or None if unknown.

    Args:
        wanted: class name of the model that the command runs, which may be an exported file.
            Default: any checkpoint, but no exported file.
    """
    from albert_tf.checkpoints import finder
    from albert_tf.checkpoints.hugging_face import CONFIG
    from albert_tf.config import AlbertConfig

    if wanted is not None and is_exported(name):
        from albert_tf.runtimes.exported import read_facts

        task, config, _ = read_facts(name)
        other = ENCODER if wanted == SIMILARITY.model else BY_MODEL[wanted]
        if (task.pipeline_tag, task.has_choices) != (other.pipeline_tag, other.has_choices):
            raise UserError(
                f"This command requires an {wanted}. Received: {name}, which contains an "
                f"{task.model}."
            )
        return config
    found = finder.find(name)
    if wanted is not None:
        found.check_head(wanted)
    if found.format != "hf":
        return None
    return AlbertConfig.from_json_file(found.folder / CONFIG)

"""Commands that take texts: their options, inputs and printed results."""

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

from albert_tf.data.readers import FORMATS, SHEETS, check_row, rows_of
from albert_tf.data.tables import Columns
from albert_tf.data.text_files import check_compression
from albert_tf.errors import UserError, escaped
from albert_tf.files import is_exported
from albert_tf.options import COUNT, Checked, option
from albert_tf.progress import count
from albert_tf.tasks import BY_MODEL, ENCODER, SIMILARITY

# Options that say where a table has its texts.
_OF_TABLES: Final = ("text_column", "text_pair_column", "encoding")
Given = TypeVar("Given")
Block = Sequence[Sequence[object]]


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(Checked):
    """The options of commands that answer one text, or question, after another."""

    model: str = option(
        help="model directory, name on the hub, small, or an exported .tflite or .onnx file, which "
        "starts without TensorFlow",
        metavar="NAME",
        is_path=True,
    )
    input: str | None = option(
        None, help="file with a text a line; - for standard input", metavar="FILE", is_path=True
    )
    json: bool = option(False, help="print a JSON object a line")
    batch_size: int = option(32, help="texts computed at once", range=COUNT)

    @property
    def needs_tensorflow(self) -> bool:
        """Whether the model isn't an exported file."""
        return not is_exported(self.model)


@dataclass(frozen=True, kw_only=True)
class TextInputOptions(AnswerOptions):
    """The options of commands that take texts as arguments, or from a file."""

    text: tuple[str, ...] = option(
        (), help="texts; - for standard input", positional=True, may_be_empty=True
    )
    text_column: str | None = option(
        None,
        help="name of the column with the texts, in a table (.csv, .tsv, .json, .parquet); "
        "default: text",
    )

    @property
    def source(self) -> str | None:
        """The file of texts; "-" is standard input, also if it is a pipe and no text is given."""
        if self.text == ("-",) or (not self.text and self.input is None and _is_piped()):
            return "-"
        return self.input

    @property
    def has_table(self) -> bool:
        """Whether the file of texts is a table, by its name."""
        endings = (*FORMATS, ".ndjson", *SHEETS)
        return self.source is not None and self.source.lower().endswith(endings)


def _is_piped() -> bool:
    """Whether standard input is a pipe, or a file in its place."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # closed, or a stream in memory
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def check_texts(options: TextInputOptions, model: str = "AlbertModel") -> Any:
    """Looks at texts and model without TensorFlow.

    Args:
        model: class of the model that the command needs.
    Returns:
        the model's configuration, as `check_model` does.
    Raises:
        UserError: there are no texts, or texts from both; no such file, no such model, or one of
            another task.
    """
    sources = bool(options.text) + (options.input is not None)
    if sources > 1 or (not sources and options.source is None):
        raise UserError("Texts come as arguments or with --input. Received: neither, or both.")
    if "-" in options.text and len(options.text) > 1:
        raise UserError("Standard input (-) must be the only argument. Received: texts beside it.")
    if options.has_table:
        next(texts(options), None)
    elif given := [name for name in _OF_TABLES if getattr(options, name, None) is not None]:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UserError(f"{flags} needs a table of texts ({', '.join(FORMATS)}). Received: none.")
    else:
        check_input(options.source)
    return check_model(options.model, model)


def texts(options: TextInputOptions) -> Iterator[str]:
    """Returns the texts from the arguments or the file, which is read as needed."""
    if options.source is None:
        return iter(options.text)
    return _column(options) if options.has_table else lines(options.source)


def _column(options: TextInputOptions) -> Iterator[str]:
    """Yields the texts of a table; pairs with a tab between, as `--pairs` reads them."""
    column, pair = options.text_column or "text", getattr(options, "text_pair_column", None)
    encoding = getattr(options, "encoding", None)
    path = Path(str(options.source))
    for row in rows_of(path, Columns(column, None, pair), encoding):
        try:
            check_row(row)
            text = row.text(column, may_be_empty=True)
            if pair is not None:
                text = text.replace("\t", " ") + "\t" + row.text(pair, may_be_empty=True)
        except UserError:
            check_compression(path)
            raise
        yield text


def load(task: str, options: AnswerOptions, **choices: Any) -> Any:
    """Returns the pipeline of a task, with its model; it answers a pipe batch by batch."""
    from albert_tf.pipelines import pipeline
    from albert_tf.pipelines.base import SORTED

    made = pipeline(task, options.model, batch_size=options.batch_size, **choices)
    source = options.source if isinstance(options, TextInputOptions) else options.input
    if can_be_read_again(source):
        made.ahead = SORTED
    return made


def with_inputs(
    process: Callable[[Iterator[Given]], Iterable[Any]], given: Iterable[Given]
) -> Iterator[tuple[Given, Any]]:
    """Yields each input with its result; flushes the output before it waits for more input.

    Args:
        process: takes an iterator of inputs, and yields their results.
    """
    waiting: deque[Given] = deque()

    def remembered() -> Iterator[Given]:
        for each in given:
            waiting.append(each)
            yield each

    for result in process(remembered()):
        count("results")
        yield waiting.popleft(), result
        if not waiting:
            sys.stdout.flush()


def print_results(results: Iterable[tuple[dict[str, Any], Sequence[Block]]], as_json: bool) -> int:
    """Prints the results of inputs, and returns the exit status 0.

    Args:
        results: for each input a JSON object, and blocks of lines, each a list of columns.
        as_json: print the objects, one per line; otherwise the blocks, with an empty line between
            them.
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
    """Prints columns with tabs between them; a tab or line end within a column is escaped."""
    print("\t".join(map(escaped, columns)))


def aligned(rows: Iterable[Sequence[object]], numbers: bool = False) -> str:
    """Returns rows as lines whose columns are as wide as they need.

    Args:
        numbers: columns after the first one end at the same place; otherwise they begin there.
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
    """Replaces stray bytes and lone surrogates by U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def print_json(row: dict[str, Any]) -> None:
    """Prints a row as JSON on one line; in ASCII where the output can't have more."""
    line = printable(json.dumps(row, ensure_ascii=False))
    takes_all = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    print(line if takes_all else json.dumps(json.loads(line)))


def lines(path: str) -> Iterator[str]:
    """Yields the lines of a file or of standard input, without their ends.

    A byte that isn't UTF-8 becomes a surrogate. Errors are those of `text_lines`.
    """
    from albert_tf.data.corpus.reading import text_lines

    for line in text_lines(path):
        yield line.rstrip(b"\r\n").decode(errors="surrogateescape")


def check_input(path: str | None) -> None:
    """Looks at the beginning of a file, if it can be opened again."""
    from albert_tf.data.corpus.reading import text_lines

    if path is not None and can_be_read_again(path):
        next(text_lines(path), None)


def can_be_read_again(path: str | None) -> bool:
    """Whether texts don't come from a pipe."""
    return path is None or (path != "-" and not Path(path).is_fifo())


def check_folder(path: Path | None) -> None:
    """Refuses a file in the place of a folder to write."""
    if path is not None and path.exists() and not path.is_dir():
        raise UserError(f"The output must be a folder. Received: {path}, a file.")


def check_model(name: str, wanted: str = "AlbertModel") -> Any:
    """Looks for a model's files; returns its configuration if that is a file of its own.

    Raises:
        UserError: there is no such model, or not one of the class that is wanted.
    """
    from albert_tf.checkpoints import finder
    from albert_tf.checkpoints.hugging_face import CONFIG
    from albert_tf.config import AlbertConfig

    if is_exported(name):
        from albert_tf.exported import read_facts

        task, config = read_facts(name)
        other = ENCODER if wanted == SIMILARITY.model else BY_MODEL[wanted]
        if (task.pipeline_tag, task.has_choices) != (other.pipeline_tag, other.has_choices):
            raise UserError(
                f"The exported file for this command must have an {wanted}. Received: {name}, "
                f"which has an {task.model}."
            )
        return config
    found = finder.find(name)
    found.check_head(wanted)
    if found.format != "hf":
        return None
    return AlbertConfig.from_json_file(found.folder / CONFIG)

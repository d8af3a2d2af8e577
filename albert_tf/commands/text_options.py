"""The options of commands that take texts, and their answers, one by one."""

import json
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from albert_tf.errors import UserError
from albert_tf.options import COUNT, check_options, option

Given = TypeVar("Given")


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """The options of commands that answer one text, or question, after another."""

    model: str = option(help="model directory, name on the hub, or small", metavar="NAME")
    input: str | None = option(
        None, help="file with a text a line; - for standard input", metavar="FILE"
    )
    json: bool = option(False, help="output as a JSON object a line")
    batch_size: int = option(32, help="texts computed at once", range=COUNT)

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class TextOptions(AnswerOptions):
    """The options of commands that take texts as arguments, or from a file."""

    text: tuple[str, ...] = option((), help="texts", positional=True)


def texts(options: TextOptions) -> Iterator[str]:
    """The texts that were given, read as they are needed.

    Raises:
        UserError: none, or both as arguments and from a file.
    """
    if bool(options.text) == (options.input is not None):
        hint = " Texts come before --targets." if getattr(options, "targets", None) else ""
        raise UserError(
            f"Texts come as arguments or with --input. Received: neither, or both.{hint}"
        )
    return iter(options.text) if options.input is None else lines(options.input)


def answered(
    answer: Callable[[Iterator[Given]], Iterable[Any]], given: Iterable[Given]
) -> Iterator[tuple[Given, Any]]:
    """Each of `given` with its answer; what was printed is out before more is waited for.

    Args:
        answer: takes an iterator and gives an answer for each, reading a batch ahead at most.
    """
    seen: deque[Given] = deque()

    def remembered() -> Iterator[Given]:
        for each in given:
            seen.append(each)
            yield each

    for found in answer(remembered()):
        yield seen.popleft(), found
        if not seen:
            sys.stdout.flush()


def printable(text: str) -> str:
    """A text whose stray bytes and halves of characters are unknown characters."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def print_json(row: dict[str, Any]) -> None:
    """Prints a row on one line."""
    print(printable(json.dumps(row, ensure_ascii=False)))


def lines(path: str) -> Iterator[str]:
    """Lines without their ends; a byte that isn't UTF-8 is an unknown character."""
    source = 0 if path == "-" else path
    with open(
        source, encoding="utf-8", errors="surrogateescape", newline="\n", closefd=path != "-"
    ) as file:
        for line in file:
            yield line.rstrip("\r\n")

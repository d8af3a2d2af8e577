"""The options by which commands are told of texts, and how they answer one by one."""

import argparse
import json
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from albert_tf.commands.model_options import add_model_option
from albert_tf.errors import UserError

Given = TypeVar("Given")


def add_text_options(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Declares `--model`, texts as arguments or from a file, `--json` and `--batch-size`.

    Args:
        purpose: what happens to a text, for the help.
    """
    add_model_option(parser)
    parser.add_argument("text", nargs="*", metavar="TEXT", help=f"texts to {purpose}")
    parser.add_argument("--input", metavar="FILE", help="a text a line; - for standard input")
    add_answer_options(parser)


def add_answer_options(parser: argparse.ArgumentParser) -> None:
    """Declares `--json` and `--batch-size`."""
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    parser.add_argument("--batch-size", type=int, default=32, help="default: %(default)s")


def texts(options: argparse.Namespace) -> Iterator[str]:
    """The texts that were given, read as they are needed.

    Raises:
        UserError: none, or both as arguments and from a file.
    """
    if bool(options.text) == (options.input is not None):
        hint = " Texts come before --targets." if getattr(options, "targets", None) else ""
        raise UserError(
            f"Texts come as arguments or with --input. Received: neither, or both.{hint}"
        )
    check_batch_size(options)
    return iter(options.text) if options.text else lines(options.input)


def check_batch_size(options: argparse.Namespace) -> None:
    """Refuses a batch of nothing, before anything is loaded."""
    if options.batch_size < 1:
        raise UserError(f"--batch-size must be 1 or more. Received: {options.batch_size}.")


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

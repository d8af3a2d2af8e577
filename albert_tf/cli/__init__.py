"""The `albert-tf` command line: parses a command, runs it, and reports its errors."""

import argparse
import contextlib
import errno
import io
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import IO, Any, Final, NoReturn

import albert_tf
from albert_tf.cli import (
    answer,
    build_data,
    build_vocab,
    convert,
    embed,
    evaluate,
    export,
    fill_mask,
    finetune,
    inspect_data,
    predict,
    pretrain,
    sizes,
    tag,
)
from albert_tf.cli.parsing import Help, add_options, parsed_options
from albert_tf.errors import Interrupted, UserError, one_line
from albert_tf.options import declared, flag
from albert_tf.progress import heartbeat
from albert_tf.quiet import import_tensorflow, set_level, without_home_files

# Grouped by what a user wants to do, in the order of `albert-tf --help`.
GROUPS: Final[dict[str, dict[str, Any]]] = {
    "fine-tune on a task": {"finetune": finetune, "evaluate": evaluate},
    "run a model": {
        "predict": predict,
        "tag": tag,
        "answer": answer,
        "fill-mask": fill_mask,
        "embed": embed,
    },
    "export and convert": {"export": export, "convert": convert, "sizes": sizes},
    "pretrain on your own text": {
        "build-vocab": build_vocab,
        "build-data": build_data,
        "inspect-data": inspect_data,
        "pretrain": pretrain,
    },
}
COMMANDS: Final = {name: command for group in GROUPS.values() for name, command in group.items()}
# These don't import TensorFlow up front. `sizes` doesn't need it. The other two need it only for a
# vocab.txt, and leave the memory to their worker processes.
LIGHT: Final = (sizes, build_vocab, build_data)
RUNS: Final = (finetune, pretrain, build_data)  # save their options, which --config reads


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit status: 0, 2 for a user error, or 130 for Ctrl-C."""
    try:
        with streams(), without_home_files():
            return _run(arguments)
    except BrokenPipeError:  # The program that reads our output has exited.
        drop(sys.stdout, sys.stderr)
        return 0
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:
            drop(sys.stdout)
        if error.strerror is None:  # raised by a package, for example for a failed download
            return _fail(f"{type(error).__name__}: {error}")
        name = "" if error.filename is None else f"{error.filename}: "
        return _fail(f"{name}{error.strerror}. {_WAYS_OUT.get(error.errno or 0, '')}")


def _run(arguments: Sequence[str] | None) -> int:
    options: Any = None
    try:
        command, options = _parse(arguments)
        set_level()  # also for child processes
        found = None
        if command not in LIGHT:
            found = command.check(options)  # before TensorFlow loads, which takes seconds
            if getattr(options, "needs_tensorflow", True):
                import_tensorflow()
        with heartbeat(command):
            return int(command.run(options) if found is None else command.run(options, found))
    except UserError as error:
        return _fail(_with_flags(str(error), options))
    except Interrupted as interrupted:
        without = " without --force" if options.force else ""
        print(f"\n{interrupted} Run the same command{without} to resume.")
        return 130
    except MemoryError as error:
        reason = f": {error}" if str(error) else ""
        return _fail(
            f"Out of memory{reason}. Use smaller batches, less input, or a machine with more "
            "memory."
        )
    except KeyboardInterrupt:
        print("\nalbert-tf: stopped.", file=sys.stderr)
        return 130


def _parse(arguments: Sequence[str] | None) -> tuple[Any, Any]:
    """Returns the module of a command and its options."""
    given = _parser().parse_args(arguments)
    return COMMANDS[given.command], parsed_options(given.parser, given.options, given)


def _fail(message: str) -> int:
    """Prints an error and returns the exit status for user errors."""
    print(f"albert-tf: error: {one_line(message)}", file=sys.stderr)
    return 2


def _with_flags(message: str, options: Any) -> str:
    """Replaces Python's spelling of a switch (`force=True`) with the command's flag."""
    names = declared(type(options)) if options else {}

    def spelling(match: re.Match[str]) -> str:
        return flag(match[1]) if match[1] in names else match[0]

    return re.sub(r"\b(\w+)=True\b", spelling, message)


_CHECK: Final = "Check the path."
_FREE: Final = "Free some space, or choose another disk."
_WAYS_OUT: Final = {
    errno.ENOENT: _CHECK,
    errno.EACCES: "Check the path and its permissions.",
    errno.EISDIR: _CHECK,
    errno.ENOTDIR: _CHECK,
    errno.ENOSPC: _FREE,
    errno.EDQUOT: _FREE,
    errno.EFBIG: "Raise the limit with ulimit -f unlimited.",
}


class _Parser(argparse.ArgumentParser):
    """A parser that prints an error on one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {one_line(message)}. Help: {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    groups = []
    for title, group in GROUPS.items():
        lines = [f"  {name:<14}{command.SUMMARY}" for name, command in group.items()]
        groups.append("\n".join([f"{title}:", *lines]))
    groups.append("Run albert-tf COMMAND --help for the options of a command.")
    parser = _Parser(
        prog="albert-tf",
        usage="albert-tf COMMAND [options]",
        description=albert_tf.__doc__.split("\n")[0],
        epilog="\n\n".join(groups),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=albert_tf.__version__)
    commands = parser.add_subparsers(
        dest="command",
        required=True,
        metavar="COMMAND",
        help="one of the commands below",
        prog="albert-tf",
    )
    for name, command in COMMANDS.items():
        described: dict[str, Any] = {
            "description": command.SUMMARY.capitalize() + ".",
            "epilog": command.EXAMPLES,
            "add_help": isinstance(command.OPTIONS, dict),
            "formatter_class": argparse.RawDescriptionHelpFormatter,
        }
        subparser = commands.add_parser(name, **described)
        if not isinstance(command.OPTIONS, dict):
            _declare(subparser, command.OPTIONS, config=command in RUNS)
            continue
        forms = subparser.add_subparsers(dest="format", required=True, metavar="FORMAT")
        for form, options in command.OPTIONS.items():
            described |= {"description": options.__doc__, "add_help": False}
            about = f"{options.__doc__.rstrip('.')} (albert-tf {name} {form} --help)"
            _declare(forms.add_parser(form, help=about, **described), options)
    return parser


def _declare(parser: argparse.ArgumentParser, options: type[Any], config: bool = False) -> None:
    """Adds the options of a command, or of one of its formats, to a parser."""
    actions = add_options(parser, options, config)
    parser.add_argument("-h", "--help", action=Help, options=actions)
    parser.set_defaults(parser=parser, options=options)


@contextlib.contextmanager
def streams() -> Iterator[None]:
    """Lets a command print any text to any stream, and flushes standard output at the end.

    Escapes characters that a stream can't encode, and drops text for closed streams (`>&-`). Prints
    each warning and log message on a single line, because it may quote an untrusted file.

    Raises:
        BrokenPipeError: if the program that reads standard output or standard error has exited.
        OSError: if standard output can't be written.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        with contextlib.suppress(OSError):  # the stream's file is now a pipe
            sys.stdout.reconfigure(errors="backslashreplace")
    handler, formatwarning = logging.lastResort, warnings.formatwarning
    before = handler.formatter if handler else None
    try:
        warnings.formatwarning = _warning
        if handler:
            handler.setFormatter(_OneLine())
        yield
    finally:
        warnings.formatwarning = formatwarning
        if handler:
            handler.setFormatter(before)
        sys.stdout.flush()


def drop(*outputs: IO[str]) -> None:
    """Discards the buffered text of streams, so that Python doesn't write it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in outputs:
        with contextlib.suppress(io.UnsupportedOperation):  # an in-memory stream
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class _OneLine(logging.Formatter):
    """Formats a message on one line, with control characters escaped."""

    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record))


def _warning(message: Warning | str, category: type[Warning], *place: Any, **line: Any) -> str:
    return f"{category.__name__}: {one_line(str(message))}\n"

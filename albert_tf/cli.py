"""`albert-tf`: the commands, and what happens around each."""

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
from albert_tf.commands import (
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
from albert_tf.commands.parsing import Help, add_options, parsed_options
from albert_tf.errors import Interrupted, UserError, one_line
from albert_tf.options import declared, flag
from albert_tf.progress import heartbeat
from albert_tf.quiet import import_tensorflow, set_level, without_home_files

# By what a person wants to do, in the order of `albert-tf --help`.
GROUPS: Final[dict[str, dict[str, Any]]] = {
    "fine-tune on a task": {"finetune": finetune, "evaluate": evaluate},
    "get answers": {
        "predict": predict,
        "tag": tag,
        "answer": answer,
        "fill-mask": fill_mask,
        "embed": embed,
    },
    "serve, ship, convert": {"export": export, "convert": convert, "sizes": sizes},
    "pretrain on your own text": {
        "build-vocab": build_vocab,
        "build-data": build_data,
        "inspect-data": inspect_data,
        "pretrain": pretrain,
    },
}
COMMANDS: Final = {name: command for group in GROUPS.values() for name, command in group.items()}
# Commands without TensorFlow: `sizes` only counts, the others leave memory to their processes, and
# import it for a vocab.txt alone.
LIGHT: Final = (sizes, build_vocab, build_data)
RUNS: Final = (finetune, pretrain, build_data)  # write their options, which --config reads again


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status: 0, 2 for a user's mistake, 130 for Ctrl-C."""
    try:
        with streams(), without_home_files():
            return _run(arguments)
    except BrokenPipeError:  # The reader of our output closed it.
        drop(sys.stdout, sys.stderr)
        return 0
    except OSError as error:
        if not can_flush(sys.stdout):
            drop(sys.stdout)
        return _fail(_explain_os_error(error))


def _run(arguments: Sequence[str] | None) -> int:
    options: Any = None
    try:
        command, options = _parsed(arguments)
        set_level()  # For child processes too.
        found = None
        if command not in LIGHT:
            found = command.check(options)  # Before TensorFlow loads, which takes seconds.
            if getattr(options, "needs_tensorflow", True):
                import_tensorflow()
        with heartbeat(command):
            return int(command.run(options) if found is None else command.run(options, found))
    except UserError as error:
        return _fail(_with_flags(str(error), options))
    except Interrupted as interrupted:
        again = "The same command without --force" if options.force else "The same command"
        print(f"\n{interrupted} {again} resumes there.")
        return 130
    except MemoryError as error:
        return _fail(
            f"The command must fit into memory. Received: {str(error) or 'no memory left'}. Give "
            "smaller batches or less input, or use a machine with more memory."
        )
    except KeyboardInterrupt:
        print("\nalbert-tf: stopped.", file=sys.stderr)
        return 130


def _parsed(arguments: Sequence[str] | None) -> tuple[Any, Any]:
    """Returns the module of a command, and its options."""
    given = _parser().parse_args(arguments)
    command = COMMANDS[given.command]
    return command, parsed_options(given.parser, given.options, given)


def _fail(message: str) -> int:
    """Prints an error, and returns the exit status of a user's mistake."""
    print(f"albert-tf: error: {one_line(message)}", file=sys.stderr)
    return 2


def _with_flags(message: str, options: Any) -> str:
    """Replaces switches as Python spells them (`force=True`) with the command's own flags."""
    names = declared(type(options)) if options else {}

    def spelled(match: re.Match[str]) -> str:
        return flag(match[1]) if match[1] in names else match[0]

    return re.sub(r"\b(\w+)=True\b", spelled, message)


def _explain_os_error(error: OSError) -> str:
    if error.strerror is None:  # A package's own error, of a download for example.
        return f"{type(error).__name__}: {error}"
    rule, way_out = _RULES.get(error.errno or 0, ("A file must be readable and writable", ""))
    named = "" if error.filename is None else f"{error.filename}: "
    return f"{rule}. Received: {named}{error.strerror}. {way_out}"


_FULL: Final = ("The disk must have room", "Free some, or choose another disk.")
_RULES: Final = {
    errno.ENOENT: ("A file must exist", "Check the path."),
    errno.EACCES: ("Permissions must allow what is asked for", "Check them, or the path."),
    errno.EISDIR: ("A file must not be a folder", "Check the path."),
    errno.ENOTDIR: ("A folder must not be a file", "Check the path."),
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: ("A file must stay below the system's limit", "Raise it: ulimit -f unlimited."),
}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {one_line(message)}. Help: {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="albert-tf",
        usage="albert-tf COMMAND [options]",
        description=albert_tf.__doc__.split("\n")[0],
        epilog=_overview(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=albert_tf.__version__)
    commands = parser.add_subparsers(
        dest="command",
        required=True,
        metavar="COMMAND",
        help="one of those below",
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
    """Declares the options of a command, or of one of its forms."""
    actions = add_options(parser, options, config)
    parser.add_argument("-h", "--help", action=Help, options=actions)
    parser.set_defaults(parser=parser, options=options)


def _overview() -> str:
    """Returns the commands by group, one a line."""
    parts = []
    for title, group in GROUPS.items():
        lines = [f"  {name:<14}{command.SUMMARY}" for name, command in group.items()]
        parts.append("\n".join([f"{title}:", *lines]))
    return "\n\n".join([*parts, "albert-tf COMMAND --help describes a command's options."])


@contextlib.contextmanager
def streams() -> Iterator[None]:
    """Lets a command print any text to any stream; writes out what it printed.

    What the stream's encoding lacks is escaped; a stream that the caller closed (`>&-`) drops its
    text. Warnings and log messages, which may quote a stranger's file, are one line each.

    Raises:
        BrokenPipeError: the reader of standard output or standard error left.
        OSError: standard output can't be written.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        with contextlib.suppress(OSError):  # a pipe in the place of the file it was opened for
            sys.stdout.reconfigure(errors="backslashreplace")
    handler, shown = logging.lastResort, warnings.formatwarning
    before = handler.formatter if handler else None
    try:
        warnings.formatwarning = _warning
        if handler:
            handler.setFormatter(_OneLine())
        yield
    finally:
        warnings.formatwarning = shown
        if handler:
            handler.setFormatter(before)
        sys.stdout.flush()


def can_flush(stream: IO[str]) -> bool:
    """Returns whether a stream takes what is left to write to it."""
    try:
        stream.flush()
    except OSError:
        return False
    return True


def drop(*given: IO[str]) -> None:
    """Drops what is left to write to streams, which Python would try again at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in given:
        with contextlib.suppress(io.UnsupportedOperation):  # a stream in memory
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class _OneLine(logging.Formatter):
    """A formatter of messages without line ends and control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record))


def _warning(message: Warning | str, category: type[Warning], *place: Any, **line: Any) -> str:
    return f"{category.__name__}: {one_line(str(message))}\n"


if __name__ == "__main__":
    sys.exit(main())

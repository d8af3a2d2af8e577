"""Standard output and standard error of a command, whatever is at their other end."""

import contextlib
import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from typing import IO, Any

from albert_tf.errors import one_line


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

"""Reads the lines of a file in bounded memory, with errors that name the file."""

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from typing import IO, AnyStr, Final

from albert_tf.errors import UserError

LONGEST_LINE: Final = 16 << 20  # bytes or characters; 16 kB of gzip can expand to that many


def bounded_lines(stream: IO[AnyStr], name: object) -> Iterator[AnyStr]:
    """Yields the lines of a stream, including their line breaks, in bounded memory.

    Raises:
        UserError: a line is longer than `LONGEST_LINE`. The message contains `name`.
    """
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise UserError(
                f"{name}, line {number:,} is longer than {LONGEST_LINE:,} bytes. Break it into "
                "several lines, or exclude the file."
            )
        yield line


@contextlib.contextmanager
def readable(path: object) -> Iterator[None]:
    """Turns decompression errors into a `UserError` that names the file.

    Raises:
        UserError: the file isn't gzip, is damaged, or is truncated.
    """
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(
            f"{path} is not a valid .gz file: {error}. Copy it again from its source."
        ) from error

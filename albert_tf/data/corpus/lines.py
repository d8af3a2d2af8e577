"""Lines of text in bounded memory."""

from collections.abc import Iterator
from typing import IO, AnyStr, Final

from albert_tf.errors import UserError

LONGEST_LINE: Final = 16 << 20  # bytes, or characters: 16 kB of gzip may hold so many


def bounded_lines(stream: IO[AnyStr], name: object) -> Iterator[AnyStr]:
    """Yields the lines of a stream with their ends, in bounded memory.

    Args:
        name: of the file, for the message.
    Raises:
        UserError: a line is longer than `LONGEST_LINE`.
    """
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise UserError(
                f"A line must not be longer than {LONGEST_LINE:,} bytes. Received: {name}, line "
                f"{number:,}. Break it into several, or leave the file out."
            )
        yield line

"""Reads a file a block at a time, in bounded memory; names the file and the line of its faults."""

import codecs
import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from typing import IO, Final, cast

from albert_tf.data.corpus.files import InputFile, is_remote, open_bytes
from albert_tf.data.corpus.lines import bounded_lines
from albert_tf.errors import UserError

BLOCK: Final = 1 << 20  # bytes; a quarter or four times as much is no faster
# UTF-32's little-endian mark begins with UTF-16's.
UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
HEAD: Final = 4096  # a zero byte among so many bytes marks a binary file, as for grep and git


class Blocks:
    """The current part of a file.

    Attributes:
        data: its bytes.
        offset: their place in the file.
        ended: whether the file ends behind them.
    """

    def __init__(self, file: IO[bytes], offset: int):
        self._file = file
        self.data = b""
        self.offset = offset
        self.ended = False
        self.read_on(0)

    def read_on(self, keep: int) -> None:
        """Drops the bytes before `keep`, and reads more behind the rest."""
        kept = self.data[keep:]
        block = self._file.read(max(BLOCK, len(kept)))  # so that all copying is linear
        self.data = kept + block
        self.offset += keep
        self.ended = not block


def check_head(head: bytes, file: InputFile, start: int = 0) -> None:
    """Refuses a file whose beginning can't be UTF-8, where skipping lines doesn't help.

    Args:
        start: its place in the file.
    Raises:
        UserError: UTF-16, UTF-32 or a binary file.
    """
    if head.startswith(UTF_16):
        raise UserError(
            f"Text must be UTF-8. Received: {file.path}, which begins as UTF-16 or UTF-32 does. "
            "Convert it: iconv -f utf-16 -t utf-8."
        )
    if b"\0" in head[:HEAD]:
        raise UserError(
            f"Text must be UTF-8. Received: {file.path}, with a zero byte at "
            f"{start + head.index(0):,}. If it is UTF-16, convert it: iconv -f utf-16le -t utf-8. "
            "If it is a binary file, leave it out of the input."
        )


def bad_line(file: InputFile, offset: int, fault: ValueError) -> UserError:
    """Makes the error of the line at `offset`, with the file's name and the line's number."""
    reason = str(fault)
    way = "correct it"
    if isinstance(fault, UnicodeDecodeError):
        reason = f"the byte {fault.object[fault.start]:#04x} is not UTF-8"
        way = "convert the file (iconv -f latin1 -t utf-8, or its encoding)"
    elif isinstance(fault, UnicodeEncodeError):
        reason = "half a surrogate pair in its text"
    return UserError(
        f"Every line must be UTF-8, and in .jsonl an object with a text. Received: {file.path}, "
        f"line {_line_number(file, offset):,}: {reason}. {way.capitalize()}, or skip such lines "
        "with bad_lines='skip' (--bad-lines skip)."
    )


def text_lines(path: str) -> Iterator[bytes]:
    """Yields the lines of a text file, or of standard input (`-`), with their ends.

    Opens the file at once, reads it as needed, and drops a byte order mark.

    Raises:
        UserError: there is no such file; it is a folder, UTF-16, binary, or a damaged `.gz`; a
            line is longer than `LONGEST_LINE`.
    """
    if path == "-":
        return _checked_lines(open(0, "rb", closefd=False), InputFile("standard input", "", 0))
    here = os.path.expanduser(path)
    if not is_remote(path) and not (os.path.exists(here) and not os.path.isdir(here)):
        found = "is a folder" if os.path.isdir(here) else "doesn't exist"
        raise UserError(f"An input must be a file. Received: {path}, which {found}.")
    if is_remote(path):
        stream = cast(IO[bytes], io.BufferedReader(cast(io.RawIOBase, open_bytes(path))))
    else:
        stream = open_bytes(here)
    return _checked_lines(stream, InputFile(path, path, 0))


def _checked_lines(stream: IO[bytes], file: InputFile) -> Iterator[bytes]:
    with contextlib.closing(stream), readable(file):
        place = 0
        for line in bounded_lines(stream, file.path):
            if place < HEAD:
                check_head(line, file, place)
            yield line if place else line.removeprefix(codecs.BOM_UTF8)
            place += len(line)


@contextlib.contextmanager
def readable(file: InputFile) -> Iterator[None]:
    """Turns errors of decompression into one that names the file.

    Raises:
        UserError: it isn't gzip, damaged, or truncated.
    """
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(
            f"A file ending in .gz must be whole gzip. Received: {file.path}: {error}. Download "
            "or make it again, or leave it out of the input."
        ) from error


def _line_number(file: InputFile, offset: int) -> int:
    """Counts the lines up to an offset."""
    number, left = 1, offset
    with contextlib.closing(open_bytes(file.path)) as stream:
        while left and (block := stream.read(min(BLOCK, left))):
            number += block.count(b"\n")
            left -= len(block)
    return number

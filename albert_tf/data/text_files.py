"""Opens text files in any encoding, compressed or not, and reports what is wrong with them."""

import codecs
import contextlib
import functools
import gzip
import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from albert_tf.data.lines import bounded_lines, readable
from albert_tf.errors import UserError
from albert_tf.files import fault

MAX_JSON_BYTES: Final = 2**29  # a parsed value uses ten times as much memory
# Byte order marks. UTF-32's comes first, because it begins with UTF-16's.
_MARKS: Final = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_UTF8: Final = "utf-8-sig"
logger = logging.getLogger(__name__)


@functools.lru_cache(maxsize=1000)
def warn_once(message: str) -> None:
    """Logs a warning the first time it is called with this message.

    A command reads its data twice, to check it and to use it.
    """
    logger.warning(message)


def require_file(path: Path) -> None:
    """Rejects a path that isn't a regular file, because reading a pipe could block forever."""
    if not path.is_file():
        raise UserError(
            f"Examples must be in a regular file. Received: {path}, which {fault(path)}."
        )


@contextlib.contextmanager
def open_text(
    path: Path, newline: str | None = None, encoding: str | None = None, whole: bool = False
) -> Iterator[Iterator[str]]:
    """Opens a text file, decompresses it if it ends in `.gz`, and yields its lines.

    Args:
        newline: as in the built-in `open`.
        encoding: a Python codec. Default: UTF-8, unless there is a byte order mark.
        whole: whether the file is a single value that spans several lines. The size limit then
            applies to the file, not to each line.
    Raises:
        UserError: the encoding is unknown; the file isn't in this encoding, is damaged, or is too
            large; or a line exceeds `LONGEST_LINE`.
    """
    try:
        "".encode(encoding or _UTF8)
    except (LookupError, UnicodeError) as error:
        raise UserError(
            "encoding must be a Python codec, such as cp1252, latin-1, or utf-16. "
            f"Received: {encoding!r}."
        ) from error
    whole = whole and path.suffix != ".gz"  # the uncompressed size is unknown
    if whole and path.stat().st_size > MAX_JSON_BYTES:
        raise too_large(path)
    try:
        with readable(path), _open_bytes(path) as binary:
            first = binary.peek(4)[:4]  # type: ignore[attr-defined]
            marked = (codec for mark, codec in _MARKS.items() if first.startswith(mark))
            codec = encoding or next(marked, _UTF8)
            if codecs.lookup(codec).name == "utf-8":
                codec = _UTF8  # drops a byte order mark
            with io.TextIOWrapper(binary, codec, newline=newline) as file:
                yield file if whole else bounded_lines(file, path)
    except UserError:
        check_compression(path)
        raise
    except UnicodeError as error:  # raised for UTF-16 without a byte order mark
        check_compression(path)
        raise _wrong_encoding(path, encoding, error) from error


def too_large(path: Path) -> UserError:
    """Returns the error for a JSON value larger than `MAX_JSON_BYTES`."""
    return UserError(
        f"A JSON file that is a single value can have at most {MAX_JSON_BYTES:,} bytes. {path} is "
        "larger. Split it, or write one JSON object per line (.jsonl)."
    )


def check_compression(path: Path) -> None:
    """Rejects a damaged `.gz` file.

    The checksum comes last, so damaged rows may have been read without an error.
    """
    if path.suffix == ".gz":
        with readable(path), gzip.open(path) as file:
            while file.read(1 << 20):
                pass


def _open_bytes(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _wrong_encoding(path: Path, encoding: str | None, error: UnicodeError) -> UserError:
    """Returns an error that names the first bad line and a likely encoding."""
    if encoding:
        return UserError(
            f"{path} isn't encoded in {encoding}: {str(error)[:160]}. Pass the right encoding with "
            "--encoding."
        )
    number, line = _first_bad_line(path)
    byte = error.object[error.start] if isinstance(error, UnicodeDecodeError) else 0
    guess = "utf-16" if line.count(0) > len(line) // 4 else "cp1252"
    return UserError(
        f"{path} isn't UTF-8: line {number} contains the byte {byte:#04x}. Pass its encoding (for "
        f"example --encoding {guess}), or convert the file."
    )


def _first_bad_line(path: Path) -> tuple[int, bytes]:
    """Returns the number and the bytes of the first line that isn't UTF-8."""
    with _open_bytes(path) as file, contextlib.suppress(UserError):  # raised if a line is too long
        for number, line in enumerate(bounded_lines(file, path), start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number, line
    return 1, b""

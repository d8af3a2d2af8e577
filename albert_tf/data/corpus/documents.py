"""Reads the documents of a corpus in bounded memory and draws a sample of passages.

The documents don't depend on how the files are divided into ranges. Errors name the file and the
line.
"""

import codecs
import contextlib
import dataclasses
import hashlib
import heapq
import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import IO, Final, NamedTuple, cast

from albert_tf.data.corpus.files import (
    InputFile,
    check_packing,
    is_gzip,
    is_json_lines,
    is_remote,
    open_bytes,
)
from albert_tf.data.corpus.options import CorpusOptions
from albert_tf.data.lines import LONGEST_LINE, bounded_lines, readable
from albert_tf.errors import UserError
from albert_tf.files import fault

BLOCK: Final = 1 << 20  # bytes; smaller and larger blocks aren't faster
# The UTF-32-LE byte order mark begins with the UTF-16-LE one.
UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
HEAD: Final = 4096  # bytes; a zero byte among them means a binary file, as in grep and git
# The whitespace characters of str.isspace in UTF-8, except "\n".
_ASCII = rb"[\t\v\f\r\x1c-\x1f ]*"
_WIDE = (
    rb"(?:\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2(?:\x80[\x80-\x8a\xa8\xa9\xaf]|\x81\x9f)|\xe3\x80\x80)"
)
_BLANK = _ASCII + rb"(?:" + _WIDE + _ASCII + rb")*"
# The first byte rules out most lines. Much Asian text also starts with \xe1 to \xe3.
_BLANK_LINE = re.compile(
    rb"\n(?=[\t-\r\x1c- \xc2\xe1-\xe3])" + _ASCII + rb"(?:\n|" + _WIDE + _BLANK + rb"\n)"
)
_SPACE = re.compile(_BLANK.replace(rb"\t", rb"\t\n"))
_LONGEST_SPACE = 3  # bytes
JSON_LINE = LONGEST_LINE  # a whole book on one line is split like any other long document
PASSAGE = 4096  # maximum bytes of a passage (a few paragraphs), far smaller than a sample
SMALLEST = 64  # a passage counts as at least this many bytes; its Python object takes 300
ASCII_SPACE = bytes(byte for byte in range(128) if chr(byte).isspace())


class Split(NamedTuple):
    """The bytes `[start, end)` of a file, or all bytes from `start` on if `end` is None."""

    file: InputFile
    start: int
    end: int | None


class Document(NamedTuple):
    """A text, identified by `(source, offset)`.

    Attributes:
        source: name of the file; see `InputFile.name`.
        offset: offset in the decompressed file. If a JSON line's text was split, this is the
            line's offset plus the number of text bytes before the part.
        text: UTF-8, at most `max_document_bytes`, with "\\n" line breaks and no blank lines.
    """

    source: str
    offset: int
    text: bytes


def splits(files: Sequence[InputFile], size: int) -> list[Split]:
    """Divides files evenly into ranges of at most `size` bytes. A `.gz` file is not divided."""
    ranges: list[Split] = []
    for file in files:
        if is_gzip(file.path):
            ranges.append(Split(file, 0, None))
            continue
        count = -(-file.size // size)
        bounds = [file.size * number // count for number in range(count + 1)] if count else []
        ranges += [Split(file, start, end) for start, end in pairwise(bounds)]
    return ranges


def documents(split: Split, options: CorpusOptions, counts: Counter[str]) -> Iterator[Document]:
    """Yields the documents in a range of a file, in order and in bounded memory.

    In plain text, lines without text separate documents. A document belongs to the range in which
    its preceding blank line begins. In JSON lines, each line is a document, and blank lines within
    its text are dropped. A document that is too long is split at a line break if possible,
    otherwise at whitespace, otherwise between two characters. A byte order mark is dropped.

    Args:
        counts: receives "documents", "bytes" (of text), "documents_cut", "empty_documents", and
            "bad_lines". If a plain-text line is split, each invalid part counts as a bad line.
    Raises:
        UserError: a line is bad and `bad_lines` is "stop"; the file is UTF-16 or binary; a
            `.gz` file is damaged; or a plain text file contains JSON lines. The message names the
            file and the line.
    """
    is_json = is_json_lines(split.file.path)
    read = _json_texts if is_json else _plain_texts
    start = max(0, split.start - 1)
    with contextlib.closing(open_bytes(split.file.path)) as file, readable(split.file.path):
        if start:
            file.seek(start)
        window = ByteWindow(file, start)
        if not split.start:
            check_beginning(window.data, split.file)
            if window.data.startswith(codecs.BOM_UTF8):
                window.refill(len(codecs.BOM_UTF8))
            if not is_json:
                check_prose(window, split.file)
        for offset, text in read(window, split, options, counts):
            if not text:
                counts["empty_documents"] += 1
                continue
            counts["documents"] += 1
            counts["bytes"] += len(text)
            yield Document(split.file.name, offset, text)


def sample(
    files: Sequence[InputFile], options: CorpusOptions, limit: int, seed: int, counts: Counter[str]
) -> list[Document]:
    """Draws passages from all documents with equal probability; keeps all of them if they fit.

    A passage is a document of at most `PASSAGE` bytes, or a part of a longer one. The rank of a
    passage depends only on the seed, the file's name, and the offset. The passages with the lowest
    ranks are kept.

    Args:
        limit: maximum bytes of text in the sample. A passage counts as at least `SMALLEST` bytes.
        counts: receives the counts of `documents`, where each passage counts as a document.
    Returns:
        The sample, sorted by rank.
    Raises:
        UserError: see `documents`.
    """
    options = dataclasses.replace(options, max_document_bytes=PASSAGE)
    chosen: list[tuple[int, Document]] = []  # a heap with the highest rank first
    size, threshold = 0, 1 << 64
    for file in files:
        for document in documents(Split(file, 0, None), options, counts):
            rank = _rank(seed, document)
            if rank >= threshold:
                continue
            heapq.heappush(chosen, (-rank, document))
            size += _size(document)
            while size > limit:
                lowest, dropped = heapq.heappop(chosen)
                threshold = -lowest  # so that no smaller passage replaces it later
                size -= _size(dropped)
    return [document for _, document in sorted(chosen, reverse=True)]


def _rank(seed: int, document: Document) -> int:
    key = f"{seed}\0{document.source}\0{document.offset}".encode(errors="surrogateescape")
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")


def _size(document: Document) -> int:
    return max(len(document.text), SMALLEST)


class ByteWindow:
    """The part of a file that is in memory.

    Attributes:
        data: bytes of this part.
        offset: offset of `data` in the file.
        ended: whether the file ends after `data`.
    """

    def __init__(self, file: IO[bytes], offset: int):
        self._file = file
        self.data = b""
        self.offset = offset
        self.ended = False
        self.refill(0)

    def refill(self, keep: int) -> None:
        """Drops the bytes before position `keep`, and appends more bytes from the file."""
        rest = self.data[keep:]
        block = self._file.read(max(BLOCK, len(rest)))  # so the total copying stays linear
        self.data = rest + block
        self.offset += keep
        self.ended = not block


def _plain_texts(
    window: ByteWindow, split: Split, options: CorpusOptions, counts: Counter[str]
) -> Iterator[tuple[int, bytes]]:
    for offset, text, part in passages(window, split.start, split.end, options.max_document_bytes):
        if part == 1:
            counts["documents_cut"] += 1
        if text.isascii():
            text = text.rstrip(ASCII_SPACE)
        else:
            text = _valid_lines(text, offset, split.file, options, counts)
        yield offset, text.replace(b"\r\n", b"\n") if b"\r" in text else text


def _valid_lines(
    text: bytes, offset: int, file: InputFile, options: CorpusOptions, counts: Counter[str]
) -> bytes:
    """Returns the text without invalid UTF-8 lines and without surrounding whitespace."""
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        if options.bad_lines == "stop":
            raise bad_line(file, offset + error.start, error) from error
        lines = text.split(b"\n")
        good = [line for line in lines if line.decode(errors="ignore").encode() == line]
        counts["bad_lines"] += len(lines) - len(good)
        return b"\n".join(good).decode().strip().encode()
    return decoded.rstrip().encode() if decoded[-1].isspace() else text


def _json_texts(
    window: ByteWindow, split: Split, options: CorpusOptions, counts: Counter[str]
) -> Iterator[tuple[int, bytes]]:
    for offset, line in json_lines(window, split.start, split.end, JSON_LINE):
        try:
            if line is None:
                raise ValueError(f"the line is longer than {JSON_LINE:,} bytes")
            if not line or line.isspace():
                continue
            text = json_text(line, options.text_field)
        except ValueError as error:
            if options.bad_lines == "stop":
                raise bad_line(split.file, offset, error) from error
            counts["bad_lines"] += 1
            continue
        if len(text) <= options.max_document_bytes:
            yield offset, text
            continue
        counts["documents_cut"] += 1
        within = ByteWindow(io.BytesIO(text), 0)
        for start, part, _ in passages(within, 0, None, options.max_document_bytes):
            yield offset + start, part.decode().rstrip().encode()


def json_lines(
    window: ByteWindow, start: int, end: int | None, limit: int
) -> Iterator[tuple[int, bytes | None]]:
    """Yields the offset and the bytes of every line that begins in `[start, end)`.

    Args:
        window: window that starts at the byte before `start`, or at the first byte of the file.
        start, end: offsets in the file. If `end` is None, all remaining lines are read.
        limit: maximum bytes in a line; a longer line is yielded as None.
    """
    position = 0 if start == 0 else _skip_line(window, 0)
    while position < len(window.data) or not window.ended:
        offset = window.offset + position
        if end is not None and offset >= end:
            return
        stop = window.data.find(b"\n", position)
        if stop < 0 and not window.ended and len(window.data) - position <= limit:
            window.refill(position)
            position = 0
            continue
        whole = stop if stop >= 0 else len(window.data)
        if whole - position > limit:
            yield offset, None
            position = _skip_line(window, position)
        else:
            yield offset, window.data[position:whole]
            position = whole + 1


def json_text(line: bytes, field: str) -> bytes:
    """Returns the text in a JSON object as UTF-8, without blank lines.

    Raises:
        ValueError: the line isn't UTF-8 or JSON, the object has no such field, or the value isn't
            a string that UTF-8 can encode.
    """
    try:
        row = json.loads(line.decode())
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error
    if not isinstance(row, dict):
        kind = type(row).__name__
        raise ValueError(f"expected a JSON object with the field {field!r}, but found {kind}")
    if field not in row:
        fields = ", ".join(map(repr, row))[:200]
        raise ValueError(f"the JSON object has no field {field!r} (its fields: {fields or 'none'})")
    if not isinstance(row[field], str):
        raise ValueError(f"{field!r} must be a string, not {type(row[field]).__name__}")
    lines = [text.rstrip("\r") for text in row[field].split("\n") if text.strip()]
    return "\n".join(lines).strip().encode()


def _skip_line(window: ByteWindow, position: int) -> int:
    """Returns the position after the next line break, or the end position if there is none."""
    while (stop := window.data.find(b"\n", position)) < 0:
        if window.ended:
            return len(window.data)
        position = 0
        window.refill(len(window.data))
    return stop + 1


def passages(
    window: ByteWindow, start: int, end: int | None, limit: int
) -> Iterator[tuple[int, bytes, int]]:
    """Yields the documents whose preceding blank line begins in `[start, end)`, in parts.

    Every document of a file is therefore read exactly once, however the file is divided. The first
    document belongs to the reader that starts at 0.

    Args:
        window: window that starts at the byte before `start`, or at the first byte of the file.
        start, end: offsets in the file. If `end` is None, all remaining documents are read.
        limit: maximum bytes in a part.
    Yields:
        offset: offset of the part in the file. A part never begins with whitespace.
        text: bytes of the part, without blank lines. They may end in whitespace.
        part: 0-based index of the part within the document.
    """
    newlines = [-2, -1] if start == 0 else []  # the latest two line breaks after the previous part
    position, part = 0, None
    while True:
        position = _skip_space(window, position, newlines)
        if position == len(window.data):
            return
        if len(newlines) == 2:
            if end is not None and newlines[0] + 1 >= end:
                return
            part = 0
        elif part is None and end is not None and window.offset + position >= end:
            return  # still inside an earlier reader's document, which may be gigabytes long
        position, stop = _passage(window, position, limit)
        if part is not None:
            yield window.offset + position, window.data[position:stop], part
            part += 1
        position, newlines = stop, []


def cut(data: bytes, start: int, limit: int) -> int:
    """Returns the position of the split, at most `limit` (4 or more) bytes after `start`.

    Prefers the last line break, then the last whitespace, then a boundary between two characters.
    """
    stop = start + limit
    line_end = data.rfind(b"\n", start + 1, stop + 1)
    if line_end > 0:
        return line_end
    space = max(data.rfind(white, start + 1, stop + 1) for white in (b" ", b"\t", b"\r"))
    if space > 0:
        return space
    starts = (index for index in range(stop, stop - 4, -1) if data[index] & 0xC0 != 0x80)
    return next(starts, stop)


def _skip_space(window: ByteWindow, position: int, newlines: list[int]) -> int:
    """Returns the position of the next non-whitespace character.

    Updates `newlines`, the offsets of the last two line breaks.
    """
    while True:
        stop = _SPACE.match(window.data, position).end()  # type: ignore[union-attr]
        last = window.data.rfind(b"\n", position, stop)
        if last >= 0:
            before = window.data.rfind(b"\n", position, last)
            if before >= 0:
                newlines[:] = [window.offset + before]
            newlines[:-1] = []
            newlines.append(window.offset + last)
        if window.ended or len(window.data) - stop >= _LONGEST_SPACE:
            return stop
        window.refill(stop)
        position = 0


def _passage(window: ByteWindow, position: int, limit: int) -> tuple[int, int]:
    """Returns the bounds of the passage that begins at `position`, and reads more data if needed.

    A blank line that begins within the limit and ends beyond it isn't found, but `cut` then splits
    the text where that line begins.
    """
    searched = position
    while True:
        match = _BLANK_LINE.search(window.data, searched, position + limit + 1)
        if match:
            return position, match.start()
        if len(window.data) - position > limit:
            return position, cut(window.data, position, limit)
        if window.ended:
            return position, len(window.data)
        searched = max(0, window.data.rfind(b"\n", searched) - position)
        window.refill(position)
        position = 0


def text_lines(path: str) -> Iterator[bytes]:
    """Yields the lines of a text file, or of standard input (`-`), including line breaks.

    Opens the file immediately, reads it lazily, and drops a byte order mark.

    Raises:
        UserError: the file doesn't exist; it is a folder, an archive, UTF-16, binary, or a damaged
            `.gz`; or a line is longer than `LONGEST_LINE`.
    """
    if path == "-":
        return _checked_lines(open(0, "rb", closefd=False), InputFile("standard input", "", 0))
    check_packing(path)
    if is_remote(path):
        stream = cast(IO[bytes], io.BufferedReader(cast(io.RawIOBase, open_bytes(path))))
    elif os.path.exists(path) and not os.path.isdir(path):
        stream = open_bytes(path)
    else:
        raise UserError(f"An input must be a file. Received: {path}, which {fault(path)}.")
    return _checked_lines(stream, InputFile(path, path, 0))


def _checked_lines(stream: IO[bytes], file: InputFile) -> Iterator[bytes]:
    with contextlib.closing(stream), readable(file.path):
        offset = 0
        for line in bounded_lines(stream, file.path):
            if offset < HEAD:
                check_beginning(line, file, offset)
            yield line if offset else line.removeprefix(codecs.BOM_UTF8)
            offset += len(line)


def check_beginning(head: bytes, file: InputFile, start: int = 0) -> None:
    """Rejects the whole file if it isn't UTF-8, because skipping its bad lines wouldn't help.

    Args:
        head: bytes from the beginning of the file, such as its first line.
        start: offset of `head` in the file.
    Raises:
        UserError: the file is UTF-16, UTF-32, or binary.
    """
    if head.startswith(UTF_16):
        raise UserError(
            f"Text must be UTF-8. Received: {file.path}, which begins with a UTF-16 or UTF-32 "
            "byte order mark. Convert it: iconv -f utf-16 -t utf-8."
        )
    if b"\0" in head[:HEAD]:
        raise UserError(
            f"Text must be UTF-8. Received: {file.path}, with a zero byte at offset "
            f"{start + head.index(0):,}. Convert it if it is UTF-16 (iconv -f utf-16le -t utf-8), "
            "or exclude it if it is binary."
        )


def bad_line(file: InputFile, offset: int, fault: ValueError) -> UserError:
    """Returns an error that names the file and the line number of `offset`."""
    reason = str(fault)
    way_out = "Correct it"
    if isinstance(fault, UnicodeDecodeError):
        reason = f"the byte {fault.object[fault.start]:#04x} is not valid UTF-8"
        way_out = "Convert the file (for example iconv -f latin1 -t utf-8)"
    elif isinstance(fault, UnicodeEncodeError):
        reason = "the text contains half of a surrogate pair"
    number, left = 1, offset
    with contextlib.closing(open_bytes(file.path)) as stream:
        while left and (block := stream.read(min(BLOCK, left))):
            number += block.count(b"\n")
            left -= len(block)
    return UserError(
        f"{file.path}, line {number:,}: {reason}. {way_out}, or skip such lines with "
        "bad_lines='skip' (--bad-lines skip)."
    )


def check_prose(window: ByteWindow, file: InputFile) -> None:
    """Rejects plain text if its first non-blank line is a JSON object."""
    while (line := window.data.lstrip()).startswith(b"{") and b"\n" not in line:
        if window.ended or len(line) > LONGEST_LINE:
            break
        window.refill(0)
    try:
        if not isinstance(json.loads(line.split(b"\n", 1)[0]), dict):
            return
    except (ValueError, RecursionError):
        return
    path, packing = (file.path[:-3], ".gz") if is_gzip(file.path) else (file.path, "")
    renamed = f"{os.path.splitext(os.path.basename(path))[0]}.jsonl{packing}"
    raise UserError(
        "JSON lines must be in .jsonl, .ndjson, or .json files. Received: "
        f"{file.path}, which begins with a JSON object. Rename it to {renamed}."
    )

"""Divides plain text into documents: at blank lines, and where they are too long."""

import re
from collections.abc import Iterator

from albert_tf.data.corpus.reading import Blocks

# White space of str.isspace in UTF-8, without "\n".
_ASCII = rb"[\t\v\f\r\x1c-\x1f ]*"
_WIDE = (
    rb"(?:\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2(?:\x80[\x80-\x8a\xa8\xa9\xaf]|\x81\x9f)|\xe3\x80\x80)"
)
_BLANK = _ASCII + rb"(?:" + _WIDE + _ASCII + rb")*"
# The first byte excludes most lines: \xe1 to \xe3 begin white space, and much of Asia's text.
_BLANK_LINE = re.compile(
    rb"\n(?=[\t-\r\x1c- \xc2\xe1-\xe3])" + _ASCII + rb"(?:\n|" + _WIDE + _BLANK + rb"\n)"
)
_SPACE = re.compile(_BLANK.replace(rb"\t", rb"\t\n"))
_LONGEST_SPACE = 3  # bytes


def passages(
    blocks: Blocks, start: int, end: int | None, limit: int
) -> Iterator[tuple[int, bytes, int]]:
    """Yields the documents whose preceding blank line begins in `[start, end)`, in parts.

    Each document of a file is therefore found once, however the file is divided. The first one
    belongs to the reader that starts at 0.

    Args:
        blocks: placed at the byte before `start`, or at the first byte of the file.
        start, end: offsets in the file; None is its end.
        limit: bytes of the longest part.
    Yields:
        offset: place of the part in the file, at a character that isn't white space.
        text: bytes of the part, without a blank line; it may end in white space.
        part: number of the part within the document, from 0.
    """
    newlines = [-2, -1] if start == 0 else []  # the last two since the last text
    position, part = 0, None
    while True:
        position = _skip_space(blocks, position, newlines)
        if position == len(blocks.data):
            return
        if len(newlines) == 2:
            if end is not None and newlines[0] + 1 >= end:
                return
            part = 0
        elif part is None and end is not None and blocks.offset + position >= end:
            return  # within a document of an earlier reader, of gigabytes perhaps
        position, stop = _passage(blocks, position, limit)
        if part is not None:
            yield blocks.offset + position, blocks.data[position:stop], part
            part += 1
        position, newlines = stop, []


def cut(data: bytes, start: int, limit: int) -> int:
    """Returns the place to cut data that has more than `limit` (4 or more) bytes after `start`.

    Prefers the last line end, then the last white space, then a place between two characters.
    """
    stop = start + limit
    line_end = data.rfind(b"\n", start + 1, stop + 1)
    if line_end > 0:
        return line_end
    space = max(data.rfind(white, start + 1, stop + 1) for white in (b" ", b"\t", b"\r"))
    if space > 0:
        return space
    inside = (place for place in range(stop, stop - 4, -1) if data[place] & 0xC0 != 0x80)
    return next(inside, stop)


def _skip_space(blocks: Blocks, position: int, newlines: list[int]) -> int:
    """Returns the next position that isn't white space; `newlines` gets the last two before it."""
    while True:
        stop = _SPACE.match(blocks.data, position).end()  # type: ignore[union-attr]
        last = blocks.data.rfind(b"\n", position, stop)
        if last >= 0:
            before = blocks.data.rfind(b"\n", position, last)
            if before >= 0:
                newlines[:] = [blocks.offset + before]
            newlines[:-1] = []
            newlines.append(blocks.offset + last)
        if blocks.ended or len(blocks.data) - stop >= _LONGEST_SPACE:
            return stop
        blocks.read_on(stop)
        position = 0


def _passage(blocks: Blocks, position: int, limit: int) -> tuple[int, int]:
    """Returns the bounds of the passage that begins at `position`, after reading on if needed.

    Misses a blank line that begins within the limit and ends beyond it; the cut then falls at the
    same place.
    """
    searched = position
    while True:
        match = _BLANK_LINE.search(blocks.data, searched, position + limit + 1)
        if match:
            return position, match.start()
        if len(blocks.data) - position > limit:
            return position, cut(blocks.data, position, limit)
        if blocks.ended:
            return position, len(blocks.data)
        searched = max(0, blocks.data.rfind(b"\n", searched) - position)
        blocks.read_on(position)
        position = 0

"""Reads JSONL, an object a line, in bounded memory."""

import json
from collections.abc import Iterator

from albert_tf.data.corpus.reading import Blocks


def json_lines(
    blocks: Blocks, start: int, end: int | None, limit: int
) -> Iterator[tuple[int, bytes | None]]:
    """Yields the lines that begin in `[start, end)`, each with its offset.

    Args:
        blocks: placed at the byte before `start`, or at the first byte of the file.
        start, end: offsets in the file; None is its end.
        limit: bytes of the longest line; a longer one becomes None.
    """
    position = 0 if start == 0 else _skip_line(blocks, 0)
    while position < len(blocks.data) or not blocks.ended:
        offset = blocks.offset + position
        if end is not None and offset >= end:
            return
        stop = blocks.data.find(b"\n", position)
        if stop < 0 and not blocks.ended and len(blocks.data) - position <= limit:
            blocks.read_on(position)
            position = 0
            continue
        whole = stop if stop >= 0 else len(blocks.data)
        if whole - position > limit:
            yield offset, None
            position = _skip_line(blocks, position)
        else:
            yield offset, blocks.data[position:whole]
            position = whole + 1


def json_text(line: bytes, field: str) -> bytes:
    """Returns the text of an object in UTF-8, without blank lines.

    Raises:
        ValueError: the line isn't UTF-8 or JSON, the object has no such field, or its value isn't
            a string of whole characters.
    """
    try:
        row = json.loads(line.decode())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(row, dict) or field not in row:
        fields = ", ".join(map(repr, row)) if isinstance(row, dict) else type(row).__name__
        raise ValueError(f"no field {field!r}, but {fields[:200] or 'none'}")
    if not isinstance(row[field], str):
        raise ValueError(f"{field!r} is no string, but {type(row[field]).__name__}")
    lines = [text.rstrip("\r") for text in row[field].split("\n") if text.strip()]
    return "\n".join(lines).strip().encode()


def _skip_line(blocks: Blocks, position: int) -> int:
    """Returns the position behind the next line end, or the end of the file."""
    while (stop := blocks.data.find(b"\n", position)) < 0:
        if blocks.ended:
            return len(blocks.data)
        position = 0
        blocks.read_on(len(blocks.data))
    return stop + 1

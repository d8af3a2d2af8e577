"""Rows of JSON files: one JSON object per line, or a list of objects."""

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from albert_tf.data.tables import BAD_ROW
from albert_tf.data.text_files import MAX_JSON_BYTES, open_text, too_large
from albert_tf.errors import UserError, escaped, short_repr


def json_rows(path: Path, encoding: str | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the line number and the object of each non-blank line.

    A line that isn't a JSON object is yielded as a `BAD_ROW`. If the file is a list of objects,
    or an object whose `data` is such a list, yields each object with its 1-based number.
    """
    with open_text(path, encoding=encoding, whole=".jsonl" not in path.name) as file:
        lines = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
        first = list(islice(lines, 2))
        if first and _is_one_value(first[0][1], path):
            content = read_value(_join_lines(path, chain(first, lines)), f"{path}")
            yield from enumerate(_objects(content, path), start=1)
            return
        for number, line in chain(first, lines):
            row = _line_object(line, f"{path}, line {number},")
            if len(first) == 1 and ".jsonl" not in path.name and _are_rows(row.get("data")):
                yield from enumerate(row["data"], start=1)
            else:
                yield number, row


def _line_object(line: str, location: str) -> dict[Any, Any]:
    try:
        row = read_value(line, location)
    except UserError as error:
        return {BAD_ROW: error}
    if isinstance(row, dict):
        return row
    received = type(row).__name__
    return {BAD_ROW: UserError(f"{location} must be a JSON object. Received: {received}.")}


def _is_one_value(first: str, path: Path) -> bool:
    """Returns whether a file is a single JSON value that spans several lines, or a list."""
    begin = first.strip()
    if not begin.startswith("{") or ".jsonl" in path.name:
        return begin.startswith("[")
    return not begin.endswith("}")


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and value != [] and all(isinstance(row, dict) for row in value)


def _join_lines(path: Path, lines: Iterable[tuple[int, str]]) -> str:
    """Joins the lines of a single JSON value, and rejects a value that is too large."""
    texts, size = [], 0
    for _, line in lines:
        texts.append(line)
        size += len(line)
        if size > MAX_JSON_BYTES:
            raise too_large(path)
    return "".join(texts)


def _objects(content: Any, path: Path) -> list[dict[str, Any]]:
    if isinstance(content, dict):
        content = content.get("data", content)
    if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
        raise UserError(
            "A JSON file must be a list of objects, or contain one object per line. Received: "
            f"{path}, {short_repr(content)}."
        )
    return content


def read_value(text: str, location: str) -> Any:
    """Parses a JSON value.

    Raises:
        UserError: the text isn't JSON, or contains a lone surrogate, which UTF-8 can't encode.
    """
    try:
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = escaped(error.object[error.start])
        raise UserError(
            f"{location} contains {half}, which is half of a surrogate pair. Correct it, or remove "
            "it."
        ) from error
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{location} must be JSON: {error}. Received: {short_repr(text.strip())}. If the file "
            "was cut off, copy it again."
        ) from error
    return value

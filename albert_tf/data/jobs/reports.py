"""What is known of a finished file, and whether the file still is what it was."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from albert_tf.files import written_atomically


class FileReport(NamedTuple):
    """A file by its content."""

    file: str
    bytes: int
    sha256: str


def measure(path: Path) -> FileReport:
    """The report of a file.

    Raises:
        OSError: it can't be read.
    """
    digest, size = hashlib.sha256(), 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(1 << 20):
            digest.update(block)
            size += len(block)
    return FileReport(path.name, size, digest.hexdigest())


def is_right(path: Path, report: FileReport) -> bool:
    """Whether a file is there and as reported."""
    try:
        return path.stat().st_size == report.bytes and measure(path) == report
    except FileNotFoundError:
        return False


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes JSON, the same bytes for the same content; replaces what is there."""
    with written_atomically(path, force=True) as place:
        place.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any] | None:
    """What `write_json` wrote; None if it isn't there, or was cut short by a power failure."""
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) else None

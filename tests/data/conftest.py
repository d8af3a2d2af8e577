"""Functions that write files of examples, and read them as a task does."""

import gzip
import json
from pathlib import Path

from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.registry import task_of


def task(name, data=".", **options):
    return task_of(LabelledData(task=name, data=Path(data), **options))


def write(path, content):
    """Writes text, bytes, or JSON, and returns the path. A `.jsonl` file has one line per row."""
    if isinstance(content, list) and ".jsonl" in path.name:
        content = "".join(f"{json.dumps(row)}\n" for row in content)
    elif isinstance(content, list | dict):
        content = json.dumps(content)
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read(path, name="classify", labelled=True, **options):
    return task(name, path, **options).read(path, labelled)


def assert_read(path, expected, name="classify", **options):
    """Compares the examples of a file with their expected first fields."""
    found = read(path, name, **options)
    assert [row[: len(fields)] for row, fields in zip(found, expected, strict=True)] == expected

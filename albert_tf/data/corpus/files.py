"""The files of a corpus: found by globs and folders, here or in a bucket, opened as bytes."""

import glob
import gzip
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple, cast

from albert_tf.errors import UserError


class InputFile(NamedTuple):
    """A file of text.

    Attributes:
        path: where it is.
        name: its path within the common folder of all inputs, with "/" in any system. Documents
            are known by it, so that a corpus may be moved.
        size: bytes, as stored.
    """

    path: str
    name: str
    size: int


def find_inputs(patterns: Sequence[str | os.PathLike[str]]) -> list[InputFile]:
    """The files that paths, globs (`**` goes into folders) and folders stand for, sorted by name.

    In folders everything counts but names that start with a dot; links to folders aren't followed.
    A path with "://" is read by `tf.io.gfile`.

    Raises:
        UserError: a pattern without a file.
    """
    sizes: dict[str, int] = {}
    for pattern in [os.fspath(pattern) for pattern in patterns]:
        found = dict(_remote(pattern) if is_remote(pattern) else _local(pattern))
        if not found:
            raise UserError(
                f"An input must be a file, a folder of files, or a glob. Received: {pattern!r}, "
                "which matches no file. Mind the folder it is relative to, and its quotes."
            )
        sizes |= found
    folders = zip(*(path.split("/")[:-1] for path in sizes), strict=False)
    common = sum(1 for _ in itertools.takewhile(lambda names: len(set(names)) == 1, folders))
    files = [
        InputFile(path, "/".join(path.split("/")[common:]), size) for path, size in sizes.items()
    ]
    return sorted(files, key=lambda file: file.name)


def open_bytes(path: str) -> IO[bytes]:
    """A file to read bytes from, decompressed if its name ends in `.gz`.

    What isn't gzip, or is cut short, shows while it is read: EOFError, OSError or zlib.error.
    """
    if not is_remote(path):
        return cast(IO[bytes], gzip.open(path)) if is_gzip(path) else open(path, "rb")
    file = _gfile().GFile(path, "rb")
    return cast(IO[bytes], gzip.GzipFile(fileobj=file)) if is_gzip(path) else file


def is_remote(path: str) -> bool:
    """Whether a path is read by `tf.io.gfile`."""
    return "://" in path


def is_gzip(path: str) -> bool:
    """Whether a file is read through gzip."""
    return path.endswith(".gz")


def _local(pattern: str) -> Iterator[tuple[str, int]]:
    pattern = os.path.expanduser(pattern)
    matches = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
    for match in matches:
        for path in _walk(match) if os.path.isdir(match) else [match]:
            if os.path.isfile(path):
                yield os.path.abspath(path).replace(os.sep, "/"), os.path.getsize(path)


def _walk(folder: str) -> Iterator[str]:
    def stop(error: OSError) -> None:
        raise error  # a folder that can't be read isn't an empty one

    for inner, folders, names in os.walk(folder, onerror=stop):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(inner, name) for name in names if not name.startswith("."))


def _remote(pattern: str) -> Iterator[tuple[str, int]]:
    import tensorflow as tf

    gfile = _gfile()
    try:
        for match in gfile.glob(pattern.rstrip("/")):
            for path in _walk_remote(match) if gfile.isdir(match) else [match]:
                yield path, gfile.stat(path).length
    except tf.errors.OpError as error:
        raise UserError(
            f"An input must be readable by TensorFlow. Received: {pattern!r}: {error.message}"
        ) from error


def _walk_remote(folder: str) -> Iterator[str]:
    for inner, _, names in _gfile().walk(folder):
        parts = inner.removeprefix(folder).split("/")
        if not any(part.startswith(".") for part in parts):
            yield from (f"{inner.rstrip('/')}/{n}" for n in names if not n.startswith("."))


def _gfile() -> Any:
    """TensorFlow's file systems; imported when a path wants them, since it takes 500 MB."""
    import tensorflow as tf

    return tf.io.gfile

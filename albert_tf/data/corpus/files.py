"""The files of a corpus: found by globs and folders, here or at any URL that fsspec knows."""

import glob
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import IO, Any, Final, NamedTuple, cast

from albert_tf.errors import UserError
from albert_tf.files import fault

GZIP_RATIO: Final = 3  # bytes of text for a byte of .gz, about
_JSON_LINES: Final = (".jsonl", ".ndjson", ".json")
_PACKED: Final = (
    *(".bz2", ".xz", ".lzma", ".zst", ".lz4", ".br", ".gzip", ".snappy"),
    *(".zip", ".7z", ".rar", ".tar", ".tgz"),
)
READ_AHEAD: Final = 4 << 20  # bytes of a request; s3fs' own 50 MB exceed a part of the corpus


class InputFile(NamedTuple):
    """A file of text.

    Attributes:
        path: its path or URL.
        name: its path within the common folder of all inputs, with "/" in any system. It
            identifies the file's documents, so that a corpus may be moved.
        size: bytes, as stored.
    """

    path: str
    name: str
    size: int


def find_inputs(patterns: Sequence[str | os.PathLike[str]]) -> list[InputFile]:
    """Finds the files of paths, globs (`**` descends into folders) and folders, sorted by name.

    Skips names in folders that start with a dot, and doesn't follow links to folders. A file counts
    once, whatever links name it. fsspec reads a path with "://".

    Raises:
        UserError: a pattern without a file, or a URL that can't be reached.
    """
    sizes: dict[str, int] = {}
    for pattern in [os.fspath(pattern) for pattern in patterns]:
        matches = dict(_remote(pattern) if is_remote(pattern) else _local(pattern))
        if not matches:
            raise UserError(
                f"An input must be a file, a folder of files, or a glob. Received: {pattern!r}, "
                "which matches no file. Mind the folder it is relative to, and its quotes."
            )
        sizes |= matches
    paths: dict[str, str] = {}  # a link is left out where the file that it names is there, too
    for path in sorted(sizes, key=lambda path: (path != _real(path), path)):
        paths.setdefault(_real(path), path)
    sizes = {path: sizes[path] for path in paths.values()}
    folders = zip(*(path.split("/")[:-1] for path in sizes), strict=False)
    common = sum(1 for _ in itertools.takewhile(lambda names: len(set(names)) == 1, folders))
    files = [
        InputFile(path, "/".join(path.split("/")[common:]), size) for path, size in sizes.items()
    ]
    return sorted(files, key=lambda file: file.name)


def check_packing(path: str) -> None:
    """Refuses an archive, or a compression that isn't gzip, by its name."""
    if path.lower().removesuffix(".gz").endswith(_PACKED):
        raise UserError(
            f"Text must be in plain files, or in files of gzip (.gz). Received: {path}. Unpack it."
        )


def file_system(path: str) -> tuple[Any, str]:
    """Returns fsspec's file system of a path or URL, and the path within it.

    Raises:
        UserError: an unknown protocol, or its package is missing.
    """
    import fsspec  # on demand: the command line's help needs none

    if not is_remote(path):
        return fsspec.filesystem("file"), path  # url_to_fs takes "::" in a name for a chain
    try:
        return cast(tuple[Any, str], fsspec.core.url_to_fs(path))
    except (ImportError, ValueError) as error:
        raise UserError(
            f"A URL must be one that fsspec knows. Received: {path}: {str(error).rstrip('.')}. "
            "s3:// needs pip install 'albert_tf[s3]', gs:// pip install 'albert_tf[gcs]'."
        ) from error


def open_bytes(path: str) -> IO[bytes]:
    """Opens a file to read bytes, decompressed if its name ends in `.gz`.

    A damaged or truncated .gz raises EOFError, OSError or zlib.error while it is read.
    """
    files, inner = file_system(path)
    compression = "gzip" if is_gzip(path) else None
    opened = files.open(inner, "rb", block_size=READ_AHEAD, compression=compression)
    return cast(IO[bytes], opened)


def is_remote(path: str) -> bool:
    """Returns whether a path is a URL."""
    return "://" in path


def is_gzip(path: str) -> bool:
    """Returns whether a file is read through gzip."""
    return path.lower().endswith(".gz")


def is_json_lines(path: str) -> bool:
    """Returns whether a file of text has an object of JSON a line."""
    return path.lower().removesuffix(".gz").endswith(_JSON_LINES)


def text_bytes(file: InputFile) -> int:
    """Returns the bytes of text in a file: its size, or an estimate for a `.gz`."""
    return file.size * (GZIP_RATIO if is_gzip(file.path) else 1)


def _real(path: str) -> str:
    return path if is_remote(path) else os.path.realpath(path).replace(os.sep, "/")


def _local(pattern: str) -> Iterator[tuple[str, int]]:
    pattern = os.path.expanduser(pattern)
    matches = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
    for match in matches:
        for path in _walk(match) if os.path.isdir(match) else [match]:
            if not os.path.isfile(path):
                raise UserError(
                    f"An input must be a regular file. Received: {path}, which {fault(path)}. "
                    "Copy its text to a file, or leave it out."
                )
            yield os.path.abspath(path).replace(os.sep, "/"), os.path.getsize(path)


def _walk(folder: str) -> Iterator[str]:
    def stop(error: OSError) -> None:
        raise error  # a folder that can't be read isn't an empty one

    for inner, folders, names in os.walk(folder, onerror=stop):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(inner, name) for name in names if not name.startswith("."))


def _remote(pattern: str) -> Iterator[tuple[str, int]]:
    pattern = pattern.rstrip("/")
    files, root = file_system(pattern)
    host = pattern.removesuffix(root)
    try:
        for match in [root] if files.exists(root) else files.glob(root):
            for path, info in files.find(match, detail=True).items():
                inner = path.removeprefix(match).split("/")
                if not any(name.startswith(".") for name in inner):
                    yield host + path, info["size"]
    except Exception as error:  # each protocol has its own
        raise UserError(
            f"An input must be readable. Received: {pattern!r}: {type(error).__name__}: {error}"
        ) from error

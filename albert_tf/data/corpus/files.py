"""Finds and opens the files of a corpus, local or at any URL that fsspec supports."""

import glob
import gzip
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import IO, Any, Final, NamedTuple, cast

from albert_tf.errors import UserError
from albert_tf.files import fault

GZIP_RATIO: Final = 3  # approximate bytes of text per byte of .gz
_JSON_LINES: Final = (".jsonl", ".ndjson", ".json")
_PACKED: Final = (
    *(".bz2", ".xz", ".lzma", ".zst", ".lz4", ".br", ".gzip", ".snappy"),
    *(".zip", ".7z", ".rar", ".tar", ".tgz"),
)
READ_AHEAD: Final = 4 << 20  # bytes per request; s3fs's default, 50 MB, exceeds a corpus part


class InputFile(NamedTuple):
    """A text file.

    Attributes:
        path: path or URL.
        name: path relative to the common folder of all inputs, with "/" on every system. Documents
            are identified by this name, so a corpus can be moved.
        size: size of the stored file in bytes.
    """

    path: str
    name: str
    size: int


def find_inputs(patterns: Sequence[str | os.PathLike[str]]) -> list[InputFile]:
    """Returns the files that match paths, folders, or globs, sorted by name.

    In a glob, `**` matches any number of folders. Skips hidden files and folders, and doesn't
    follow links to folders. A file is listed once, even if several links point to it. Paths that
    contain "://" are read with fsspec.

    Raises:
        UserError: a pattern matches no file, or a URL can't be reached.
    """
    sizes: dict[str, int] = {}
    for pattern in [os.fspath(pattern) for pattern in patterns]:
        matches = dict(_remote(pattern) if is_remote(pattern) else _local(pattern))
        if not matches:
            raise UserError(
                f"No input file matches {pattern!r}. Check which folder the path is relative to, "
                "and quote globs."
            )
        sizes |= matches
    paths: dict[str, str] = {}  # skips a link whose target is also in the list
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
    """Rejects archives and compression formats other than gzip, based on the file name."""
    if path.lower().removesuffix(".gz").endswith(_PACKED):
        raise UserError(
            f"Text files must be plain or compressed with gzip (.gz). Received: {path}. Unpack it."
        )


def file_system(path: str) -> tuple[Any, str]:
    """Returns the fsspec file system for a path or URL, and the path within it.

    Raises:
        UserError: the protocol is unknown, or its package isn't installed.
    """
    import fsspec  # only when needed: --help should stay fast

    if not is_remote(path):
        return fsspec.filesystem("file"), path  # url_to_fs would read "::" in a name as a URL chain
    try:
        return cast(tuple[Any, str], fsspec.core.url_to_fs(path))
    except (ImportError, ValueError) as error:
        raise UserError(
            f"fsspec can't open the URL {path}: {str(error).rstrip('.')}. For s3://, run pip "
            "install 'albert_tf[s3]'; for gs://, pip install 'albert_tf[gcs]'."
        ) from error


def open_bytes(path: str) -> IO[bytes]:
    """Opens a file or a pipe for reading bytes, and decompresses it if its name ends in `.gz`.

    Reading a damaged or truncated `.gz` file raises EOFError, OSError, or zlib.error.
    """
    if not is_remote(path):  # fsspec would seek, which a pipe can't
        return cast(IO[bytes], gzip.open(path)) if is_gzip(path) else open(path, "rb")
    files, inner = file_system(path)
    compression = "gzip" if is_gzip(path) else None
    opened = files.open(inner, "rb", block_size=READ_AHEAD, compression=compression)
    return cast(IO[bytes], opened)


def is_remote(path: str) -> bool:
    """Returns whether a path is a URL."""
    return "://" in path


def is_gzip(path: str) -> bool:
    """Returns whether a file name ends in `.gz`."""
    return path.lower().endswith(".gz")


def is_json_lines(path: str) -> bool:
    """Returns whether a file contains one JSON object per line, judging by its name."""
    return path.lower().removesuffix(".gz").endswith(_JSON_LINES)


def text_bytes(file: InputFile) -> int:
    """Returns the number of text bytes in a file: its size, or an estimate for a `.gz` file."""
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
                    "Copy its text to a file, or exclude it."
                )
            yield os.path.abspath(path).replace(os.sep, "/"), os.path.getsize(path)


def _walk(folder: str) -> Iterator[str]:
    def stop(error: OSError) -> None:
        raise error  # os.walk would treat an unreadable folder as empty

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
    except Exception as error:  # each protocol raises its own errors
        raise UserError(
            f"The input {pattern!r} can't be read: {type(error).__name__}: {error}"
        ) from error

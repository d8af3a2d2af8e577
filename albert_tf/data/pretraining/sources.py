"""Files of pretraining records: those of `build-data`, and those of the original code."""

import hashlib
import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import fsspec
import tensorflow as tf
from google.protobuf.message import DecodeError

from albert_tf.data.corpus.files import file_system, find_inputs, is_remote
from albert_tf.data.pretraining.masking import WordTable
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.records import (
    MANIFEST,
    WORDS,
    decode,
    read_manifest,
    records_in,
)
from albert_tf.errors import UserError, listed
from albert_tf.files import read_bytes

Path = str | os.PathLike[str]
LARGEST_ID: Final = 2**31 - 1
CACHE: Final = pathlib.Path("~/.cache/albert_tf/records").expanduser()
_AT_ONCE: Final = 16  # parallel requests for sizes: object stores answer slowly


@dataclass(frozen=True)
class RecordFiles:
    """Files of records, all of `build-data` or all of the original code.

    Attributes:
        paths: paths or URLs.
        counts: number of records of each file.
        max_seq_length, predictions: T and P of an example.
        dynamic: options by which examples are masked while they are read; None if they are masked
            in the files, as the original's are.
        table: the vocabulary's words, for masking; None as well.
        vocab_size: ids are below it.
    """

    paths: tuple[str, ...]
    counts: tuple[int, ...]
    max_seq_length: int
    predictions: int
    dynamic: ExampleOptions | None = None
    table: WordTable | None = None
    vocab_size: int = LARGEST_ID

    def steps_per_epoch(self, batch_size: int) -> int:
        """Returns the number of full batches in an epoch.

        Raises:
            UserError: there is none.
        """
        steps = sum(self.counts) // batch_size
        if not steps:
            raise UserError(
                f"An epoch must have a batch. Received: {sum(self.counts)} records, "
                f"batch_size={batch_size}. Give a smaller batch_size, or more text to build-data."
            )
        return steps


def find_records(source: Path | Sequence[Path]) -> RecordFiles:
    """Finds the files of directories of `build-data`; or paths and globs of the original code's.

    Reads the latter once, to count their records. A path may be a URL: TensorFlow reads `gs://`,
    other files are downloaded to `CACHE` first.

    Raises:
        UserError: a directory isn't finished, or was built with other settings than the first; a
            file is missing, truncated, damaged, or contains something else.
    """
    sources = [source] if isinstance(source, str | os.PathLike) else source
    paths = [path for path_or_url in sources for path in _reachable(os.fspath(path_or_url))]
    if len(paths) == 1 and tf.io.gfile.isdir(paths[0]):
        return _of_directory(paths[0])
    built = [path for path in paths if tf.io.gfile.exists(f"{path}/{MANIFEST}")]
    if built and len(built) < len(paths):
        (other, *_) = (path for path in paths if path not in built)
        raise UserError(
            "Records must be directories of build-data, or files of the original code. Received: "
            f"both, {built[0]} and {other}."
        )
    if built:
        return _of_directories(built)
    return _of_files([file.path for file in find_inputs(paths)])


def _reachable(source: str) -> list[str]:
    """Returns the source itself, or its copies if TensorFlow doesn't know the URL's protocol."""
    if not is_remote(source) or source.split("://")[0] in tf.io.gfile.get_registered_schemes():
        return [source]
    files, inner = file_system(source)
    is_folder = files.isdir(inner)
    if is_folder and not files.exists(f"{inner}/{MANIFEST}"):
        raise _unfinished(source)
    folder = CACHE / hashlib.sha256(source.encode()).hexdigest()[:16]
    settings = {"cache_storage": str(folder), "same_names": True, "check_files": True}
    urls = [f"filecache::{file.path}" for file in find_inputs([source])]
    copies = fsspec.open_local(urls, mode="rb", filecache=settings)
    return [str(folder)] if is_folder else copies


def _of_directory(folder: str) -> RecordFiles:
    path = f"{folder}/{MANIFEST}"
    if not tf.io.gfile.exists(path):
        raise _unfinished(folder)
    manifest = read_manifest(_content(path), path)
    shards = manifest["shards"]
    paths = tuple(f"{folder}/{shard['file']}" for shard in shards)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(_check_size, paths, [shard["bytes"] for shard in shards]))
    options = ExampleOptions.from_dict(manifest["settings"]["examples"])
    table = _word_table(folder)
    return RecordFiles(
        paths,
        tuple(shard["records"] for shard in shards),
        options.max_seq_length,
        options.predictions,
        options,
        table,
        len(table.starts),
    )


def _of_directories(folders: list[str]) -> RecordFiles:
    """Returns the files of several directories, whose examples must be alike."""
    first, *others = map(_of_directory, folders)
    for folder, other in zip(folders[1:], others, strict=True):
        tables = [files.table.as_json() for files in (first, other) if files.table]
        if other.dynamic != first.dynamic or tables[0] != tables[1]:
            raise UserError(
                "Directories of records must have the same vocabulary and the same settings of "
                f"build-data. Received: {folders[0]} and {folder}, which differ."
            )
    return replace(
        first,
        paths=tuple(chain.from_iterable(files.paths for files in (first, *others))),
        counts=tuple(chain.from_iterable(files.counts for files in (first, *others))),
    )


def stored_records(path: str) -> Iterator[bytes]:
    """Yields the records of a file, which may be a URL.

    Raises:
        UserError: names the first record that is damaged or cut short.
    """
    with tf.io.gfile.GFile(path, "rb") as file:
        yield from records_in(file, file.size(), path)


def _content(path: str) -> bytes:
    if not is_remote(path):
        return read_bytes(path)
    with tf.io.gfile.GFile(path, "rb") as file:
        return bytes(file.read())


def _unfinished(folder: str) -> UserError:
    return UserError(
        f"A directory of records must be finished. Received: {folder}, without {MANIFEST}. "
        "Resume it with its build-data command; or, for files of the original code, give a glob: "
        f"{folder}/*.tfrecord."
    )


def _check_size(path: str, size: int) -> None:
    try:
        length = tf.io.gfile.stat(path).length
    except tf.errors.NotFoundError:
        length = None
    if length != size:
        raise UserError(
            f"A file of records must be as build-data wrote it: {size} bytes. Received: {path}, "
            f"{'which is missing' if length is None else f'{length} bytes'}. Copy it again, or "
            "give the build-data command again: it makes missing and damaged files."
        )


def _word_table(folder: str) -> WordTable:
    """Reads the table beside the records."""
    path = f"{folder}/{WORDS}"
    try:
        return WordTable.from_json(json.loads(_content(path)))
    except (
        tf.errors.NotFoundError,
        OSError,
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
    ) as error:
        raise UserError(
            f"{WORDS} must be build-data's. Received: {path}, which is missing, damaged or another "
            "one. Copy it again."
        ) from error


def _of_files(paths: list[str]) -> RecordFiles:
    """Returns files without a manifest, whose records are the original code's."""
    counts = tuple(sum(1 for _ in stored_records(path)) for path in paths)
    if not any(counts):
        raise UserError(f"There must be records. Received: none in {listed(paths)}.")
    first = next(path for path, count in zip(paths, counts, strict=True) if count)
    try:
        example = decode(next(stored_records(first)))
    except DecodeError as error:
        raise UserError(
            f"Records must be of tf.train.Example. Received: record 0 of {first}, which is none. "
            "Give files of albert-tf build-data or create_pretraining_data.py."
        ) from error
    length, predictions = (
        len(example.get(name, ())) for name in ("input_ids", "masked_lm_positions")
    )
    if not length or not predictions:
        raise UserError(
            "Records without a manifest must have input_ids and masked_lm_positions. Received: "
            f"{first} with {listed(sorted(example)) or 'no features'}. Give the directory that "
            "build-data wrote."
        )
    return RecordFiles(tuple(paths), counts, length, predictions)

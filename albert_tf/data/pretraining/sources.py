"""Finds files of pretraining records, written by `build-data` or by the original code."""

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
from albert_tf.data.pretraining.records import MANIFEST, WORDS, decode, read_manifest, records_in
from albert_tf.errors import UserError, listed
from albert_tf.files import read_bytes

Path = str | os.PathLike[str]
LARGEST_ID: Final = 2**31 - 1
CACHE: Final = pathlib.Path("~/.cache/albert_tf/records").expanduser()
_AT_ONCE: Final = 16  # parallel requests for file sizes, because object stores respond slowly


@dataclass(frozen=True)
class RecordFiles:
    """Record files, either all from `build-data` or all from the original code.

    Attributes:
        paths: paths or URLs.
        counts: number of records in each file.
        max_seq_length, predictions: T and P of an example.
        dynamic: options for masking examples as they are read; None for the original code's
            examples, which are already masked.
        table: word table, for masking; None for files from the original code.
        vocab_size: exclusive upper bound for token ids.
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
            UserError: there are fewer records than `batch_size`.
        """
        steps = sum(self.counts) // batch_size
        if not steps:
            raise UserError(
                f"{sum(self.counts)} records are too few for a batch of {batch_size}. Set a lower "
                "batch_size, or build more examples."
            )
        return steps


def find_records(source: Path | Sequence[Path]) -> RecordFiles:
    """Finds the record files of one or more sources.

    Args:
        source: one or more `build-data` directories, or paths or globs of the original code's
            files. The original code's files are read once to count their records. A path may be a
            URL: TensorFlow reads `gs://` directly, and other files are downloaded to `CACHE` first.
    Raises:
        UserError: a directory is incomplete, the settings of two directories differ, or a file is
            missing, truncated, damaged, or not a record file.
    """
    sources = [source] if isinstance(source, str | os.PathLike) else source
    paths = [path for path_or_url in sources for path in _download(os.fspath(path_or_url))]
    if len(paths) == 1 and tf.io.gfile.isdir(paths[0]):
        return _from_directory(paths[0])
    folders = [path for path in paths if tf.io.gfile.exists(f"{path}/{MANIFEST}")]
    if folders and len(folders) < len(paths):
        (other, *_) = (path for path in paths if path not in folders)
        raise UserError(
            "build-data directories and other record files can't be mixed. Received: "
            f"{folders[0]} and {other}."
        )
    if folders:
        return _from_directories(folders)
    return _from_files([file.path for file in find_inputs(paths)])


def _download(source: str) -> list[str]:
    """Returns the source, or its local copies if TensorFlow doesn't support the protocol."""
    if not is_remote(source) or source.split("://")[0] in tf.io.gfile.get_registered_schemes():
        return [source]
    files, inner = file_system(source)
    is_folder = files.isdir(inner)
    if is_folder and not files.exists(f"{inner}/{MANIFEST}"):
        raise _unfinished_error(source)
    folder = CACHE / hashlib.sha256(source.encode()).hexdigest()[:16]
    settings = {"cache_storage": str(folder), "same_names": True, "check_files": True}
    urls = [f"filecache::{file.path}" for file in find_inputs([source])]
    copies = fsspec.open_local(urls, mode="rb", filecache=settings)
    return [str(folder)] if is_folder else copies


def _from_directory(folder: str) -> RecordFiles:
    path = f"{folder}/{MANIFEST}"
    if not tf.io.gfile.exists(path):
        raise _unfinished_error(folder)
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


def _from_directories(folders: list[str]) -> RecordFiles:
    """Returns the files of several directories, which must have the same settings."""
    first, *others = map(_from_directory, folders)
    for folder, other in zip(folders[1:], others, strict=True):
        tables = [files.table.as_json() for files in (first, other) if files.table]
        if other.dynamic != first.dynamic or tables[0] != tables[1]:
            raise UserError(
                "Record directories that are read together must be built with the same vocabulary "
                f"and the same options. Received: {folders[0]} and {folder}, which differ."
            )
    return replace(
        first,
        paths=tuple(chain.from_iterable(files.paths for files in (first, *others))),
        counts=tuple(chain.from_iterable(files.counts for files in (first, *others))),
    )


def stored_records(path: str) -> Iterator[bytes]:
    """Yields the records of a file, which may be a URL.

    Raises:
        UserError: a record is damaged or truncated. The message names the first such record.
    """
    with tf.io.gfile.GFile(path, "rb") as file:
        yield from records_in(file, file.size(), path)


def _content(path: str) -> bytes:
    if not is_remote(path):
        return read_bytes(path)
    with tf.io.gfile.GFile(path, "rb") as file:
        return bytes(file.read())


def _unfinished_error(folder: str) -> UserError:
    return UserError(
        f"{folder} contains no {MANIFEST}. If build-data was interrupted, rerun its command; for "
        f"files from the original code, pass a glob: {folder}/*.tfrecord."
    )


def _check_size(path: str, size: int) -> None:
    try:
        length = tf.io.gfile.stat(path).length
    except tf.errors.NotFoundError:
        length = None
    if length != size:
        raise UserError(
            f"{path} {'is missing' if length is None else f'has {length} bytes'}, but build-data "
            f"wrote {size} bytes. Copy it again, or rerun the build-data command to restore it."
        )


def _word_table(folder: str) -> WordTable:
    """Reads the word table in the same folder as the records."""
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
            f"{path} is missing or damaged, or was not written by build-data. Copy {WORDS} again."
        ) from error


def _from_files(paths: list[str]) -> RecordFiles:
    """Returns record files from the original code, which have no manifest."""
    counts = tuple(sum(1 for _ in stored_records(path)) for path in paths)
    if not any(counts):
        raise UserError(f"No records in {listed(paths)}.")
    first = next(path for path, count in zip(paths, counts, strict=True) if count)
    try:
        example = decode(next(stored_records(first)))
    except DecodeError as error:
        raise UserError(
            f"Record 0 of {first} is not a tf.train.Example. Pass files written by "
            "create_pretraining_data.py, or the output folder of albert-tf build-data."
        ) from error
    length, predictions = (
        len(example.get(name, ())) for name in ("input_ids", "masked_lm_positions")
    )
    if not length or not predictions:
        raise UserError(
            "Records without a manifest must have input_ids and masked_lm_positions. Received: "
            f"{first} with {listed(sorted(example)) or 'no features'}. If build-data wrote them, "
            "pass its output folder instead."
        )
    return RecordFiles(tuple(paths), counts, length, predictions)

"""Files of pretraining records: those of `build-data`, and those of the original code."""

import hashlib
import json
import os
import pathlib
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import fsspec
import tensorflow as tf
from google.protobuf.message import DecodeError

from albert_tf.data.corpus.files import file_system, find_inputs, is_remote
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.records import MANIFEST, WORDS
from albert_tf.data.pretraining.words import WordTable, word_table
from albert_tf.errors import UserError, listed
from albert_tf.files import read_bytes
from albert_tf.text.tokenizer import AlbertTokenizer

Path = str | os.PathLike[str]
CACHE: Final = pathlib.Path("~/.cache/albert_tf/records").expanduser()
_AT_ONCE: Final = 16  # parallel requests for sizes: object stores answer slowly


@dataclass(frozen=True)
class RecordFiles:
    """Files of records, all in one mode.

    Attributes:
        paths: paths or URLs.
        counts: number of records of each.
        max_seq_length, predictions: T and P of an example.
        dynamic: options by which examples are masked while they are read; None in static mode.
        table: the vocabulary's words, for masking; None in static mode.
    """

    paths: tuple[str, ...]
    counts: tuple[int, ...]
    max_seq_length: int
    predictions: int
    dynamic: ExampleOptions | None = None
    table: WordTable | None = None

    def steps_per_epoch(self, batch_size: int, workers: int = 1) -> int:
        """Returns the number of full batches of each worker in an epoch.

        Raises:
            UserError: there is none.
        """
        steps = sum(self.counts) // workers // batch_size
        if not steps:
            raise UserError(
                "An epoch must have a batch for each worker. Received: "
                f"{sum(self.counts)} records, batch_size={batch_size}, workers={workers}. "
                "Give a smaller batch_size, or more text to build-data."
            )
        return steps


def find_records(source: Path | Sequence[Path]) -> RecordFiles:
    """Finds the files of a directory of `build-data`; or paths and globs of the original code's.

    Reads the latter once, to count their records. A path may be a URL: TensorFlow reads `gs://`,
    other files are downloaded to `CACHE` first.

    Raises:
        UserError: the directory isn't finished; a file is missing, truncated, damaged, or contains
            something else.
    """
    sources = [source] if isinstance(source, str | os.PathLike) else source
    paths = [path for each in sources for path in _reachable(os.fspath(each))]
    if len(paths) == 1 and tf.io.gfile.isdir(paths[0]):
        return _of_directory(paths[0])
    return _of_files([file.path for file in find_inputs(paths)])


def _reachable(source: str) -> list[str]:
    """The source itself, or its copies if TensorFlow doesn't know the protocol of its URL."""
    if not is_remote(source) or source.split("://")[0] in tf.io.gfile.get_registered_schemes():
        return [source]
    files, place = file_system(source)
    is_folder = files.isdir(place)
    if is_folder and not files.exists(f"{place}/{MANIFEST}"):
        raise _unfinished(source)
    folder = CACHE / hashlib.sha256(source.encode()).hexdigest()[:16]
    settings = {"cache_storage": str(folder), "same_names": True, "check_files": True}
    urls = [f"filecache::{file.path}" for file in find_inputs([source])]
    copies = fsspec.open_local(urls, mode="rb", filecache=settings)
    return [str(folder)] if is_folder else copies


def _of_directory(folder: str) -> RecordFiles:
    manifest = _manifest(folder)
    shards = manifest["shards"]
    paths = tuple(f"{folder}/{shard['file']}" for shard in shards)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(_check_size, paths, [shard["bytes"] for shard in shards]))
    options = ExampleOptions.from_dict(manifest["settings"]["examples"])
    is_dynamic = options.mode == "dynamic"
    return RecordFiles(
        paths,
        tuple(shard["records"] for shard in shards),
        options.max_seq_length,
        options.predictions,
        options if is_dynamic else None,
        _word_table(folder) if is_dynamic else None,
    )


def _manifest(folder: str) -> dict[str, Any]:
    path = f"{folder}/{MANIFEST}"
    if not tf.io.gfile.exists(path):
        raise _unfinished(folder)
    content = _content(path)
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not {"settings", "shards"} <= found.keys():
        raise UserError(
            f"{MANIFEST} must be build-data's. Received: {path}, which is damaged or another one. "
            "Copy it again."
        )
    return found


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
        found = tf.io.gfile.stat(path).length
    except tf.errors.NotFoundError:
        found = None
    if found != size:
        raise UserError(
            f"A file of records must be as build-data wrote it: {size} bytes. Received: {path}, "
            f"{'which is missing' if found is None else f'{found} bytes'}. Copy it again, or give "
            "the build-data command again: it makes missing and damaged files."
        )


def _word_table(folder: str) -> WordTable:
    """Reads the table beside the records, or makes it if an earlier version wrote them."""
    path = f"{folder}/{WORDS}"
    if tf.io.gfile.exists(path):
        return WordTable.from_json(json.loads(_content(path)))
    if not is_remote(folder):
        return word_table(AlbertTokenizer.from_pretrained(folder))
    with tempfile.TemporaryDirectory() as copied:
        for name in tf.io.gfile.listdir(folder):
            if not name.endswith((".tfrecord", "/")):
                tf.io.gfile.copy(f"{folder}/{name}", f"{copied}/{name}")
        return word_table(AlbertTokenizer.from_pretrained(copied))


def _of_files(paths: list[str]) -> RecordFiles:
    """Files without a manifest: records in static mode."""
    counts = tuple(map(_count, paths))
    if not any(counts):
        raise UserError(f"There must be records. Received: none in {listed(paths)}.")
    first = next(path for path, count in zip(paths, counts, strict=True) if count)
    record = next(iter(tf.data.TFRecordDataset(first))).numpy()
    try:
        features = tf.train.Example.FromString(record).features.feature
    except DecodeError as error:
        raise UserError(f"Records must be of tf.train.Example. Received: {first}.") from error
    names = ", ".join(sorted(features))  # before a look at one that is missing adds it
    length, predictions = (
        len(features[name].int64_list.value) for name in ("input_ids", "masked_lm_positions")
    )
    if not length or not predictions:
        raise UserError(
            "Records without a manifest must have input_ids and masked_lm_positions. Received: "
            f"{first} with {names}. Give the directory that build-data wrote."
        )
    return RecordFiles(tuple(paths), counts, length, predictions)


def _count(path: str) -> int:
    one = tf.constant(1, tf.int64)
    try:
        return int(tf.data.TFRecordDataset(path).reduce(one * 0, lambda count, _: count + one))
    except tf.errors.DataLossError as error:
        raise UserError(
            f"Records must be whole. Received: {path}, which is damaged, cut short or not a "
            "TFRecord file. Copy it again, or give the folder that build-data wrote."
        ) from error

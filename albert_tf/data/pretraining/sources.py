"""Files of pretraining records: those of `build-data`, and those of the original code."""

import json
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf
from google.protobuf.message import DecodeError

from albert_tf.data.corpus.files import find_inputs, is_remote
from albert_tf.data.pretraining.masking import WordTable, word_table
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.records import MANIFEST
from albert_tf.errors import UserError
from albert_tf.text.tokenizer import AlbertTokenizer

Path = str | os.PathLike[str]
_AT_ONCE: Final = 16  # files that are asked for their size side by side; buckets answer slowly


@dataclass(frozen=True)
class RecordFiles:
    """Files of records, all of one kind.

    Attributes:
        paths: where they are.
        counts: records of each.
        max_seq_length, predictions: T and P of an example.
        dynamic: how examples are masked while they are read; None if they were masked ahead.
        table: what masking needs of the vocabulary; None like `dynamic`.
    """

    paths: tuple[str, ...]
    counts: tuple[int, ...]
    max_seq_length: int
    predictions: int
    dynamic: ExampleOptions | None = None
    table: WordTable | None = None

    def steps_per_epoch(self, batch_size: int, workers: int = 1) -> int:
        """Full batches of each worker in an epoch.

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
    """The files of a directory of `build-data`; or of paths and globs, as the original code wrote.

    The latter are read once, to count their records.

    Raises:
        UserError: the directory isn't finished; a file is missing, cut short, damaged, or of
            something else.
    """
    if isinstance(source, str | os.PathLike):
        folder = os.fspath(source)
        if tf.io.gfile.isdir(folder):
            return _of_directory(folder)
        source = [source]
    return _of_files([file.path for file in find_inputs(source)])


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
        word_table(_tokenizer(folder)) if is_dynamic else None,
    )


def _manifest(folder: str) -> dict[str, Any]:
    path = f"{folder}/{MANIFEST}"
    if not tf.io.gfile.exists(path):
        raise UserError(
            f"A directory of records must be finished. Received: {folder}, without {MANIFEST}. "
            "Give the build-data command again and it goes on; or, for files of the original "
            f"code, a glob: {folder}/*.tfrecord."
        )
    with tf.io.gfile.GFile(path) as file:
        content = file.read()
    try:
        found = json.loads(content)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or not {"settings", "shards"} <= found.keys():
        raise UserError(
            f"{MANIFEST} must be that of build-data. Received: {path}, which is damaged or another "
            "one. Copy it again."
        )
    return found


def _check_size(path: str, size: int) -> None:
    try:
        found = tf.io.gfile.stat(path).length
    except tf.errors.NotFoundError:
        found = None
    if found != size:
        raise UserError(
            f"A file of records must be as build-data wrote it: {size} bytes. Received: {path}, "
            f"{'which is missing' if found is None else f'{found} bytes'}. Copy it again, or give "
            f"the build-data command again without {MANIFEST}: it makes what is missing."
        )


def _tokenizer(folder: str) -> Any:
    if not is_remote(folder):
        return AlbertTokenizer.from_pretrained(folder)
    with tempfile.TemporaryDirectory() as copied:
        for name in tf.io.gfile.listdir(folder):
            if not name.endswith((".tfrecord", "/")):
                tf.io.gfile.copy(f"{folder}/{name}", f"{copied}/{name}")
        return AlbertTokenizer.from_pretrained(copied)


def _of_files(paths: list[str]) -> RecordFiles:
    """Files without a manifest: records that were masked ahead."""
    counts = tuple(map(_count, paths))
    if not any(counts):
        raise UserError(f"There must be records. Received: none in {', '.join(paths)}.")
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
            f"A TFRecord file must be whole. Received: {path}: {error.message}. Copy it again."
        ) from error

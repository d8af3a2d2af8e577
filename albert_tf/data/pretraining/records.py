"""TFRecord files of `tf.train.Example` without TensorFlow, which takes 0.5 GB in every worker.

Sources: TensorFlow's "TFRecord and tf.train.Example" for the files, its example.proto and
feature.proto for the messages, protobuf.dev's "Encoding" for their bytes.
"""

import json
import math
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import IO, Any, Final

import google_crc32c
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from albert_tf.data.pretraining.options import SPECIAL_COUNT
from albert_tf.errors import UserError, listed, short_repr

MANIFEST: Final = "manifest.json"  # describes the files of records beside it
WORDS: Final = "words.json"  # the vocabulary's `masking.WordTable`
RULE: Final = "Records must be"  # the beginning of every message about records
_MASK: Final = 0xA282EAD8
_HEADER: Final = struct.Struct("<QI")
_CHECKSUM: Final = struct.Struct("<I")
Features = Mapping[str, Iterable[int] | Iterable[float]]
# TensorFlow's classes of these messages come with TensorFlow only, and generated ones of our own
# would depend on protobuf's version. So protobuf makes them from this description.
_MESSAGES: Final = """
name: "albert_tf/example.proto" package: "albert_tf" syntax: "proto3"
message_type { name: "BytesList"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
message_type { name: "FloatList"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT } }
message_type { name: "Int64List"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
message_type { name: "Feature" oneof_decl { name: "kind" }
  field { name: "bytes_list" number: 1 oneof_index: 0 type_name: "BytesList" }
  field { name: "float_list" number: 2 oneof_index: 0 type_name: "FloatList" }
  field { name: "int64_list" number: 3 oneof_index: 0 type_name: "Int64List" } }
message_type { name: "Features"
  field { name: "feature" number: 1 label: LABEL_REPEATED type_name: "Features.FeatureEntry" }
  nested_type { name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type_name: "Feature" } } }
message_type { name: "Example"
  field { name: "features" number: 1 label: LABEL_OPTIONAL type_name: "Features" } }
"""


def encode(features: Features) -> bytes:
    """Returns a serialized `tf.train.Example`; lists that begin with a float are of floats."""
    example = _example_class()()
    by_name = example.features.feature
    for name, values in features.items():
        listed = values if isinstance(values, list) else list(values)
        list_name = "float_list" if listed and isinstance(listed[0], float) else "int64_list"
        getattr(by_name[name], list_name).value.extend(listed)
    return example.SerializeToString(deterministic=True)


def decode(record: bytes) -> dict[str, list[Any]]:
    """Returns the features of a serialized `tf.train.Example`."""
    example = _example_class().FromString(record)
    return {
        name: list(getattr(feature, feature.WhichOneof("kind") or "int64_list").value)
        for name, feature in sorted(example.features.feature.items())
    }


@cache
def _example_class() -> Any:
    """Returns the class of `tf.train.Example`, by its field numbers: the bytes are the same."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(_MESSAGES, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("albert_tf.Example"))


_ROW: Final = ("input_ids", "input_mask", "segment_ids")
_PREDICTED: Final = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
_SEGMENTS: Final = ("segment_a", "segment_b")
_LABEL: Final = "next_sentence_labels"
_LABELS: Final = (0, 1, -100)  # -100: none
LARGEST_ID: Final = 2**31 - 1


def check_example(
    example: Mapping[str, Sequence[Any]],
    name: str,
    is_masked: bool,
    length: int | None = None,
    predictions: int | None = None,
    vocab_size: int = LARGEST_ID,
) -> None:
    """Refuses an example that build-data, or the original code if it is masked, wouldn't write.

    Args:
        example: its features.
        name: name of the record, for the message.
        length, predictions: T and P; by default the example's own.
        vocab_size: ids are below it.
    Raises:
        UserError: a feature is missing, has another type or size, or a value out of its range.
    """
    fault = _fault(example, is_masked, length, predictions, vocab_size)
    if fault:
        raise UserError(
            f"{RULE} examples for pretraining, all of one size. Received: {name}, with {fault}. "
            "Make them with albert-tf build-data, or copy them again."
        )


def _fault(
    example: Mapping[str, Sequence[Any]],
    is_masked: bool,
    length: int | None,
    predictions: int | None,
    vocab_size: int,
) -> str | None:
    """Returns the first fault of an example."""
    names = (*_ROW, *_PREDICTED, _LABEL) if is_masked else (*_SEGMENTS, _LABEL)
    if missing := [name for name in names if name not in example]:
        return f"{listed(sorted(example)) or 'no features'}, and no {listed(missing)}"
    for name in names:
        number_type = float if name == "masked_lm_weights" else int
        if not all(isinstance(value, number_type) for value in example[name]):
            return f"{name} of another type"
    if len(example[_LABEL]) != 1 or example[_LABEL][0] not in _LABELS:
        return f"{_LABEL} {short_repr(list(example[_LABEL]))}"
    if is_masked:
        length, predictions = (
            size or len(example[name])
            for size, name in ((length, _ROW[0]), (predictions, _PREDICTED[0]))
        )
        sizes = {**dict.fromkeys(_ROW, length), **dict.fromkeys(_PREDICTED, predictions)}
        for name, size in sizes.items():
            if len(example[name]) != size:
                return f"{len(example[name]):,} values of {name} instead of {size:,}"
        if not all(weight >= 0 and math.isfinite(weight) for weight in example[_PREDICTED[2]]):
            return f"{_PREDICTED[2]} that aren't 0 or more"
    elif not all(example[name] for name in _SEGMENTS):
        return "an empty segment"
    elif length and sum(len(example[name]) for name in _SEGMENTS) + SPECIAL_COUNT > length:
        return f"more pieces than max_seq_length, {length:,}"
    limits = {
        **dict.fromkeys(("input_ids", "masked_lm_ids", *_SEGMENTS), vocab_size),
        **dict.fromkeys(("input_mask", "segment_ids"), 2),
        "masked_lm_positions": length,
    }
    for name, limit in limits.items():
        values = example.get(name, ())
        if limit and not all(0 <= value < limit for value in values):
            return f"{name} outside of 0 to {limit - 1:,}"
    return None


def read_manifest(content: bytes | str, path: str) -> dict[str, Any]:
    """Reads a manifest.

    Args:
        path: of the file, for the message.
    Raises:
        UserError: it isn't one of build-data.
    """
    try:
        manifest = json.loads(content)
        shards = [(shard["file"], shard["records"], shard["bytes"]) for shard in manifest["shards"]]
        is_ours = isinstance(manifest["settings"]["examples"], dict) and all(
            isinstance(name, str)
            and not {"/", "\\", ":"} & set(name)
            and all(type(count) is int and 0 <= count < 2**63 for count in counts)
            for name, *counts in shards
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        is_ours = False
    if not is_ours:
        raise UserError(
            f"{MANIFEST} must be build-data's. Received: {path}, which is damaged or another one. "
            "Copy it again."
        )
    return dict(manifest)


def frame(record: bytes) -> bytes:
    """Returns a record's bytes in a file: its length, the record, and a checksum after each."""
    length = struct.pack("<Q", len(record))
    return length + _checksum(length) + record + _checksum(record)


def read_records(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yields the records of a file.

    Raises:
        UserError: a record is damaged or cut short; the message names the file and the record.
    """
    with open(path, "rb") as file:
        yield from records_in(file, os.fstat(file.fileno()).st_size, os.fspath(path))


def records_in(file: IO[bytes], size: int, name: str) -> Iterator[bytes]:
    """Yields the records of an open file of `size` bytes; see `read_records`."""
    number, left = 0, size
    while header := file.read(_HEADER.size):
        left -= len(header)
        record = _record(file, header, left, f"record {number} of {name}")
        left -= len(record) + _CHECKSUM.size
        number += 1
        yield record


def _record(file: IO[bytes], header: bytes, left: int, name: str) -> bytes:
    if len(header) < _HEADER.size or _checksum(header[:8]) != header[8:]:
        raise _damaged(name)
    (size, _) = _HEADER.unpack(header)
    if size > left:
        raise _damaged(name)
    record, checksum = file.read(size), file.read(_CHECKSUM.size)
    if _checksum(record) != checksum:
        raise _damaged(name)
    return record


def _damaged(name: str) -> UserError:
    return UserError(
        f"{RULE} whole. Received: {name}, which is damaged, cut short, or not of a "
        "TFRecord file. Run the build-data command that wrote it again: it repairs the file."
    )


def _checksum(content: bytes) -> bytes:
    crc = google_crc32c.value(content)
    return _CHECKSUM.pack(((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF)

"""Reads and writes TFRecord files of `tf.train.Example` without TensorFlow.

TensorFlow would need 0.5 GB of memory in every worker.

Sources: TensorFlow's "TFRecord and tf.train.Example" for the files, its example.proto and
feature.proto for the messages, protobuf.dev's "Encoding" for their bytes.
"""

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import IO, Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from albert_tf.errors import UserError
from albert_tf.files import masked_crc

MANIFEST: Final = "manifest.json"  # describes the record files in the same folder
WORDS: Final = "words.json"  # the vocabulary's `masking.WordTable`
_HEADER: Final = struct.Struct("<QI")
_CHECKSUM: Final = struct.Struct("<I")
Features = Mapping[str, Iterable[int] | Iterable[float]]
# The classes for these messages come only with TensorFlow, and generating our own would tie us to a
# protobuf version. So protobuf builds them from this description at run time.
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
    """Serializes a `tf.train.Example`. A list is stored as floats if its first item is a float."""
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
    """Returns a message class that writes the same bytes as `tf.train.Example`."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(_MESSAGES, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("albert_tf.Example"))


def read_manifest(content: bytes | str, path: str) -> dict[str, Any]:
    """Reads a manifest.

    Raises:
        UserError: the manifest is damaged, or wasn't written by build-data.
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
            f"{path} is damaged, or was not written by build-data. Copy {MANIFEST} again."
        )
    return dict(manifest)


def frame(record: bytes) -> bytes:
    """Returns a record as stored in a file: its length and the record, each with a checksum."""
    length = struct.pack("<Q", len(record))
    return length + _checksum(length) + record + _checksum(record)


def records_in(file: IO[bytes], size: int, name: str) -> Iterator[bytes]:
    """Yields the records of an open file of `size` bytes.

    Raises:
        UserError: a record is damaged or truncated. The message contains `name` and the record.
    """
    number, left = 0, size
    while header := file.read(_HEADER.size):
        left -= len(header)
        record = _record(file, header, left, f"Record {number} of {name}")
        left -= len(record) + _CHECKSUM.size
        number += 1
        yield record


def _record(file: IO[bytes], header: bytes, left: int, name: str) -> bytes:
    if len(header) < _HEADER.size or _checksum(header[:8]) != header[8:]:
        raise _damage_error(name)
    (size, _) = _HEADER.unpack(header)
    if size > left:
        raise _damage_error(name)
    record, checksum = file.read(size), file.read(_CHECKSUM.size)
    if _checksum(record) != checksum:
        raise _damage_error(name)
    return record


def _damage_error(name: str) -> UserError:
    return UserError(
        f"{name} is damaged or truncated, or the file isn't in TFRecord format. To repair it, "
        "rerun the build-data command that wrote it."
    )


def _checksum(content: bytes) -> bytes:
    return _CHECKSUM.pack(masked_crc(content))

"""TFRecord files of `tf.train.Example`, without TensorFlow: a worker's memory has no room for it.

Source: the format's description in TensorFlow's documentation (TFRecord and tf.train.Example).
"""

import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import IO, Any, Final

import google_crc32c
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from albert_tf.errors import UserError

MANIFEST: Final = "manifest.json"  # beside files of records, says what they are
_MASK: Final = 0xA282EAD8
_HEADER: Final = struct.Struct("<QI")
_CHECKSUM: Final = struct.Struct("<I")
Features = Mapping[str, Iterable[int] | Iterable[float]]


def encode(features: Features) -> bytes:
    """A serialized `tf.train.Example`; lists that begin with a float are of floats."""
    example = _example_class()()
    by_name = example.features.feature
    for name, values in features.items():
        listed = values if isinstance(values, list) else list(values)
        kind = "float_list" if listed and isinstance(listed[0], float) else "int64_list"
        getattr(by_name[name], kind).value.extend(listed)
    return example.SerializeToString(deterministic=True)


def encode_rows(columns: Mapping[str, np.ndarray]) -> Iterator[bytes]:
    """`encode` for each row of features `[R, K]`, K > 0: the same bytes, ten times faster.

    Args:
        columns: arrays of integers, of truth values (0 or 1), or of floats.
    """
    names = sorted(columns)
    packed = [_packed(columns[name]) for name in names]
    kinds = [columns[name].dtype.kind == "f" for name in names]
    for row in zip(*packed, strict=True):
        parts: list[bytes] = []
        for name, is_float, content in zip(names, kinds, row, strict=True):
            parts += (_header(name, is_float, len(content)), content)
        features = b"".join(parts)
        yield b"\n" + _varint(len(features)) + features


def _packed(column: np.ndarray) -> list[bytes]:
    """The values of each row as the format packs them: floats, or 7 bits a byte, low ones first."""
    if column.dtype.kind in "fb":
        return [row.tobytes() for row in (column.astype("<f4") if column.dtype != bool else column)]
    values = column.astype(np.int64, copy=False).view(np.uint64)
    largest = int(values.max(initial=0))
    if largest < 128:
        return [row.tobytes() for row in values.astype(np.uint8)]
    if largest < 2**32:
        values = values.astype(np.uint32)  # half the memory to go through
    content = np.empty((*values.shape, -(-largest.bit_length() // 7)), np.uint8)
    is_there = np.empty(content.shape, bool)
    for group in range(content.shape[-1]):
        rest = values >> values.dtype.type(7)
        content[..., group] = (values & values.dtype.type(127)) + 128 * (rest > 0)
        is_there[..., group] = (values > 0) | (group == 0)
        values = rest
    stream, ends = content[is_there].tobytes(), np.cumsum(is_there.sum(axis=(1, 2))).tolist()
    return [stream[start:end] for start, end in pairwise([0, *ends])]


@cache
def _header(name: str, is_float: bool, size: int) -> bytes:
    """What stands before the packed values of a feature: four messages, each in the next."""
    key = b"\n" + _varint(len(name)) + name.encode()
    header = b"\n" + _varint(size)
    for tag in (b"\x12" if is_float else b"\x1a", b"\x12"):
        header = tag + _varint(len(header) + size) + header
    return b"\n" + _varint(len(key) + len(header) + size) + key + header


@cache
def _varint(number: int) -> bytes:
    low, high = number & 127, number >> 7
    return bytes([low | 128]) + _varint(high) if high else bytes([low])


def decode(record: bytes) -> dict[str, list[Any]]:
    """The features of a serialized `tf.train.Example`."""
    example = _example_class().FromString(record)
    return {
        name: list(getattr(feature, feature.WhichOneof("kind") or "int64_list").value)
        for name, feature in sorted(example.features.feature.items())
    }


def frame(record: bytes) -> bytes:
    """A record as it stands in a file: its length, its bytes, and a checksum of each."""
    length = struct.pack("<Q", len(record))
    return length + _checksum(length) + record + _checksum(record)


def read_records(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """The records of a file.

    Raises:
        UserError: one is damaged or cut short; the message tells the file and which.
    """
    with open(path, "rb") as file:
        number = 0
        while header := file.read(_HEADER.size):
            yield _record(file, header, f"record {number} of {path}")
            number += 1


def _record(file: IO[bytes], header: bytes, name: str) -> bytes:
    if len(header) < _HEADER.size or _checksum(header[:8]) != header[8:]:
        raise _damaged(name)
    (size, _) = _HEADER.unpack(header)
    record, checksum = file.read(size), file.read(_CHECKSUM.size)
    if _checksum(record) != checksum:
        raise _damaged(name)
    return record


def _damaged(name: str) -> UserError:
    return UserError(
        f"Records must be whole. Received: {name}, which is damaged, cut short, or of no TFRecord "
        "file. The build-data command that made it mends it when it is given again."
    )


def _checksum(content: bytes) -> bytes:
    crc = google_crc32c.value(content)
    return _CHECKSUM.pack(((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF)


@cache
def _example_class() -> Any:
    """`tf.train.Example`, by field numbers alone: the bytes are the same."""
    file = descriptor_pb2.FileDescriptorProto(
        name="albert_tf/example.proto", package="albert_tf", syntax="proto3"
    )
    field = descriptor_pb2.FieldDescriptorProto
    repeated, single = field.LABEL_REPEATED, field.LABEL_OPTIONAL

    def message(name: str, *fields: tuple[str, int, int, Any]) -> Any:
        made = file.message_type.add(name=name)
        for field_name, number, label, kind in fields:
            one = made.field.add(name=field_name, number=number, label=label)
            if isinstance(kind, str):
                one.type, one.type_name = field.TYPE_MESSAGE, f".albert_tf.{kind}"
            else:
                one.type = kind
        return made

    message("BytesList", ("value", 1, repeated, field.TYPE_BYTES))
    message("FloatList", ("value", 1, repeated, field.TYPE_FLOAT))
    message("Int64List", ("value", 1, repeated, field.TYPE_INT64))
    feature = message(
        "Feature",
        ("bytes_list", 1, single, "BytesList"),
        ("float_list", 2, single, "FloatList"),
        ("int64_list", 3, single, "Int64List"),
    )
    feature.oneof_decl.add(name="kind")
    for one in feature.field:
        one.oneof_index = 0
    features = message("Features", ("feature", 1, repeated, "Features.FeatureEntry"))
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=single, type=field.TYPE_STRING)
    entry.field.add(
        name="value",
        number=2,
        label=single,
        type=field.TYPE_MESSAGE,
        type_name=".albert_tf.Feature",
    )
    message("Example", ("features", 1, single, "Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("albert_tf.Example"))

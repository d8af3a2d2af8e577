"""Indexes with right checksums and wrong entries; some of them end TensorFlow's process."""

import struct

import google_crc32c
import numpy as np
import pytest
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import tensor_bundle_pb2

from albert_tf.checkpoints import bundle_index
from albert_tf.checkpoints.tf_checkpoint import find_prefix, read_variables, write_variables
from albert_tf.errors import UserError

VARIABLES = {f"layer_{number}/kernel": np.full((2, 3), number, "float32") for number in range(40)}
NAME = b"layer_7/kernel"


@pytest.fixture
def prefix(tmp_path):
    write_variables(tmp_path / "model.ckpt", VARIABLES)
    return tmp_path / "model.ckpt"


def number(value):
    found = b""
    while value > 0x7F:
        found, value = found + bytes([value & 0x7F | 0x80]), value >> 7
    return found + bytes([value])


def block(entries):
    """A block in which every key is whole, with its compression and checksum."""
    content, restarts = b"", []
    for key, value in entries:
        restarts.append(len(content))
        content += number(0) + number(len(key)) + number(len(value)) + key + value
    content += struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts)) + b"\0"
    crc = google_crc32c.value(content)
    return content + struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def write_index(path, entries):
    content, places = b"", []
    for part in (block(sorted(entries.items())), block([])):
        places.append(number(len(content)) + number(len(part) - 5))
        content += part
    index = block([(max(entries) + b"\xff", places[0])])
    places.append(number(len(content)) + number(len(index) - 5))
    footer = (places[1] + places[2]).ljust(40, b"\0")
    path.write_bytes(content + index + footer + struct.pack("<Q", 0xDB4775248B80FB57))


def change(prefix, edit):
    """Edits the header and one entry of an index."""
    path = prefix.with_name(f"{prefix.name}.index")
    entries = dict(bundle_index._entries(path.read_bytes()))
    header = tensor_bundle_pb2.BundleHeaderProto.FromString(entries[b""])
    entry = tensor_bundle_pb2.BundleEntryProto.FromString(entries[NAME])
    edit(header, entry)
    entries |= {b"": header.SerializeToString(), NAME: entry.SerializeToString()}
    write_index(path, entries)


def shape(*sizes):
    def edit(header, entry):
        del entry.shape.dim[:]
        for size in sizes:
            entry.shape.dim.add(size=size)

    return edit


def test_an_unchanged_index_is_read(prefix):
    change(prefix, lambda header, entry: None)
    found = read_variables(prefix)
    assert found.keys() == VARIABLES.keys()
    for name, expected in VARIABLES.items():
        np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (shape(-5, 3), r"has the shape \[-5, 3\]"),
        (shape(2**40, 2**40), "has the shape"),
        (shape(2**40, 2**40, 0), "has the shape"),
        (shape(*[1] * 255), "has the shape"),
        (lambda header, entry: setattr(entry.shape, "unknown_rank", True), "has the shape"),
        (lambda header, entry: setattr(entry, "dtype", 999), "has the dtype 999"),
        (lambda header, entry: setattr(entry, "dtype", types_pb2.DT_INVALID), "has the dtype 0"),
        (lambda header, entry: setattr(entry, "shard_id", 7), "of shard 7 of 1"),
        (lambda header, entry: setattr(entry, "offset", -1), "24 bytes at -1"),
        (lambda header, entry: setattr(entry, "size", -24), "-24 bytes at"),
        (lambda header, entry: setattr(header, "num_shards", 0), "of shard 0 of 0"),
        (lambda header, entry: setattr(header, "endianness", 1), "must be little-endian"),
    ],
)
def test_entries_that_cannot_be(prefix, edit, fault):
    change(prefix, edit)
    with pytest.raises(UserError, match=fault):
        read_variables(prefix)


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 100, b"x" * 40 + struct.pack("<Q", 0xDB4775248B80FB57)]
)
def test_damaged_indexes(prefix, content):
    prefix.with_name("model.ckpt.index").write_bytes(content)
    with pytest.raises(UserError, match="index must be whole"):
        read_variables(prefix)


@pytest.mark.parametrize("folder", ["a[1]", "b*", "c?d", "e\\f"])
def test_paths_that_tensorflow_takes_for_patterns(folder, tmp_path):
    prefix = tmp_path / folder / "model[0].ckpt"
    prefix.parent.mkdir()
    write_variables(prefix, VARIABLES)
    assert find_prefix(prefix.parent) == prefix
    assert read_variables(prefix).keys() == VARIABLES.keys()

import os
import struct
import sys

import numpy as np
import pytest
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import tensor_bundle_pb2

from albert_tf.checkpoints import tf_checkpoint
from albert_tf.checkpoints.finder import CheckpointLocation
from albert_tf.checkpoints.tf_checkpoint import find_prefix, read_variables, write_variables
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.files import masked_crc

VARIABLES = {
    "bert/pooler/dense/kernel": np.arange(15, dtype="float32").reshape(5, 3),
    "output_bias": np.array([0.5, -2.0], "float32"),
}
SLOTS = (
    "bert/pooler/dense/kernel/adam_m",
    "bert/pooler/dense/kernel/adam_v",
    "bert/pooler/dense/kernel/Adam",
    "bert/pooler/dense/kernel/Adam_1",
    "bert/pooler/dense/kernel/ExponentialMovingAverage",
    "beta1_power",
    "beta2_power_1",
    "current_loss_scale",
    "global_step",
)


@pytest.fixture
def prefix(tmp_path):
    write_variables(tmp_path / "model.ckpt", VARIABLES)
    return tmp_path / "model.ckpt"


def shard(prefix, number=0, count=1):
    return prefix.with_name(f"{prefix.name}.data-{number:05d}-of-{count:05d}")


def assert_weights(found):
    assert found.keys() == VARIABLES.keys()
    for name, expected in VARIABLES.items():
        np.testing.assert_array_equal(found[name], expected)


def assert_refused(prefix, reason):
    """Reads damaged files as `from_pretrained` does: one sentence for whatever they raise."""
    location = CheckpointLocation(prefix.parent, "tf1", prefix)
    with pytest.raises(UserError, match=f"model.ckpt.*{reason}.*Copy it again from its source"):
        location.read(AlbertConfig())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have names in Unicode")
def test_a_path_in_bytes_that_the_locale_lacks(tmp_path):
    path = tmp_path / os.fsdecode(b"gr\xc3\xb6\xdfe")
    path.mkdir()
    write_variables(path / "model.ckpt", VARIABLES)
    assert_weights(read_variables(path / "model.ckpt"))


def test_variables_of_training_are_skipped(prefix):
    write_variables(
        prefix,
        {
            **VARIABLES,
            **{name: np.ones(3, "float32") for name in SLOTS},
            "counts": np.arange(3),
            "half": np.ones(2, "float16"),
        },
    )
    found = read_variables(prefix)
    assert found.pop("half").dtype == "float16"
    assert_weights(found)


def test_an_object_graph_of_tensorflow_2(tmp_path):
    import tensorflow as tf

    module = tf.Module()
    module.kept = [tf.Variable(value, name=name) for name, value in VARIABLES.items()]
    checkpoint = tf.train.Checkpoint(model=module, optimizer=tf.Variable(3.0, name="rate"))
    path = checkpoint.save(tmp_path / "ckpt")
    assert any(name.startswith("model/kept/0/") for name, _ in tf.train.list_variables(path))
    assert_weights(read_variables(tmp_path / "ckpt-1"))


def test_a_missing_index(prefix):
    prefix.with_name("model.ckpt.index").unlink()
    with pytest.raises(UserError, match=r"needs its .index file. .* no model.ckpt.index. Copy it"):
        read_variables(prefix)


def test_missing_shards(prefix):
    shard(prefix).rename(shard(prefix, 1, 3))
    missing = "without model.ckpt.data-00000-of-00003, model.ckpt.data-00002-of-00003. Copy them"
    with pytest.raises(UserError, match=missing):
        read_variables(prefix)
    shard(prefix, 1, 3).unlink()
    with pytest.raises(UserError, match=r"without model.ckpt.data-00000-of-00001"):
        read_variables(prefix)


@pytest.mark.parametrize("file", ["index", "data-00000-of-00001"])
@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"\xff" * len(data)])
def test_damaged_files(prefix, file, damage):
    path = prefix.with_name(f"model.ckpt.{file}")
    path.write_bytes(damage(path.read_bytes()))
    assert_refused(prefix, "")


def test_writing_below_a_file(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="can't be written"):
        write_variables(tmp_path / "file" / "model.ckpt", VARIABLES)


@pytest.fixture
def folder(tmp_path):
    """Two checkpoints by name."""
    for name in ("model.ckpt-3", "model.ckpt-best"):
        for ending in ("index", "meta", "data-00000-of-00001"):
            (tmp_path / f"{name}.{ending}").touch()
    return tmp_path


def names_latest(folder, text):
    (folder / "checkpoint").write_text(f'model_checkpoint_path: "{text}"\nall_model_checkpoint')


@pytest.mark.parametrize(
    "name",
    [
        "model.ckpt-best",
        "model.ckpt-best.index",
        "model.ckpt-best.meta",
        "model.ckpt-best.data-00000-of-00001",
    ],
)
def test_a_prefix_and_its_files(folder, name):
    assert find_prefix(folder / name) == folder / "model.ckpt-best"


@pytest.mark.parametrize(
    "latest", ["model.ckpt-3", "/gone/since/model.ckpt-3", r"C:\gone\model.ckpt-3"]
)
def test_a_directory_whose_latest_is_named(folder, latest):
    names_latest(folder, latest.replace("\\", "\\\\"))
    assert find_prefix(folder) == folder / "model.ckpt-3"


def test_a_directory_of_several_lists_them(folder):
    with pytest.raises(UserError, match=r"with model.ckpt-3, model.ckpt-best. Give one of these"):
        find_prefix(folder)
    names_latest(folder, "model.ckpt-9")
    with pytest.raises(UserError, match="or a file 'checkpoint' that names one of them"):
        find_prefix(folder)


def test_a_directory_of_one(folder):
    for path in folder.glob("model.ckpt-3*"):
        path.unlink()
    names_latest(folder, "model.ckpt-3")
    assert find_prefix(folder) == folder / "model.ckpt-best"


@pytest.mark.parametrize("name", ["model.ckpt", "model.ckpt-best.txt", "missing/model.ckpt-3"])
def test_paths_without_a_checkpoint(folder, name):
    assert not find_prefix(folder / name)


def test_folders_without_a_checkpoint(folder):
    (folder / "empty").mkdir()
    assert not find_prefix(folder / "empty")
    assert not find_prefix(folder / "missing")


LAYERS = {f"layer_{number}/kernel": np.full((2, 3), number, "float32") for number in range(40)}
NAME = b"layer_7/kernel"


@pytest.fixture
def indexed(tmp_path):
    """The path of a checkpoint whose index the tests change; its checksums stay right."""
    write_variables(tmp_path / "model.ckpt", LAYERS)
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
    return content + struct.pack("<I", masked_crc(content))


def write_index(path, entries):
    content, places = b"", []
    for part in (block(sorted(entries.items())), block([])):
        places.append(number(len(content)) + number(len(part) - 5))
        content += part
    index = block([(max(entries) + b"\xff", places[0])])
    places.append(number(len(content)) + number(len(index) - 5))
    footer = (places[1] + places[2]).ljust(40, b"\0")
    path.write_bytes(content + index + footer + struct.pack("<Q", 0xDB4775248B80FB57))


def change(indexed, edit):
    """Edits the header and one entry of an index."""
    path = indexed.with_name(f"{indexed.name}.index")
    entries = dict(tf_checkpoint._entries(path.read_bytes()))
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


def test_an_unchanged_index_is_read(indexed):
    change(indexed, lambda header, entry: None)
    found = read_variables(indexed)
    assert found.keys() == LAYERS.keys()
    for name, expected in LAYERS.items():
        np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (shape(7, 3), "reshape"),
        (shape(2**40, 2**40), "reshape"),
        (shape(2**40, 2**40, 0), "reshape|too many|too big"),
        (shape(*[1] * 255), "maximum supported dimension|reshape"),
        (lambda header, entry: setattr(entry, "dtype", 999), "999"),
        (lambda header, entry: setattr(entry, "dtype", types_pb2.DT_FLOAT_REF), "no file has"),
        (lambda header, entry: setattr(entry, "dtype", types_pb2.DT_INVALID), "TypeError"),
        (lambda header, entry: setattr(entry, "shard_id", 7), "IndexError"),
        (lambda header, entry: setattr(entry, "offset", -1), "24 bytes at -1"),
        (lambda header, entry: setattr(entry, "size", -24), "-24 bytes at"),
        (lambda header, entry: setattr(entry, "offset", entry.offset + 4), "CRC of layer_7/kernel"),
        (lambda header, entry: setattr(header, "endianness", 1), "it is big-endian"),
    ],
)
def test_entries_that_cannot_be(indexed, edit, reason):
    change(indexed, edit)
    assert_refused(indexed, reason)


def test_entries_that_claim_the_same_bytes(indexed):
    def edit(header, entry):
        entry.offset, entry.size = 0, 960

    change(indexed, edit)
    with pytest.raises(UserError, match="Received 960 bytes that claim to be 1,896"):
        read_variables(indexed)


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 100, b"x" * 40 + struct.pack("<Q", 0xDB4775248B80FB57)]
)
def test_damaged_indexes(indexed, content):
    indexed.with_name("model.ckpt.index").write_bytes(content)
    assert_refused(indexed, "")


@pytest.mark.posix
@pytest.mark.parametrize("folder", ["a[1]", "b*", "c?d", "e\\f"])
def test_paths_that_are_patterns(folder, tmp_path):
    prefix = tmp_path / folder / "model[0].ckpt"
    prefix.parent.mkdir()
    write_variables(prefix, LAYERS)
    assert find_prefix(prefix.parent) == prefix
    assert read_variables(prefix).keys() == LAYERS.keys()

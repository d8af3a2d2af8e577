import errno
import os
import struct

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import tensor_bundle_pb2

from albert_tf.checkpoints import tf_checkpoint
from albert_tf.checkpoints.finder import CheckpointLocation
from albert_tf.checkpoints.tf_checkpoint import find_prefix, read_variables, write_variables
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from tests.checkpoints.tensors import assert_equal

# Keys that share a beginning, in several blocks of an index.
VARIABLES = {f"layer_{number}/kernel": np.full((2, 3), number, "float32") for number in range(40)}
NAME = b"layer_7/kernel"
SLOTS = (
    "layer_7/kernel/adam_m",
    "layer_7/kernel/adam_v",
    "layer_7/kernel/Adam",
    "layer_7/kernel/Adam_1",
    "layer_7/kernel/ExponentialMovingAverage",
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


def assert_refused(prefix, reason):
    """Reads damaged files like `from_pretrained`, with one message for whatever they raise."""
    location = CheckpointLocation(prefix.parent, "tf1", prefix)
    with pytest.raises(UserError, match=f"model.ckpt.*{reason}.*Copy it again from its source"):
        location.read(AlbertConfig())


def test_variables_of_training_are_skipped(prefix):
    more = {name: np.ones(3, "float32") for name in SLOTS} | {"counts": np.arange(3)}
    half = {"half": np.ones(2, "float16")}
    write_variables(prefix, VARIABLES | more | half)
    found = read_variables(prefix)
    assert_equal(found, VARIABLES | half)
    assert found["half"].dtype == "float16"


def test_an_object_graph_of_tensorflow_2(tmp_path):
    module = tf.Module()
    module.kept = [tf.Variable(value, name=name) for name, value in VARIABLES.items()]
    checkpoint = tf.train.Checkpoint(model=module, optimizer=tf.Variable(3.0, name="rate"))
    path = checkpoint.save(tmp_path / "ckpt")
    assert any(name.startswith("model/kept/0/") for name, _ in tf.train.list_variables(path))
    assert_equal(read_variables(tmp_path / "ckpt-1"), VARIABLES)


@pytest.mark.posix
@pytest.mark.parametrize("folder", ["a[1]", "b*", "c?d", "e\\f", os.fsdecode(b"gr\xc3\xb6\xdfe")])
def test_paths_of_any_characters(folder, tmp_path):
    prefix = tmp_path / folder / "model[0].ckpt"
    prefix.parent.mkdir()
    write_variables(prefix, VARIABLES)
    assert find_prefix(prefix.parent) == prefix
    assert_equal(read_variables(prefix), VARIABLES)


def test_missing_files(prefix):
    shard(prefix).rename(shard(prefix, 1, 3))
    missing = "folder: model.ckpt.data-00000-of-00003, model.ckpt.data-00002-of-00003.$"
    with pytest.raises(UserError, match=missing):
        read_variables(prefix)
    shard(prefix, 1, 3).unlink()
    with pytest.raises(UserError, match=r"folder: model.ckpt.data-00000-of-00001.$"):
        read_variables(prefix)
    prefix.with_name("model.ckpt.index").unlink()
    with pytest.raises(UserError, match=f"{prefix} has no model.ckpt.index. Copy"):
        read_variables(prefix)


def test_errors_of_writing_are_those_of_the_system(tmp_path, files_of_at_most):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="Not a directory") as raised:
        write_variables(tmp_path / "file" / "model.ckpt", VARIABLES)
    assert raised.value.filename == str(tmp_path / "file" / "model.ckpt")
    with pytest.raises(OSError, match="File too large") as raised, files_of_at_most(10):
        write_variables(tmp_path / "model.ckpt", VARIABLES)
    assert raised.value.errno == errno.EFBIG
    assert raised.value.filename == str(tmp_path / "model.ckpt")


@pytest.mark.parametrize(
    ("ending", "damage"),
    [
        ("index", lambda content: b""),
        ("index", lambda content: content[:-9]),
        ("index", lambda content: content.replace(b"kernel", b"kerneL")),
        ("index", lambda content: b"x" * 40 + struct.pack("<Q", 0xDB4775248B80FB57)),
        ("data-00000-of-00001", lambda content: content[:-9]),
        ("data-00000-of-00001", lambda content: b"\xff" * len(content)),
    ],
)
def test_damaged_files(prefix, ending, damage):
    path = prefix.with_name(f"model.ckpt.{ending}")
    path.write_bytes(damage(path.read_bytes()))
    assert_refused(prefix, "")


@pytest.mark.parametrize(
    ("key", "changes", "reason"),
    [
        (NAME, {"shape": [7, 3]}, "reshape"),
        (NAME, {"shape": [2**40, 2**40, 0]}, "reshape|too many|too big"),
        (NAME, {"shape": [1] * 255}, "maximum supported dimension|reshape"),
        (NAME, {"dtype": 999}, "999"),
        (NAME, {"dtype": types_pb2.DT_FLOAT_REF}, "dtype float32_ref"),
        (NAME, {"shard_id": 7}, "IndexError"),
        (NAME, {"offset": -1}, "24 bytes at -1"),
        (NAME, {"size": -24}, "-24 bytes at"),
        (NAME, {"offset": 4}, "CRC of layer_7/kernel"),
        (NAME, {"offset": 0, "size": 960}, ": it has 960 bytes, but claims 1,896"),
        (b"", {"endianness": 1}, "it is big-endian"),
    ],
)
def test_entries_that_cannot_be(prefix, monkeypatch, key, changes, reason):
    """Changes a variable's entry or, without a key, the header of the index."""
    read = tf_checkpoint._entries
    kind = tensor_bundle_pb2.BundleEntryProto if key else tensor_bundle_pb2.BundleHeaderProto

    def changed(content):
        entries = dict(read(content))
        entry = kind.FromString(entries[key])
        for field, value in changes.items():
            if field == "shape":
                entry.shape.CopyFrom(tf.TensorShape(value).as_proto())
            else:
                setattr(entry, field, value)
        return {**entries, key: entry.SerializeToString()}.items()

    monkeypatch.setattr(tf_checkpoint, "_entries", changed)
    assert_refused(prefix, reason)


@pytest.fixture
def folder(tmp_path):
    """Returns a folder with two checkpoints."""
    for name in ("model.ckpt-3", "model.ckpt-best"):
        for ending in ("index", "meta", "data-00000-of-00001"):
            (tmp_path / f"{name}.{ending}").touch()
    return tmp_path


def test_a_prefix_and_its_files(folder):
    best = "model.ckpt-best"
    for ending in ("", ".index", ".meta", ".data-00000-of-00001"):
        assert find_prefix(folder / f"{best}{ending}") == folder / best
    for name in ("model.ckpt", f"{best}.txt", "missing/model.ckpt-3", "missing"):
        assert find_prefix(folder / name) is None


def test_a_directory_of_several_of_one_and_of_none(folder):
    for latest in ("model.ckpt-3", "/gone/since/model.ckpt-3", r"C:\\gone\\model.ckpt-3"):
        content = f'model_checkpoint_path: "{latest}"\nall_model_checkpoint'
        (folder / "checkpoint").write_text(content)
        assert find_prefix(folder) == folder / "model.ckpt-3"
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-9"')
    several = r"several checkpoints \(model.ckpt-3, model.ckpt-best\), and no file 'checkpoint'"
    with pytest.raises(UserError, match=several):
        find_prefix(folder)
    for path in folder.glob("model.ckpt-3*"):
        path.unlink()
    assert find_prefix(folder) == folder / "model.ckpt-best"
    for path in folder.glob("model.ckpt-best*"):
        path.unlink()
    assert find_prefix(folder) is None

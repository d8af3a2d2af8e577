import struct

import pytest
import tensorflow as tf

from albert_tf.data.pretraining.records import decode, encode, frame
from albert_tf.data.pretraining.sources import stored_records
from albert_tf.errors import UserError
from albert_tf.files import masked_crc

FEATURES = {"ids": [3, 0, 70000, -100], "weights": [1.0, 0.0], "none": []}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "examples.tfrecord"
    path.write_bytes(b"".join(frame(encode({"ids": [number] * 9})) for number in range(5)))
    return path


def test_examples_are_tensorflows():
    assert decode(encode(FEATURES)) == FEATURES
    assert encode(FEATURES) == encode(dict(reversed(FEATURES.items())))
    features = tf.train.Example.FromString(encode(FEATURES)).features.feature
    assert list(features["ids"].int64_list.value) == FEATURES["ids"]
    assert list(features["weights"].float_list.value) == FEATURES["weights"]


def test_files_are_tensorflows(file, tmp_path):
    expected = [encode({"ids": [number] * 9}) for number in range(5)]
    assert [each.numpy() for each in tf.data.TFRecordDataset(str(file))] == expected
    with tf.io.TFRecordWriter(str(tmp_path / "theirs.tfrecord")) as writer:
        for record in (b"", b"one", b"two" * 1000):
            writer.write(record)
    assert list(stored_records(str(tmp_path / "theirs.tfrecord"))) == [b"", b"one", b"two" * 1000]


def test_files_cut_short(file):
    whole = file.read_bytes()
    one = len(whole) // 5
    for end in range(1, len(whole)):
        file.write_bytes(whole[:end])
        if end % one == 0:
            assert len(list(stored_records(str(file)))) == end // one
            continue
        with pytest.raises(
            UserError, match=f"^Record {end // one} of .*examples.tfrecord is damaged"
        ):
            list(stored_records(str(file)))


def test_a_bit_that_flipped(file):
    whole = bytearray(file.read_bytes())
    one = len(whole) // 5
    for place in range(2 * one, 3 * one):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        file.write_bytes(damaged)
        with pytest.raises(UserError, match="^Record 2 of .*damaged"):
            list(stored_records(str(file)))


@pytest.mark.parametrize("size", [2**40, 2**62, 2**64 - 1])
def test_a_header_that_promises_too_much(file, size):
    """TensorFlow ends the process where a record claims 2^62 bytes."""
    length = struct.pack("<Q", size)
    header = length + struct.pack("<I", masked_crc(length))
    file.write_bytes(header + file.read_bytes()[12:])
    with pytest.raises(UserError, match="^Record 0 of .*examples.tfrecord is damaged"):
        list(stored_records(str(file)))

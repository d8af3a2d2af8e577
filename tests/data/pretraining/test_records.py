import pytest

from albert_tf.data.pretraining.records import decode, encode, frame, read_records
from albert_tf.errors import UserError

FEATURES = {"ids": [3, 0, 70000, -100], "weights": [1.0, 0.0], "none": []}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "examples.tfrecord"
    path.write_bytes(b"".join(frame(encode({"ids": [number] * 9})) for number in range(5)))
    return path


def test_decode_is_the_inverse_of_encode():
    assert decode(encode(FEATURES)) == FEATURES
    assert encode(FEATURES) == encode(dict(reversed(FEATURES.items())))


def test_tensorflow_reads_our_files(file):
    import tensorflow as tf

    read = [
        tf.train.Example.FromString(each.numpy()) for each in tf.data.TFRecordDataset(str(file))
    ]
    assert [example.features.feature["ids"].int64_list.value[0] for example in read] == [*range(5)]
    one = tf.train.Example.FromString(encode(FEATURES))
    assert list(one.features.feature["ids"].int64_list.value) == FEATURES["ids"]
    assert list(one.features.feature["weights"].float_list.value) == FEATURES["weights"]


def test_files_of_tensorflow_are_read(tmp_path):
    import tensorflow as tf

    path = str(tmp_path / "theirs.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for record in (b"", b"one", b"two" * 1000):
            writer.write(record)
    assert list(read_records(path)) == [b"", b"one", b"two" * 1000]


def test_files_cut_short(file):
    whole = file.read_bytes()
    one = len(whole) // 5
    for end in range(1, len(whole)):
        file.write_bytes(whole[:end])
        if end % one == 0:
            assert len(list(read_records(file))) == end // one
            continue
        with pytest.raises(
            UserError, match=f"Received: record {end // one} of .*examples.tfrecord"
        ):
            list(read_records(file))


def test_a_bit_that_flipped(file):
    whole = bytearray(file.read_bytes())
    one = len(whole) // 5
    for place in range(2 * one, 3 * one):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        file.write_bytes(damaged)
        with pytest.raises(UserError, match="record 2 of .*damaged"):
            list(read_records(file))

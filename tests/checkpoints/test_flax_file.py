import sys

import numpy as np
import pytest

from albert_tf.checkpoints.weight_files import read_flax
from albert_tf.errors import UserError

msgpack = pytest.importorskip("msgpack", reason="needs msgpack")
VALUES = np.arange(6, dtype="float32").reshape(2, 3)


def packed(tree):
    """flax.serialization's layout: arrays are extension 1 with (shape, dtype's name, bytes)."""

    def extension(array):
        content = msgpack.packb((array.shape, array.dtype.name, array.tobytes()))
        return msgpack.ExtType(1, content)

    return msgpack.packb(tree, default=extension)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "flax_model.msgpack"


def test_nested_names(path):
    path.write_bytes(packed({"albert": {"pooler": {"kernel": VALUES, "bias": VALUES[0]}}}))
    found = read_flax(path)
    assert sorted(found) == ["albert/pooler/bias", "albert/pooler/kernel"]
    np.testing.assert_array_equal(found["albert/pooler/kernel"], VALUES)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_floats_come_as_float32(path, dtype):
    import ml_dtypes

    values = VALUES.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    path.write_bytes(packed({"x": values}))
    found = read_flax(path)["x"]
    assert found.dtype == "float32"
    np.testing.assert_array_equal(found, VALUES)


def test_an_array_in_pieces(path):
    # flax.serialization cuts arrays over 1 GiB so; tuples become dicts by number.
    pieces = {str(index): VALUES.reshape(-1)[index : index + 1] for index in range(6)}
    tree = {"__msgpack_chunked_array__": True, "shape": {"0": 2, "1": 3}, "chunks": pieces}
    path.write_bytes(packed({"x": tree}))
    np.testing.assert_array_equal(read_flax(path)["x"], VALUES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (packed({"a": {"x": VALUES}})[:-5], "whole Flax file"),
        (b"", "whole Flax file"),
        (b"\xc1not msgpack", "whole Flax file"),
        (packed({"a": 3}), "a is int, not an array"),
        (packed([VALUES]), "the file is list, not an array"),
        (msgpack.packb({"a": msgpack.ExtType(7, b"x")}), "extension 7, where arrays have 1"),
        (packed({"a": np.array(["text"])}), "an array of str"),
        (packed({"a": VALUES}) + b"\x00", "ExtraData"),
        (
            msgpack.packb({"a": msgpack.ExtType(1, msgpack.packb(((9, 9), "float32", b"")))}),
            "reshape",
        ),
    ],
)
def test_damaged_or_strange(path, content, message):
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_flax(path)


def test_without_msgpack(monkeypatch, path):
    monkeypatch.setitem(sys.modules, "msgpack", None)
    with pytest.raises(UserError, match="pip install msgpack"):
        read_flax(path)

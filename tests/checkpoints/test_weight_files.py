import json
import os
import pickle
import struct
import sys
import zipfile

import ml_dtypes
import numpy as np
import pytest

from albert_tf.checkpoints import weight_files
from albert_tf.errors import UserError

h5py = pytest.importorskip("h5py", reason="needs h5py, which Keras brings")
msgpack = pytest.importorskip("msgpack", reason="needs msgpack")
VALUES = np.arange(6, dtype="float32").reshape(2, 3)


def test_without_its_package(monkeypatch, tmp_path):
    for package, read, way_out in (
        ("torch", weight_files.read_pytorch, r"albert_tf\[torch\]"),
        ("h5py", weight_files.read_hdf5, "h5py"),
        ("msgpack", weight_files.read_flax, "msgpack"),
    ):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(UserError, match=f"requires {package}, .*pip install {way_out}"):
            read(tmp_path / "weights")


def packed(tree):
    """flax.serialization's layout: arrays are extension 1 with (shape, dtype's name, bytes)."""

    def extension(array):
        content = msgpack.packb((array.shape, array.dtype.name, array.tobytes()))
        return msgpack.ExtType(1, content)

    return msgpack.packb(tree, default=extension)


@pytest.fixture
def flax(tmp_path):
    """Returns a function that reads a Flax file of the given bytes."""

    def read(content):
        path = tmp_path / "flax_model.msgpack"
        path.write_bytes(content)
        return weight_files.read_flax(path)

    return read


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16, "float64"])
def test_other_floats_of_flax_become_float32(flax, dtype):
    found = flax(packed({"x": VALUES.astype(dtype)}))["x"]
    assert found.dtype == "float32"
    np.testing.assert_array_equal(found, VALUES)


def test_a_flax_array_in_pieces(flax):
    # flax.serialization cuts arrays over 1 GiB so; tuples become dicts by number.
    pieces = {str(index): VALUES.reshape(-1)[index : index + 1] for index in range(6)}
    tree = {"__msgpack_chunked_array__": True, "shape": {"0": 2, "1": 3}, "chunks": pieces}
    np.testing.assert_array_equal(flax(packed({"x": tree}))["x"], VALUES)


def test_a_damaged_flax_file(flax):
    short = msgpack.packb(((9, 9), "float32", b""))
    for content, message in (
        (packed({"a": 3}), "a is int, not an array"),
        (packed([VALUES]), "the file is list, not an array"),
        (msgpack.packb({"a": msgpack.ExtType(7, b"x")}), "extension 7, but arrays use 1"),
        (packed({"a": np.array(["text"])}), "an array of str"),
        (packed({"a": VALUES}) + b"\x00", "extra data"),
        (msgpack.packb({"a": msgpack.ExtType(1, short)}), "reshape"),
    ):
        with pytest.raises(ValueError, match=message):
            flax(content)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="needs torch (pip install albert_tf[torch])")


@pytest.mark.peers
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before-1.6"])
def test_a_state_dict(torch, zipped, tmp_path):
    state = {
        "not.contiguous": torch.arange(15.0).reshape(3, 5).T,
        "trained": torch.ones(5, requires_grad=True),
        "half": torch.ones(2, dtype=torch.bfloat16),
        "position_ids": torch.arange(7)[None],
    }
    path = tmp_path / "pytorch_model.bin"
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    found = weight_files.read_pytorch(path)
    assert found.keys() == state.keys()
    for name, tensor in state.items():
        assert found[name].dtype == ("int64" if name == "position_ids" else "float32")
        np.testing.assert_array_equal(found[name], tensor.detach().to(torch.float32).numpy())


class Harmful:
    def __reduce__(self):
        return os.mkdir, (Harmful.target,)


@pytest.mark.peers
@pytest.mark.parametrize("kind", ["zip", "before-1.6", "pickle"])
def test_code_is_refused_and_not_run(torch, kind, tmp_path):
    Harmful.target = str(tmp_path / "made by the file")
    path = tmp_path / "pytorch_model.bin"
    if kind == "pickle":
        path.write_bytes(pickle.dumps(Harmful(), protocol=2))
    else:
        torch.save({"x": Harmful()}, path, _use_new_zipfile_serialization=kind == "zip")
    with pytest.raises(UserError, match="contains code, which was not run"):
        weight_files.read_pytorch(path)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.peers
@pytest.mark.parametrize("content", [[1, 2], {}, {"x": 3}], ids=repr)
def test_a_file_without_a_state_dict(torch, content, tmp_path):
    torch.save(content, tmp_path / "x.bin")
    with pytest.raises(UserError, match="x.bin must contain a model's state dict"):
        weight_files.read_pytorch(tmp_path / "x.bin")


@pytest.mark.peers
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("sparse", "x as torch.float32, torch.sparse_coo"),
        ("quantized", "x as torch.quint8"),
        ("complex", "x as torch.complex64"),
        ("float8", "x as torch.float8_e4m3fn"),
        ("stride", "bytes, but claims"),
    ],
)
def test_tensors_of_pytorch_that_hold_no_weights(torch, tmp_path, kind, message):
    values = torch.ones(8)
    tensor = {
        "sparse": lambda: values.to_sparse(),
        "quantized": lambda: torch.quantize_per_tensor(values, 1.0, 0, torch.quint8),
        "complex": lambda: values.to(torch.complex64),
        "float8": lambda: values.to(torch.float8_e4m3fn),
        "stride": lambda: torch.ones(1).expand(10**9),
    }[kind]()
    torch.save({"x": tensor}, tmp_path / "x.bin")
    with pytest.raises(UserError, match=message):
        weight_files.read_pytorch(tmp_path / "x.bin")


@pytest.mark.peers
def test_the_crcs_of_pytorchs_zip_files(torch, tmp_path):
    path = tmp_path / "x.bin"
    torch.save({"x": torch.full((64,), 0.7)}, path)
    content = bytearray(path.read_bytes())
    content[content.index(np.full(8, 0.7, "float32").tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(zipfile.BadZipFile, match="the CRC of .*data/0 is wrong"):
        weight_files.read_pytorch(path)


@pytest.mark.peers
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data/0": lambda content: content[:-4]}, "sizes of its storages differ"),
        ({"data/1": lambda content: content + b"more"}, "sizes of its storages differ"),
        (
            {"data/0": lambda content: content[:-4], "data/1": lambda content: content + b"more"},
            "sizes of its storages differ",
        ),
        ({"data/0": zipfile.ZIP_DEFLATED}, "data/0 is compressed"),
        ({}, None),
    ],
    ids=["short", "long", "both", "compressed", "unchanged"],
)
def test_the_sizes_of_pytorchs_storages(torch, tmp_path, change, message):
    """torch maps storages from their start, and reads beyond the end of a short one."""
    table = torch.arange(9.0)
    tensors = {"x": torch.arange(64.0), "y": table, "none": torch.ones(0), "tied": table[3:]}
    torch.save(tensors, tmp_path / "x.bin")
    path = tmp_path / "y.bin"
    with zipfile.ZipFile(tmp_path / "x.bin") as archive, zipfile.ZipFile(path, "w") as other:
        for entry in archive.infolist():
            new = change.get(entry.filename.partition("/")[2])
            content = archive.read(entry)
            content = new(content) if callable(new) else content
            other.writestr(entry.filename, content, new if isinstance(new, int) else None)
    if message:
        with pytest.raises((ValueError, zipfile.BadZipFile), match=message):
            weight_files.read_pytorch(path)
    else:
        found = weight_files.read_pytorch(path)
        assert found["tied"].tolist() == [3, 4, 5, 6, 7, 8]


def test_types_of_safetensors_that_hold_no_weights(tmp_path):
    header = {"x": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}}
    text = json.dumps(header).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"\1" * 4)
    with pytest.raises(UserError, match="Received: x as F8_E4M3 in .*x.safetensors"):
        weight_files.read_tensors(tmp_path / "x.safetensors")


@pytest.fixture
def hdf5(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["layer/scope/kernel:0"] = VALUES
        file["layer/half"] = VALUES.astype("float16")
        # Keras 3's H5IOStore: opaque bytes, and the type in an attribute.
        file["layer/brain"] = VALUES.astype(ml_dtypes.bfloat16).view("V2")
        file["layer/brain"].attrs["dtype"] = "bfloat16"
        file["optimizer/vars/0"] = np.array(3)
        file["optimizer_weights/x"] = np.array(3)
    return tmp_path / "x.h5"


def test_datasets_of_hdf5_except_the_optimizers(hdf5):
    found = weight_files.read_hdf5(hdf5)
    assert sorted(found) == ["layer/brain", "layer/half", "layer/scope/kernel:0"]
    for array in found.values():
        assert array.dtype == "float32"
        np.testing.assert_array_equal(array, VALUES)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": VALUES.astype("int8")}, "Received: /layer/x as int8 in .*x.h5"),
        ({"shape": (10**12,), "chunks": (1024,)}, "truncated or compressed: .* but claims 4,000"),
        ({"shape": (5,)}, "fewer bytes than layer/x claims"),  # HDF5 reads unwritten bytes as 0
    ],
)
def test_datasets_of_hdf5_that_hold_no_weights(hdf5, options, message):
    with h5py.File(hdf5, "a") as file:
        file.create_dataset("layer/x", **options)
    with pytest.raises(UserError, match=message):
        weight_files.read_hdf5(hdf5)


@pytest.mark.parametrize("kind", ["external", "ExternalLink", "SoftLink", "virtual"])
def test_an_hdf5_file_gives_no_content_of_others(hdf5, kind):
    other = str(hdf5.with_name("other.h5"))
    with h5py.File(other, "w") as file:
        file["kernel"] = VALUES
    with h5py.File(hdf5, "a") as file:
        group = file.create_group("layer/deep/deeper")
        if kind == "external":
            group.create_dataset("x", (6,), "float32", external=[(other, 0, 24)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((2, 3), "float32")
            layout[:] = h5py.VirtualSource(other, "kernel", (2, 3))
            group.create_virtual_dataset("x", layout)
        elif kind == "ExternalLink":
            group["x"] = h5py.ExternalLink(other, "/kernel")
        else:
            group["x"] = h5py.SoftLink("/layer")
    with pytest.raises(UserError, match="x.h5 may refer to data .*layer/deep/deeper/x is"):
        weight_files.read_hdf5(hdf5)

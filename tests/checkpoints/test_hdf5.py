import ml_dtypes
import numpy as np
import pytest

from albert_tf.checkpoints import hdf5
from albert_tf.errors import UserError

h5py = pytest.importorskip("h5py", reason="needs h5py, which Keras brings")
VALUES = np.arange(6, dtype="float32").reshape(2, 3)


@pytest.fixture
def path(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["layer/scope/kernel:0"] = VALUES
        file["layer/half"] = VALUES.astype("float16")
        # Keras 3's H5IOStore: opaque bytes, and the type in an attribute.
        file["layer/brain"] = VALUES.astype(ml_dtypes.bfloat16).view("V2")
        file["layer/brain"].attrs["dtype"] = "bfloat16"
        file["optimizer/vars/0"] = np.array(3)
        file["optimizer_weights/x"] = np.array(3)
    return tmp_path / "x.h5"


def test_datasets_of_hdf5_except_the_optimizers(path):
    found = hdf5.read(path)
    assert sorted(found) == ["layer/brain", "layer/half", "layer/scope/kernel:0"]
    for array in found.values():
        assert array.dtype == "float32"
        np.testing.assert_array_equal(array, VALUES)


def test_quantized_weights(path):
    with h5py.File(path, "a") as file:
        file["layer/int8"] = VALUES.astype("int8")
    with pytest.raises(UserError, match="floating-point numbers .*Received /layer/int8 as int8"):
        hdf5.read(path)


@pytest.mark.parametrize("size", [0, 9, -30])
def test_a_truncated_hdf5_file(path, size):
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(UserError, match="must be a whole HDF5 file. Received .* bytes"):
        hdf5.read(path)


def test_a_missing_hdf5_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        hdf5.read(tmp_path / "none.h5")


@pytest.mark.parametrize("kind", ["external", "ExternalLink", "SoftLink", "virtual"])
def test_an_hdf5_file_gives_no_content_of_others(path, kind):
    private = path.with_name("private.txt")
    private.write_bytes(b"secrets!" * 3)
    with h5py.File(path.with_name("other.h5"), "w") as other:
        other["kernel"] = VALUES
    with h5py.File(path, "a") as file:
        group = file.create_group("layer/deep/deeper")
        if kind == "external":
            group.create_dataset("x", (6,), "float32", external=[(str(private), 0, 24)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((2, 3), "float32")
            layout[:] = h5py.VirtualSource(str(path.with_name("other.h5")), "kernel", (2, 3))
            group.create_virtual_dataset("x", layout)
        else:
            linked = {"ExternalLink": (str(path.with_name("other.h5")), "/kernel")}
            group["x"] = getattr(h5py, kind)(*linked.get(kind, ["/layer"]))
    with pytest.raises(UserError, match="hold all its weights itself.*layer/deep/deeper/x is"):
        hdf5.read(path)


def test_hdf5_datasets_are_no_larger_than_their_file(path):
    with h5py.File(path, "a") as file:
        file.create_dataset("layer/huge", (10**12,), "float32", chunks=(1024,))
    with pytest.raises(UserError, match="whole and uncompressed. Received .* claim to be 4,000"):
        hdf5.read(path)

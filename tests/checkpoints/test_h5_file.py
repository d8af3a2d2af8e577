import sys

import numpy as np
import pytest

from albert_tf.checkpoints.weight_files import read_hdf5
from albert_tf.errors import UserError

h5py = pytest.importorskip("h5py", reason="needs h5py, which Keras brings")
VALUES = np.array([[0.5, -2.0, 3.0]], "float32")


@pytest.fixture
def path(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["layer/scope/kernel:0"] = VALUES
        file["layer/half"] = VALUES.astype("float16")
        file["optimizer/vars/0"] = np.array(3)
        file["optimizer_weights/x"] = np.array(3)
    return tmp_path / "x.h5"


def test_datasets_but_not_the_optimizers(path):
    found = read_hdf5(path)
    assert sorted(found) == ["layer/half", "layer/scope/kernel:0"]
    for array in found.values():
        assert array.dtype == "float32"
        np.testing.assert_array_equal(array, VALUES)


def test_bfloat16_as_keras_stores_it(path):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes, which Keras brings")
    with h5py.File(path, "a") as file:
        # Keras 3's H5IOStore: opaque bytes, and the type in an attribute.
        file["layer/brain"] = VALUES.astype(ml_dtypes.bfloat16).view("V2")
        file["layer/brain"].attrs["dtype"] = "bfloat16"
    np.testing.assert_array_equal(read_hdf5(path)["layer/brain"], VALUES)


def test_quantized_weights(path):
    with h5py.File(path, "a") as file:
        file["layer/int8"] = VALUES.astype("int8")
    with pytest.raises(UserError, match="floating-point numbers. Received /layer/int8 as int8"):
        read_hdf5(path)


@pytest.mark.parametrize("kept", [0, 9, -30])
def test_a_truncated_file(path, kept):
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(UserError, match="must be a whole HDF5 file. Received .* bytes"):
        read_hdf5(path)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        read_hdf5(tmp_path / "none.h5")


def test_without_h5py(monkeypatch, path):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(UserError, match="pip install h5py"):
        read_hdf5(path)

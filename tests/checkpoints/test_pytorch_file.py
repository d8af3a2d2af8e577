import os
import pickle
import sys

import numpy as np
import pytest

from albert_tf.checkpoints.weight_files import read_pytorch
from albert_tf.errors import UserError

torch = pytest.importorskip("torch", reason="needs torch (pip install albert_tf[torch])")
pytestmark = pytest.mark.peers


@pytest.fixture
def state():
    generator = torch.Generator().manual_seed(4)
    return {
        "albert.pooler.weight": torch.randn(3, 5, generator=generator).T,  # not contiguous
        "albert.pooler.bias": torch.randn(5, generator=generator, requires_grad=True),
        "albert.embeddings.position_ids": torch.arange(7)[None],
    }


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before-1.6"])
def test_a_state_dict(state, zipped, tmp_path):
    path = tmp_path / "pytorch_model.bin"
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    found = read_pytorch(path)
    assert found.keys() == state.keys()
    for name, tensor in state.items():
        np.testing.assert_array_equal(found[name], tensor.detach().numpy())
    assert found["albert.embeddings.position_ids"].dtype == "int64"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_floats_come_as_float32(state, dtype, tmp_path):
    value = state["albert.pooler.weight"].to(getattr(torch, dtype))
    torch.save({"x": value}, tmp_path / "x.bin")
    found = read_pytorch(tmp_path / "x.bin")["x"]
    assert found.dtype == "float32"
    np.testing.assert_array_equal(found, value.float().numpy())


class Harmful:
    def __reduce__(self):
        return os.mkdir, (Harmful.target,)


@pytest.mark.parametrize("kind", ["zip", "before-1.6", "pickle"])
def test_code_is_refused_and_not_run(kind, tmp_path):
    Harmful.target = str(tmp_path / "made by the file")
    path = tmp_path / "pytorch_model.bin"
    if kind == "pickle":
        path.write_bytes(pickle.dumps(Harmful(), protocol=2))
    else:
        torch.save({"x": Harmful()}, path, _use_new_zipfile_serialization=kind == "zip")
    with pytest.raises(UserError, match="pickle with code in it, which was not run"):
        read_pytorch(path)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before-1.6"])
@pytest.mark.parametrize("kept", [0, 3, 40, -30])
def test_a_truncated_file(state, zipped, kept, tmp_path):
    path = tmp_path / "pytorch_model.bin"
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(UserError, match="must be a whole PyTorch file. Received .* bytes"):
        read_pytorch(path)


@pytest.mark.parametrize("content", [[1, 2], {}, {"x": 3}, {"model": {"x": 3}}], ids=repr)
def test_no_state_dict(content, tmp_path):
    torch.save(content, tmp_path / "x.bin")
    with pytest.raises(UserError, match="must be a model's state dict"):
        read_pytorch(tmp_path / "x.bin")


def test_without_torch(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UserError, match=r"pip install albert_tf\[torch\]"):
        read_pytorch(tmp_path / "pytorch_model.bin")

"""A damaged file of any format gives a checkpoint that fits its configuration, or a UserError."""

import importlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.checkpoints import google, hugging_face, names, tf_checkpoint
from albert_tf.checkpoints.finder import find
from albert_tf.checkpoints.weights import check_backbone
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from tests.checkpoints.presets import write_preset
from tests.fuzz.conftest import mutated


def write_hugging_face(folder, config, tensors):
    hugging_face.write(folder, config, tensors)


def write_shards(folder, config, tensors):
    hugging_face.write(folder, config, tensors)
    shard = folder / "model-1.safetensors"
    (folder / "model.safetensors").rename(shard)
    index = {"weight_map": dict.fromkeys(hugging_face.stored_names(tensors).values(), shard.name)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def write_torch(folder, config, tensors, zipped=True):
    torch = importlib.import_module("torch")
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    state = {name: torch.tensor(tensor) for name, tensor in tensors.items()}
    path = folder / "pytorch_model.bin"
    torch.save(state, path, _use_new_zipfile_serialization=zipped)


def write_old_torch(folder, config, tensors):
    write_torch(folder, config, tensors, zipped=False)


def write_flax(folder, config, tensors):
    import msgpack

    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    tree = {}
    for name, tensor in tensors.items():
        content = msgpack.packb((tensor.shape, "float32", tensor.tobytes()))
        tree[name.replace(".", "/")] = msgpack.ExtType(1, content)
    (folder / "flax_model.msgpack").write_bytes(msgpack.packb({"albert": tree}))


def write_tf_keras(folder, config, tensors):
    import h5py

    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    with h5py.File(folder / "tf_model.h5", "w") as file:
        for name, tensor in tensors.items():
            file[f"albert/model/albert/{name.replace('.', '/')}:0"] = tensor


def write_google(folder, config, tensors):
    google.write(folder, config, tensors)


def write_module(folder, config, tensors):
    """Writes a TF-Hub module whose graph has as much as the reader looks at."""
    from tensorflow.core.protobuf import saved_model_pb2

    google.write(folder / "google", config, tensors)
    variables = tf_checkpoint.read_variables(folder / "google" / google.PREFIX)
    (folder / "variables").mkdir()
    tf_checkpoint.write_variables(folder / "variables" / "variables", variables)
    for file in (folder / "google").iterdir():
        file.unlink()
    (folder / "google").rmdir()
    model = saved_model_pb2.SavedModel()
    graph = model.meta_graphs.add().graph_def
    calls = {"layer": ["Softmax", "Tanh", "Pow"], "model": ["layer"] * 3 + ["Tanh"]}
    for name, operations in calls.items():
        function = graph.library.function.add()
        function.signature.name = name
        for operation in operations:
            node = function.node_def.add(op=operation)
            if operation in calls:
                node.attr["f"].func.name = operation
    graph.node.add(op="PartitionedCall").attr["f"].func.name = "model"
    node = graph.node.add(op="Const", name="module/query/Reshape/shape")
    node.attr["value"].tensor.dtype = 3
    node.attr["value"].tensor.tensor_shape.dim.add(size=3)
    node.attr["value"].tensor.int_val.extend([config.hidden_size, config.num_attention_heads, 4])
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())


FORMATS = {
    "safetensors": write_hugging_face,
    "shards": write_shards,
    "torch": write_torch,
    "old-torch": write_old_torch,
    "flax": write_flax,
    "tf-keras": write_tf_keras,
    "google": write_google,
    "keras-hub": write_preset,
    "module": write_module,
}


@pytest.fixture(scope="module")
def folders(small_config, tmp_path_factory):
    """Returns a function that writes a checkpoint in a format, once, and gives its folder."""
    generator = np.random.default_rng(3)
    parts = ("embeddings", "encoder", "pooler", "classifier")
    tensors = {
        name: generator.standard_normal([3 if size is None else size for size in shape], "float32")
        for name, shape in names.shapes(small_config).items()
        if name.split(".")[0] in parts
    }
    made = {}

    def folder(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name) / "model"
            if name not in ("google", "module"):
                made[name].mkdir()
            FORMATS[name](made[name], small_config, tensors)
            assert read(made[name]) is not None
        return made[name]

    return folder


def read(folder):
    """Returns a checkpoint, or None if there is a UserError."""
    try:
        checkpoint = find(folder).read()
        check_backbone(checkpoint)
    except UserError as error:
        assert len(str(error)) < 20_000
        return None
    hugging_face.architecture(checkpoint.config, checkpoint.tensors)
    return checkpoint


@pytest.mark.parametrize(
    "format",
    [pytest.param(name, marks=pytest.mark.peers) if "torch" in name else name for name in FORMATS],
)
@given(data=st.data())
def test_every_file(folders, format, data):
    if "torch" in format:
        pytest.importorskip("torch", reason="needs torch (pip install albert_tf[torch])")
    folder = folders(format)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = data.draw(st.sampled_from(files), label="file")
    content = path.read_bytes()
    try:
        path.write_bytes(data.draw(mutated(content), label="content"))
        checkpoint = read(folder)
        if checkpoint is not None:
            assert isinstance(checkpoint.config, AlbertConfig)
            for name in names.shapes(checkpoint.config).keys() & checkpoint.tensors.keys():
                assert isinstance(checkpoint.tensors[name], np.ndarray)
    finally:
        path.write_bytes(content)


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=4),
        st.sampled_from([0, 1, 2, 31, 10**9, -1, 1e-12, "gelu", "all", "ffn"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.text(max_size=3), st.sampled_from("012")), inner, max_size=3),
    ),
    max_leaves=5,
)


@given(data=st.data())
def test_every_value_of_a_configuration(small_config, tmp_path_factory, data):
    values = small_config.to_dict()
    keys = [*values, "num_labels", "id2label", "problem_type", "share", "answerability"]
    changes = data.draw(st.dictionaries(st.sampled_from(keys), VALUES, min_size=1, max_size=3))
    path = tmp_path_factory.mktemp("config") / "config.json"
    path.write_text(json.dumps({**values, **changes}))
    try:
        config = AlbertConfig.from_json_file(path)
    except UserError:
        return
    assert AlbertConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    hash(config)

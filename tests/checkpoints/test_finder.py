import dataclasses
import json
import re
import tracemalloc

import pytest

from albert_tf.checkpoints import google, hugging_face
from albert_tf.checkpoints.finder import find
from albert_tf.errors import UserError
from tests.checkpoints.presets import write_preset
from tests.checkpoints.tensors import draw

WRITERS = {"hf": hugging_face.write, "tf1": google.write, "keras-hub": write_preset}


@pytest.fixture
def tensors(small_config):
    return draw(small_config)


@pytest.mark.parametrize(
    ("kind", "dtype"), [("hf", "float32"), ("hf", "float16"), ("keras-hub", "float32")]
)
def test_memory_of_reading(small_config, tmp_path, kind, dtype):
    """Reading takes at most twice the file's bytes, in addition to the model's in float32."""
    config = dataclasses.replace(small_config, vocab_size=100_000, embedding_size=30)
    tensors = {name: tensor.astype(dtype) for name, tensor in draw(config).items()}
    WRITERS[kind](tmp_path / "out", config, tensors)
    stored = sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    numbers = sum(tensor.size for tensor in tensors.values())
    find(tmp_path / "out").read()  # imports packages
    tracemalloc.start()
    find(tmp_path / "out").read()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert numbers * 4 < peak < 2 * stored + 4 * numbers * (dtype == "float16") + 2**20


def test_hugging_face_beside_others(small_config, tensors, tmp_path):
    """`model.save_weights("model.weights.h5")` doesn't turn a folder into a KerasHub preset."""
    google.write(tmp_path, small_config, tensors)
    hugging_face.write(tmp_path, small_config, tensors)
    (tmp_path / "model.weights.h5").write_bytes(b"of Keras")
    assert find(tmp_path).format == "hf"
    assert find(tmp_path).read().config == small_config


LINK = pytest.param(
    ["config.json", "model.safetensors@"],
    r"config.json, model.safetensors \(a broken link\)",
    marks=pytest.mark.posix,
)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "must contain config.json. Received: .*, which contains no files"),
        (["notes.txt", "model.onnx"], "config.json. Received: .*contains model.onnx, notes.txt"),
        (["config.json"], "must contain model.safetensors. Received: .*contains config.json"),
        (["config.json", "model.safetensors/"], "contains config.json, model.safetensors/. We"),
        ([f"{n}.txt" for n in range(10)], "7.txt, …"),
        LINK,
    ],
)
def test_nothing_to_read(tmp_path, files, message):
    for name in files:
        if name.endswith("/"):
            (tmp_path / name).mkdir()
        elif name.endswith("@"):
            (tmp_path / name[:-1]).symlink_to("blob")
        else:
            (tmp_path / name).write_text(json.dumps({"model_type": "albert"}))
    with pytest.raises(UserError, match=message) as raised:
        find(tmp_path).read()
    for other in ("pytorch_model.bin", "KerasHub", "TensorFlow", "TF-Hub", "flax_model.msgpack"):
        assert other in str(raised.value)


def test_weights_without_a_configuration(small_config, tensors, tmp_path):
    hugging_face.write(tmp_path, small_config, tensors)
    (tmp_path / "config.json").unlink()
    with pytest.raises(UserError, match="contains model.safetensors but no config.json"):
        find(tmp_path).read()
    assert find(tmp_path).read(small_config).config == small_config
    with pytest.raises(UserError, match="model.safetensors is a file.*tf_model.h5"):
        find(tmp_path / "model.safetensors")


@pytest.mark.parametrize("kind", WRITERS)
def test_a_given_configuration_replaces_one_that_no_one_can_read(
    small_config, tensors, tmp_path, kind
):
    WRITERS[kind](tmp_path, small_config, tensors)
    path = tmp_path / ("albert_config.json" if kind == "tf1" else "config.json")
    values = json.loads(path.read_text())
    if kind == "keras-hub":
        values["config"]["num_layers"] = "many"
    else:
        values["hidden_act"] = "mish"
    path.write_text(json.dumps(values))
    with pytest.raises(UserError, match="mish|many"):
        find(tmp_path).read()
    config = small_config.replace(hidden_dropout_prob=0.25)
    assert find(tmp_path).read(config).config == config


@pytest.mark.parametrize("options", [{}, {"weights": False, "tokenizer": True}], ids=str)
def test_a_folder_of_the_hub_cache(tmp_path, options):
    snapshot = tmp_path / "models--albert--albert-base-v2" / "snapshots" / "8e2f"
    snapshot.mkdir(parents=True)
    with pytest.raises(UserError, match=f"Hub cache. Pass {re.escape(str(snapshot))}[.]$"):
        find(snapshot.parents[1], **options)


@pytest.mark.parametrize("prefix", ["", "hf://keras/"])
def test_presets_of_keras_hub(prefix):
    with pytest.raises(UserError, match="preset of KerasHub. Pass 'albert/albert-xxlarge-v2'"):
        find(f"{prefix}albert_extra_extra_large_en_uncased")


def test_home(small_config, tensors, monkeypatch, tmp_path):
    hugging_face.write(tmp_path / "model", small_config, tensors)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find("~/model").folder == tmp_path / "model"
    with pytest.raises(UserError, match=f"Received: {tmp_path}/none, which is neither"):
        find("~/none")

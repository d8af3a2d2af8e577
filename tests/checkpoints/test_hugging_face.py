import json
import re

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.checkpoints import hugging_face, names
from albert_tf.checkpoints.finder import find
from albert_tf.checkpoints.hugging_face import collected
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.models import AlbertForMaskedLM

h5py = pytest.importorskip("h5py", reason="needs h5py, which Keras brings")


@pytest.fixture
def tensors(small_config):
    """Every weight of a pretraining model, by name."""
    generator = np.random.default_rng(2)
    return {
        name: generator.standard_normal(shape, "float32")
        for name, shape in names.shapes(small_config).items()
        if name.startswith(("embeddings", "encoder", "pooler", "predictions", "sop"))
    }


@pytest.fixture
def folder(small_config, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(small_config.to_dict()))
    return tmp_path


def kerass(name, array):
    """A tensor as transformers 4.57.6 with tf_keras 2.18 wrote it, seen in files made with them."""
    full = name if name.startswith(("predictions", "sop")) else f"albert.{name}"
    steps = re.sub(r"(groups|layers)\.(\d+)", r"\1@\2", full).split(".")
    if steps[-2] in ("token_type_embeddings", "position_embeddings"):
        steps[-1] = "embeddings"
    elif steps[-1] == "weight" and "orm" in steps[-2]:
        steps[-1] = "gamma"
    elif steps[-1] == "bias" and "orm" in steps[-2]:
        steps[-1] = "beta"
    elif steps[-1] == "weight" and steps[-2] != "word_embeddings":
        steps[-1], array = "kernel", array.T
    return "/".join(steps).replace("@", "_._") + ":0", array


def flaxes(name, array):
    """A tensor as transformers 4.57.6 with flax 0.10 wrote it, seen in files made with them."""
    full = name if name.startswith(("predictions", "sop")) else f"albert.{name}"
    steps = full.split(".")
    if steps[-2].endswith("_embeddings"):
        steps[-1] = "embedding"
    elif steps[-1] == "weight" and "orm" in steps[-2]:
        steps[-1] = "scale"
    elif steps[-1] == "weight":
        return [*steps[:-1], "kernel"], array.T
    return steps, array


def write_h5(folder, tensors):
    with h5py.File(folder / "tf_model.h5", "w") as file:
        for name, array in tensors.items():
            path, stored = kerass(name, array)
            file[f"{path.split('/')[0]}/tf_albert_for_pre_training/{path}"] = stored


def write_bin(folder, tensors):
    torch = pytest.importorskip("torch", reason="needs torch (pip install albert_tf[torch])")
    state = {names.stored_name(name): torch.tensor(tensors[name]) for name in tensors}
    torch.save(state, folder / "pytorch_model.bin")


def write_msgpack(folder, tensors):
    msgpack = pytest.importorskip("msgpack", reason="needs msgpack")
    tree = {}
    for name, array in tensors.items():
        steps, stored = flaxes(name, array)
        content = msgpack.packb((stored.shape, "float32", stored.tobytes()))
        branch = tree
        for step in steps[:-1]:
            branch = branch.setdefault(step, {})
        branch[steps[-1]] = msgpack.ExtType(1, content)
    (folder / "flax_model.msgpack").write_bytes(msgpack.packb(tree))


def write_safetensors(folder, tensors):
    hugging_face.write(folder, AlbertConfig.from_json_file(folder / "config.json"), tensors)


def write_safetensors_of(kind):
    def write(folder, tensors):
        if kind == "tf":
            stored = dict(kerass(*item) for item in tensors.items())
        else:
            turned = (flaxes(*item) for item in tensors.items())
            stored = {".".join(steps): array for steps, array in turned}
        stored = {name: np.ascontiguousarray(array) for name, array in stored.items()}
        safetensors.numpy.save_file(stored, folder / "model.safetensors", {"format": kind})

    return write


def write_shards(folder, tensors, split=None):
    """Writes two shards of safetensors; `split` gives each tensor's, by its name without prefix."""
    split = split or {name: place % 2 for place, name in enumerate(sorted(tensors))}
    weight_map = {}
    for number in (0, 1):
        file = f"model-{number}.safetensors"
        stored = {
            names.stored_name(name): tensors[name] for name in tensors if split[name] == number
        }
        safetensors.numpy.save_file(stored, folder / file)
        weight_map |= dict.fromkeys(stored, file)
    write_index(folder, "model.safetensors", weight_map)


def write_index(folder, file, weight_map):
    (folder / f"{file}.index.json").write_text(json.dumps({"weight_map": weight_map}))


def halves(tensors):
    """Both halves of the tensors, by number."""
    ordered = sorted(tensors)
    return {n: {name: tensors[name] for name in ordered[n::2]} for n in (0, 1)}


def write_h5_shards(folder, tensors):
    """As transformers 4 wrote them: no groups, and no name of the model, which the index has."""
    weight_map = {}
    for number, part in halves(tensors).items():
        with h5py.File(folder / f"tf_model-{number}.h5", "w") as file:
            for path, stored in (kerass(*item) for item in part.items()):
                file[path] = stored
                weight_map[f"tf_albert_for_pre_training/{path}"] = f"tf_model-{number}.h5"
    write_index(folder, "tf_model.h5", weight_map)


def write_msgpack_shards(folder, tensors):
    weight_map = {}
    for number, part in halves(tensors).items():
        write_msgpack(folder, part)
        (folder / "flax_model.msgpack").rename(folder / f"flax_model-{number}.msgpack")
        paths = ("/".join(flaxes(*item)[0]) for item in part.items())
        weight_map |= dict.fromkeys(paths, f"flax_model-{number}.msgpack")
    write_index(folder, "flax_model.msgpack", weight_map)


def write_bin_shards(folder, tensors):
    weight_map = {}
    for number, part in halves(tensors).items():
        write_bin(folder, part)
        (folder / "pytorch_model.bin").rename(folder / f"pytorch_model-{number}.bin")
        weight_map |= dict.fromkeys(map(names.stored_name, part), f"pytorch_model-{number}.bin")
    write_index(folder, "pytorch_model.bin", weight_map)


WRITERS = {
    "model.safetensors": write_safetensors,
    "model.safetensors.index.json": write_shards,
    "pytorch_model.bin": write_bin,
    "tf_model.h5": write_h5,
    "flax_model.msgpack": write_msgpack,
    "pytorch_model.bin.index.json": write_bin_shards,
    "tf_model.h5.index.json": write_h5_shards,
    "flax_model.msgpack.index.json": write_msgpack_shards,
}


@pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=pytest.mark.peers) if ".bin" in file else file for file in WRITERS],
)
def test_each_file_gives_the_same(folder, small_config, tensors, file):
    WRITERS[file](folder, tensors)
    assert (folder / file).is_file()
    checkpoint = find(folder).read()
    assert checkpoint.config == small_config
    assert checkpoint.origin == f"{folder} ({file})"
    assert checkpoint.tensors.keys() == tensors.keys()
    for name in tensors:
        np.testing.assert_array_equal(checkpoint.tensors[name], tensors[name], err_msg=name)


@pytest.mark.parametrize("kind", ["tf", "flax"])
def test_safetensors_of_tensorflow_and_flax(folder, tensors, kind):
    # transformers 4 wrote these with safe_serialization=True, by their own names.
    write_safetensors_of(kind)(folder, tensors)
    found = find(folder).read().tensors
    assert found.keys() == tensors.keys()
    for name in tensors:
        np.testing.assert_array_equal(found[name], tensors[name], err_msg=name)


def test_the_order_of_preference(folder, tensors):
    order = ["flax_model.msgpack", "tf_model.h5", "pytorch_model.bin"]
    order += ["model.safetensors.index.json", "model.safetensors"]
    for number, file in enumerate(order):
        WRITERS[file](folder, {**tensors, "pooler.bias": np.full(20, number, "float32")})
        assert find(folder).read().tensors["pooler.bias"][0] == number


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_comes_as_float32(folder, tensors, dtype):
    import ml_dtypes

    stored = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    half = {name: array.astype(stored) for name, array in tensors.items()}
    write_safetensors(folder, half)
    found = find(folder).read().tensors
    for name in tensors:
        assert found[name].dtype == "float32"
        np.testing.assert_array_equal(found[name], half[name].astype("float32"))


def test_bfloat16_without_keras(folder, tensors):
    """safetensors asks NumPy for the type by name, which it has once ml_dtypes is imported."""
    import subprocess
    import sys

    import ml_dtypes

    write_safetensors(folder, {name: tensors[name].astype(ml_dtypes.bfloat16) for name in tensors})
    code = "import sys; from albert_tf.checkpoints.finder import find\n"
    code += f"print(find({str(folder)!r}).read().tensors['pooler.bias'].dtype)\n"
    code += "assert not {'keras', 'tensorflow', 'torch', 'h5py'} & sys.modules.keys()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "float32\n", done.stderr


@pytest.mark.parametrize("other_shard", [0, 1])
def test_a_decoder_in_another_shard_that_is_not_tied(folder, tensors, other_shard):
    decoder, words = "predictions.decoder.weight", "embeddings.word_embeddings.weight"
    split = dict.fromkeys(tensors, 1 - other_shard) | {decoder: other_shard}
    write_shards(folder, {**tensors, decoder: tensors[words].copy()}, split)
    AlbertForMaskedLM.from_pretrained(folder)
    write_shards(folder, {**tensors, decoder: tensors[words] + 1}, split)
    with pytest.raises(UserError, match="must use the word table itself"):
        AlbertForMaskedLM.from_pretrained(folder)


def test_the_decoders_bias_in_another_shard_is_the_one_that_counts(folder, tensors):
    decoder = "predictions.decoder.bias"
    for number in (0, 1):
        split = dict.fromkeys(tensors, 1 - number) | {decoder: number}
        write_shards(folder, {**tensors, decoder: tensors["predictions.bias"] + 1}, split)
        found = find(folder).read().tensors["predictions.bias"]
        np.testing.assert_array_equal(found, tensors["predictions.bias"] + 1)


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, marks=pytest.mark.peers) if ".bin" in file else file
        for file in WRITERS
        if file.endswith("index.json")
    ],
)
def test_an_index_must_be_true(folder, tensors, file):
    WRITERS[file](folder, tensors)
    index = folder / file
    true = json.loads(index.read_text())["weight_map"]
    bias = next(name for name in true if "pooler" in name and "bias" in name)
    here, there = true[bias], next(shard for shard in true.values() if shard != true[bias])
    for wrong, received in (
        ({**true, bias: there}, f"({here} with|{there} without) pooler.bias"),
        ({name: true[name] for name in true if name != bias}, f"{here} with pooler.bias"),
        ({**true, "classifier/bias" if "/" in bias else "classifier.bias": here}, "without class"),
    ):
        write_index(folder, file.removesuffix(".index.json"), wrong)
        with pytest.raises(UserError, match=f"(?s)lists for it, and no others.*{received}"):
            find(folder).read()


def test_one_weight_in_two_shards(folder, tensors):
    write_shards(folder, tensors)
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    other = f"model-{1 - int(index['albert.pooler.bias'][6])}.safetensors"
    shard = safetensors.numpy.load_file(folder / other)
    safetensors.numpy.save_file(
        {**shard, "albert.pooler.bias": tensors["pooler.bias"] + 1}, folder / other
    )
    with pytest.raises(UserError, match=f"and no others. Received: {other} with pooler.bias"):
        find(folder).read()
    # Under its other name it can be listed, and the values decide.
    safetensors.numpy.save_file(
        {**shard, "pooler.bias": tensors["pooler.bias"] + 1}, folder / other
    )
    write_index(folder, "model.safetensors", {**index, "pooler.bias": other})
    with pytest.raises(UserError, match="hold each weight once. Received pooler.bias"):
        find(folder).read()


def test_an_index_may_list_the_copies_of_tied_weights(folder, tensors):
    """The hub's conversion to safetensors drops them from the shards alone."""
    write_shards(folder, tensors)
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    copy = {"predictions.decoder.weight": "model-0.safetensors"}
    write_index(folder, "model.safetensors", {**index, **copy})
    assert find(folder).read().tensors.keys() == tensors.keys()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must be a JSON object"),
        ("[]", "must be a JSON object"),
        ("{}", 'must have a "weight_map"'),
        ('{"weight_map": 3}', 'must have a "weight_map"'),
        ('{"weight_map": {"a": "../x"}}', "files beside it"),
        ('{"weight_map": {"a": "model.safetensors.index.json"}}', "files beside it.*'model"),
        # 135 characters, 258 bytes
        (f'{{"weight_map": {{"a": "{"ä" * 123}.safetensors"}}}}', "Received: 'ää.*255 bytes"),
    ],
)
def test_a_damaged_index(folder, content, message):
    (folder / "model.safetensors.index.json").write_text(content, "utf-8")
    with pytest.raises(UserError, match=message):
        find(folder).read()


def test_a_missing_shard(folder, tensors):
    write_shards(folder, tensors)
    (folder / "model-1.safetensors").unlink()
    with pytest.raises(UserError, match="must lie beside it. Missing: model-1.safetensors"):
        find(folder).read()


@pytest.mark.parametrize("file", [file for file in WRITERS if "index" not in file])
def test_a_truncated_file(folder, tensors, file):
    WRITERS[file](folder, tensors)
    (folder / file).write_bytes((folder / file).read_bytes()[:-50])
    message = f"Received {file}, which doesn't read|{file} must be a whole .* Received [0-9,]+ byte"
    with pytest.raises(UserError, match=message):
        find(folder).read()


WORDS = np.arange(12, dtype="float32").reshape(4, 3)
KERNEL = np.arange(10, dtype="float32").reshape(2, 5)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("albert.pooler.bias", "pooler.bias"),
        ("pooler.bias", "pooler.bias"),
        ("module.albert.pooler.bias", "pooler.bias"),  # torch.nn.DataParallel
        ("module.classifier.bias", "classifier.bias"),
        ("albert.embeddings.LayerNorm.gamma", "embeddings.LayerNorm.weight"),  # transformers 1, 2
        ("predictions.LayerNorm.beta", "predictions.LayerNorm.bias"),
        ("lm_head.extra", "lm_head.extra"),
    ],
)
def test_names_of_pytorch(source, name):
    ((stored, tensor),) = collected(hugging_face.from_pytorch({source: WORDS})).items()
    assert stored == name
    np.testing.assert_array_equal(tensor, WORDS)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("classifier/tf_albert_for_x_3/classifier/kernel:0", "classifier.weight"),
        ("albert/albert/albert/pooler/kernel:0", "pooler.weight"),  # a scope named as the model
    ],
)
def test_names_of_keras(source, name):
    ((stored, tensor),) = collected(hugging_face.from_keras({source: KERNEL}, True)).items()
    assert stored == name
    np.testing.assert_array_equal(tensor, KERNEL.T)


def test_redundant_tensors_are_dropped():
    given = {"albert.embeddings.position_ids": np.arange(3), "predictions.decoder.bias": WORDS[0]}
    stored = collected(hugging_face.from_pytorch(given))
    assert list(stored) == ["predictions.bias"]
    np.testing.assert_array_equal(stored["predictions.bias"], WORDS[0])


def test_an_unknown_weight_keeps_its_name():
    assert list(dict(hugging_face.from_keras({"other/kernel:0": KERNEL}))) == ["other/kernel:0"]


def test_one_weight_twice():
    twice = {"albert.pooler.bias": WORDS[0], "pooler.bias": WORDS[0].copy()}
    assert list(collected(hugging_face.from_pytorch(twice))) == ["pooler.bias"]
    twice["pooler.bias"] += 1
    with pytest.raises(UserError, match="each weight once. Received pooler.bias twice"):
        collected(hugging_face.from_pytorch(twice))


def test_the_decoders_bias_is_the_one_that_counts():
    # transformers' TFAlbertMLMHead adds `decoder_bias` and never `bias`; in PyTorch they are one.
    both = {"predictions/bias:0": WORDS[0], "predictions/decoder/bias:0": WORDS[1]}
    stored = collected(hugging_face.from_keras(both))
    assert list(stored) == ["predictions.bias"]
    np.testing.assert_array_equal(stored["predictions.bias"], WORDS[1])


def test_a_decoder_that_is_not_tied():
    tied = {"embeddings.word_embeddings.weight": WORDS, "predictions.decoder.weight": WORDS}
    stored = collected(hugging_face.from_pytorch(tied))
    assert list(stored) == ["embeddings.word_embeddings.weight"]
    tied["predictions.decoder.weight"] = WORDS + 1
    with pytest.raises(UserError, match="must use the word table itself"):
        collected(hugging_face.from_pytorch(tied))

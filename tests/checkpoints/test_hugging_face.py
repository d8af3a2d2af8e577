import json
import re
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from albert_tf.checkpoints import names
from albert_tf.checkpoints.finder import CheckpointLocation, find
from albert_tf.checkpoints.hugging_face import collect_tensors, from_keras, from_pytorch
from albert_tf.errors import UserError
from tests.checkpoints.tensors import assert_equal, draw

h5py = pytest.importorskip("h5py", reason="needs h5py, which Keras brings")
SAFETENSORS = "model.safetensors"
INDEX = "model.safetensors.index.json"


@pytest.fixture
def tensors(small_config):
    """Returns every weight of a pretraining model, keyed by name."""
    return draw(small_config, "predictions", "sop_classifier")


@pytest.fixture
def folder(small_config, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(small_config.to_dict()))
    return tmp_path


def in_keras(name, array):
    """A tensor as transformers 4.57.6 with tf_keras 2.18 wrote it, seen in files made with them."""
    steps = re.sub(r"(groups|layers)\.(\d+)", r"\1@\2", names.stored_name(name)).split(".")
    if steps[-2] in ("token_type_embeddings", "position_embeddings"):
        steps[-1] = "embeddings"
    elif steps[-1] == "weight" and "orm" in steps[-2]:
        steps[-1] = "gamma"
    elif steps[-1] == "bias" and "orm" in steps[-2]:
        steps[-1] = "beta"
    elif steps[-1] == "weight" and steps[-2] != "word_embeddings":
        steps[-1], array = "kernel", array.T
    return "/".join(steps).replace("@", "_._") + ":0", array


def in_flax(name, array):
    """A tensor as transformers 4.57.6 with flax 0.10 wrote it, seen in files made with them."""
    steps = names.stored_name(name).split(".")
    if steps[-2].endswith("_embeddings"):
        steps[-1] = "embedding"
    elif steps[-1] == "weight" and "orm" in steps[-2]:
        steps[-1] = "scale"
    elif steps[-1] == "weight":
        steps[-1], array = "kernel", array.T
    return "/".join(steps), array


def save_h5(path, tensors):
    stored = dict(in_keras(*item) for item in tensors.items())
    # Shards have no groups, and no name of the model, which the index has.
    is_shard = "-" in path.name
    with h5py.File(path, "w") as file:
        for name, array in stored.items():
            model = f"{name.split('/')[0]}/tf_albert_for_pre_training/"
            file[name if is_shard else model + name] = array
    return [f"tf_albert_for_pre_training/{name}" for name in stored]


def save_msgpack(path, tensors):
    msgpack = pytest.importorskip("msgpack", reason="needs msgpack")
    stored = dict(in_flax(*item) for item in tensors.items())
    tree = {}
    for name, array in stored.items():
        *branches, leaf = name.split("/")
        branch = tree
        for step in branches:
            branch = branch.setdefault(step, {})
        content = msgpack.packb((array.shape, "float32", array.tobytes()))
        branch[leaf] = msgpack.ExtType(1, content)
    path.write_bytes(msgpack.packb(tree))
    return stored


def save_bin(path, tensors):
    torch = pytest.importorskip("torch", reason="needs torch (pip install albert_tf[torch])")
    stored = {names.stored_name(name): torch.tensor(array) for name, array in tensors.items()}
    torch.save(stored, path)
    return stored


def save_safetensors(path, tensors, framework="pt"):
    """Saves them under the names of PyTorch, "tf", or "flax", as transformers 4 wrote them."""
    if framework == "tf":
        tensors = dict(in_keras(*item) for item in tensors.items())
    elif framework == "flax":
        renamed = (in_flax(*item) for item in tensors.items())
        tensors = {name.replace("/", "."): array for name, array in renamed}
    else:
        tensors = {names.stored_name(name): array for name, array in tensors.items()}
    stored = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    safetensors.numpy.save_file(stored, path, {"format": framework})
    return stored


SAVERS = {
    ".safetensors": save_safetensors,
    ".bin": save_bin,
    ".h5": save_h5,
    ".msgpack": save_msgpack,
}
FILES = [SAFETENSORS, "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack"]


def save_shards(folder, file, *parts):
    """Saves each part of the tensors in a file of its own, and an index of the files."""
    weight_map = {}
    for number, part in enumerate(parts):
        shard = (folder / file).with_stem(f"{file.split('.')[0]}-{number}")
        weight_map |= dict.fromkeys(SAVERS[shard.suffix](shard, part), shard.name)
    write_index(folder, weight_map, file)


def write_index(folder, weight_map, file=SAFETENSORS):
    (folder / f"{file}.index.json").write_text(json.dumps({"weight_map": weight_map}))


def halves(tensors):
    ordered = sorted(tensors)
    return [{name: tensors[name] for name in ordered[start::2]} for start in (0, 1)]


EVERY_FILE = pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=pytest.mark.peers) if ".bin" in file else file for file in FILES],
)


@EVERY_FILE
@pytest.mark.parametrize("in_shards", [False, True])
def test_each_file_gives_the_same(folder, small_config, tensors, file, in_shards):
    if in_shards:
        save_shards(folder, file, *halves(tensors))
    else:
        SAVERS[(folder / file).suffix](folder / file, tensors)
    checkpoint = find(folder).read()
    assert checkpoint.config == small_config
    assert checkpoint.origin == f"{folder} ({file}{'.index.json' * in_shards})"
    assert_equal(checkpoint.tensors, tensors)


@pytest.mark.parametrize("framework", ["tf", "flax"])
def test_safetensors_of_tensorflow_and_flax(folder, tensors, framework):
    save_safetensors(folder / SAFETENSORS, tensors, framework)
    assert_equal(find(folder).read().tensors, tensors)


@pytest.mark.parametrize("kind", ["checkpoint", "saved_model"])
def test_checkpoints_of_tensorflow_2(folder, small_config, tensors, kind):
    """The names and keys are those that TensorFlow 2.21 with tf_keras wrote for transformers 4."""
    import tensorflow as tf

    def variables(arrays, scope):
        scope += "tf_albert_for_pre_training_1/"
        named = (in_keras(*item) for item in arrays.items())
        return [tf.Variable(array, name=scope + name[:-2]) for name, array in named]

    model, optimizer, metric = tf.Module(), tf.Module(), tf.Module()
    model.kept = variables(tensors, "")
    optimizer._variables = variables({name: -array for name, array in tensors.items()}, "SGD/m/")
    optimizer._learning_rate = tf.Variable(0.1, name="learning_rate")
    metric.metrics = [tf.Variable([0.0, 1.0], name="true_positives")]
    model.optimizer, model.keras_api = optimizer, metric
    saved = folder / "saved_model" / "1"
    if kind == "saved_model":
        tf.saved_model.save(model, saved)
    else:
        tf.train.Checkpoint(net=model, opt=optimizer).save(saved / "ckpt")
    checkpoint = find(saved).read()
    assert checkpoint.config == small_config, "found two folders above"
    assert_equal(checkpoint.tensors, tensors)
    (folder / "config.json").unlink()
    with pytest.raises(UserError, match=f"{saved} contains .* but no config.json"):
        find(saved).read()
    assert_equal(find(saved).read(small_config).tensors, tensors)


def test_the_order_of_preference(folder):
    for name in reversed(FILES):
        for file in (f"{name}.index.json", name):
            (folder / file).touch()
            assert find(folder).weights.name == file


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_half_precision_comes_as_float32(folder, tensors, dtype):
    half = {name: array.astype(dtype) for name, array in tensors.items()}
    save_safetensors(folder / SAFETENSORS, half)
    found = find(folder).read().tensors
    assert_equal(found, {name: array.astype("float32") for name, array in half.items()})
    assert {array.dtype.name for array in found.values()} == {"float32"}


def test_bfloat16_without_keras(folder, tensors):
    """safetensors asks NumPy for the dtype by name, which works once ml_dtypes is imported."""
    half = {name: array.astype(ml_dtypes.bfloat16) for name, array in tensors.items()}
    save_safetensors(folder / SAFETENSORS, half)
    code = "import sys; from albert_tf.checkpoints.finder import find\n"
    code += f"print(find({str(folder)!r}).read().tensors['pooler.bias'].dtype)\n"
    code += "assert not {'keras', 'tensorflow', 'torch', 'h5py'} & sys.modules.keys()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "float32\n", done.stderr


@pytest.mark.parametrize("in_order", [True, False])
def test_the_decoder_in_another_shard(folder, tensors, in_order):
    """The models use its bias, and its weight must equal the word embedding matrix."""
    words = tensors["embeddings.word_embeddings.weight"]
    bias = tensors["predictions.bias"] + 1
    decoder = {"predictions.decoder.weight": words, "predictions.decoder.bias": bias}
    parts = [tensors, decoder] if in_order else [decoder, tensors]
    save_shards(folder, SAFETENSORS, *parts)
    assert_equal(find(folder).read().tensors, {**tensors, "predictions.bias": bias})
    decoder["predictions.decoder.weight"] = words + 1
    save_shards(folder, SAFETENSORS, *parts)
    with pytest.raises(UserError, match="predictions.decoder.weight and .* have different values"):
        find(folder).read()


def test_an_index_must_be_true(folder, tensors):
    first, second = halves(tensors)
    save_shards(folder, SAFETENSORS, first, second)
    true = json.loads((folder / INDEX).read_text())["weight_map"]
    name = "albert.pooler.bias"
    here, there = "model-1.safetensors", "model-0.safetensors"
    assert true[name] == here
    missing = {key: file for key, file in true.items() if key != name}
    for wrong, received in (
        ({**true, name: there}, f"{there} without pooler.bias, {here} with pooler.bias"),
        (missing, f"{here} with pooler.bias"),
        ({**true, "classifier.bias": here}, f"{here} without classifier.bias"),
    ):
        write_index(folder, wrong)
        with pytest.raises(UserError, match=f"lists for it. Received: {received}"):
            find(folder).read()
    # The hub's conversion to safetensors drops copies of tied weights from the shards alone.
    write_index(folder, {**true, "predictions.decoder.weight": here})
    assert_equal(find(folder).read().tensors, tensors)
    (folder / there).unlink()
    with pytest.raises(UserError, match=f"in its folder: {there}"):
        find(folder).read()


def test_a_damaged_index(folder):
    for content, message in {
        "[]": "a JSON object: a list",
        "{}": 'has no "weight_map"',
        '{"weight_map": 3}': 'has no "weight_map"',
        '{"weight_map": {"a": "../x.safetensors"}}': "Received: '../x",
        '{"weight_map": {"a": "model.safetensors.index.json"}}': "files in its folder.*'model",
        # 135 characters, 258 bytes
        f'{{"weight_map": {{"a": "{"ä" * 123}.safetensors"}}}}': "255 bytes. Received: 'ää",
    }.items():
        (folder / INDEX).write_text(content, "utf-8")
        with pytest.raises(UserError, match=message):
            find(folder).read()


@EVERY_FILE
def test_a_truncated_file(folder, tensors, file):
    path = folder / file
    SAVERS[path.suffix](path, tensors)
    path.write_bytes(path.read_bytes()[:-50])
    message = f"{file} can't be read|{file} (\\(.* bytes\\) is truncated|is damaged)"
    with pytest.raises(UserError, match=message) as raised:
        find(folder).read()
    assert "\n" not in str(raised.value)


@EVERY_FILE
@pytest.mark.parametrize("in_shards", [False, True])
def test_a_pointer_of_git_lfs(folder, tensors, file, in_shards):
    """Git leaves a small text in place of a file where Git LFS isn't installed."""
    name = file
    if in_shards:
        save_shards(folder, file, *halves(tensors))
        name = file.replace(".", "-1.")
    (folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(UserError, match=f"Git LFS pointers instead of {name}. Run git lfs"):
        find(folder).read()


@pytest.mark.posix
@EVERY_FILE
def test_a_file_that_cannot_be_opened(folder, tensors, file):
    """Uses a link to itself, because root can read files even after `chmod 0`."""
    SAVERS[(folder / file).suffix](folder / file, tensors)
    (folder / file).rename(folder / "loop")
    (folder / file).symlink_to(folder / file)
    location = CheckpointLocation(folder, "hf", folder / file)
    with pytest.raises(OSError, match=f"symbolic links: '.*{file}'"):
        location.read()


KERNEL = np.arange(10, dtype="float32").reshape(2, 5)


def test_names_of_pytorch_and_keras():
    for source, name in {
        "module.albert.pooler.weight": "pooler.weight",  # torch.nn.DataParallel
        "module.classifier.weight": "classifier.weight",
        "albert.embeddings.LayerNorm.gamma": "embeddings.LayerNorm.weight",  # transformers 1, 2
        "predictions.LayerNorm.beta": "predictions.LayerNorm.bias",
        "lm_head.extra": "lm_head.extra",
    }.items():
        assert_equal(dict(from_pytorch({source: KERNEL})), {name: KERNEL})
    for source, name, expected in (
        ("classifier/tf_albert_for_x_3/classifier/kernel:0", "classifier.weight", KERNEL.T),
        ("albert/albert/albert/pooler/kernel:0", "pooler.weight", KERNEL.T),  # a scope named so
        ("other/kernel:0", "other/kernel:0", KERNEL),
    ):
        assert_equal(dict(from_keras({source: KERNEL}, groups=True)), {name: expected})


def test_one_weight_under_two_names():
    twice = {"albert.pooler.weight": KERNEL, "pooler.weight": KERNEL.copy()}
    more = {"albert.embeddings.position_ids": np.arange(3)}
    assert_equal(collect_tensors(from_pytorch(twice | more)), {"pooler.weight": KERNEL})
    twice["pooler.weight"] += 1
    with pytest.raises(UserError, match="pooler.weight twice"):
        collect_tensors(from_pytorch(twice))

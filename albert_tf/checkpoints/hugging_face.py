"""Hugging Face directories: `config.json` and weights from PyTorch, TensorFlow, or Flax."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np

from albert_tf.checkpoints import bert, names, weight_files
from albert_tf.checkpoints.weights import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError, listed
from albert_tf.files import as_json, read_json, replace_files
from albert_tf.tasks import TASKS

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
INDEX: Final = ".index.json"  # suffix of a shard index, after the name of the weights file
# In order of preference. Each may be split into shards.
WEIGHT_FILES: Final = (WEIGHTS, "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack")
WEIGHT_NAMES: Final = tuple(name + ending for name in WEIGHT_FILES for ending in ("", INDEX))
_WORDS: Final = "embeddings.word_embeddings.weight"
_DECODER: Final = "predictions.decoder.weight"
_BIASES: Final = ("predictions.decoder.bias", "predictions.bias")
# Tensors that a file may contain in addition to its weights: a buffer of 0, 1, 2, …, and copies of
# the tied word embedding matrix and the head's bias.
_REDUNDANT: Final = frozenset(
    {"embeddings.position_ids", "predictions.decoder.weight", "predictions.decoder.bias"}
)
# Copies of tied weights. A file may lack them even if its index lists them.
_COPIES: Final = _REDUNDANT | {"predictions.bias"}
_LAYER: Final = "_._"  # precedes the layer number in the variable names of TensorFlow models
_LONGEST_NAME: Final = 255  # in bytes, the limit of most file systems
_NOTHING: Final = np.zeros(0, "float32")
_TOP: Final = frozenset(
    {names.BACKBONE, "embeddings", "encoder", names.POOLER, *names.HEADS, bert.NEXT_SENTENCE}
)
# The PyTorch name for the last part of a Keras or Flax weight's name. Kernels are transposed.
_LAST: Final = {
    "kernel": "weight",
    "gamma": "weight",
    "scale": "weight",
    "embedding": "weight",
    "embeddings": "weight",
    "beta": "bias",
}
Renamed = tuple[str, np.ndarray]  # a PyTorch name without "albert.", and its tensor
Rename = Callable[[Mapping[str, np.ndarray]], Iterator[Renamed]]


def read(
    folder: Path,
    weights: Path,
    config: AlbertConfig | None = None,
    variables: Mapping[str, np.ndarray] | None = None,
) -> Checkpoint:
    """Reads a directory with `config.json` and a weights file or its shard index.

    Args:
        variables: if `weights` is the prefix of a TensorFlow checkpoint, its variables; see
            `is_tf_model`. `config.json` may then also be in the two folders above, because
            transformers writes it there when it saves a SavedModel.
    """
    folders = (folder, *folder.absolute().parents[: 2 * (variables is not None)])
    path = next((each / CONFIG for each in folders if (each / CONFIG).exists()), folder / CONFIG)
    if config is None and not path.exists():
        raise UserError(
            f"{folder} contains {weights.name} but no {CONFIG}. Copy {CONFIG} there, or pass "
            "config=AlbertConfig(…)."
        )
    config = config or AlbertConfig.from_json_file(path)
    if variables is not None:
        renamed: Iterable[Renamed] = from_keras(variables)
    elif weights.name.endswith(INDEX):
        renamed = _read_shards(weights)
    else:
        content, rename = _load(weights)
        renamed = rename(content)
    tensors = list(renamed)
    if path.exists() and read_json(path).get("model_type") == bert.MODEL_TYPE:
        tensors = list(bert.albert_tensors(tensors))
    elif any(bert.is_layer(name) for name, _ in tensors):
        raise UserError(
            f"{weights} has BERT's weight names, which models such as RoBERTa also use. The folder "
            f"must contain the checkpoint's {CONFIG}, with model_type {bert.MODEL_TYPE!r}."
        )
    return Checkpoint(config, collect_tensors(tensors), f"{folder} ({weights.name})")


def is_tf_model(variables: Iterable[str]) -> bool:
    """Returns whether these variables are from a TensorFlow model of transformers 4."""
    return any(_LAYER in name for name in variables)


def write(
    folder: Path,
    config: AlbertConfig,
    tensors: Mapping[str, np.ndarray],
    class_name: str | None = None,
) -> None:
    """Writes `config.json` and `model.safetensors`, which transformers can read.

    Args:
        folder: created if missing; other files in it are kept.
        config: the model's configuration.
        tensors: tensors keyed by name, without "albert.".
        class_name: class name in transformers. By default, the class whose heads are in `tensors`.
    """
    has_head = bool({names.part(name) for name in tensors} - {None, names.POOLER})
    content = {
        names.stored_name(name) if has_head else name: np.ascontiguousarray(tensor)
        for name, tensor in tensors.items()
    }
    text = config_json(config, class_name or architecture(config, tensors))
    replace_files(
        folder,
        {
            CONFIG: text.encode(),
            WEIGHTS: lambda path: weight_files.write_tensors(path, content, {"format": "pt"}),
        },
    )


def config_json(config: AlbertConfig, class_name: str) -> str:
    """Returns the content of `config.json` for a model of this class."""
    values = {**config.to_dict(), "architectures": [class_name]}
    return as_json(values, sort_keys=True, ensure_ascii=False)


def architecture(config: AlbertConfig, tensors: Mapping[str, np.ndarray]) -> str:
    """Returns the name of the transformers class whose heads are in `tensors`."""
    parts = {names.part(name) for name in tensors}
    if "start_logits" in parts:  # SQuAD 2.0's head
        parts.add("qa_outputs")
    rows = getattr(tensors.get("classifier.weight"), "shape", ())[:1]
    scores_choices = rows == (1,) != (config.num_labels,)
    possible = [
        task
        for task in TASKS.values()
        if parts.issuperset(task.heads) and task.has_choices == scores_choices
    ]
    return max(possible, key=lambda task: len(task.heads)).model


def read_index(index: Path) -> dict[str, list[str]]:
    """Returns the tensor names in a shard index, keyed by file."""
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise UserError(
            f'{index} has no "weight_map", which maps tensor names to files. Copy it again from '
            "its source."
        )
    ending = PurePosixPath(index.name.removesuffix(INDEX)).suffix
    by_file: dict[str, list[str]] = {}
    for tensor, file in weight_map.items():
        name = str(file)
        is_plain = PurePosixPath(name).name == name and "\\" not in name and name.endswith(ending)
        if not is_plain or len(name.encode(errors="replace")) > _LONGEST_NAME:
            raise UserError(
                f"{index} must refer to {ending} files in its folder, with names of at most "
                f"{_LONGEST_NAME} bytes. Received: {name[:99]!r}. Copy it again from its source."
            )
        by_file.setdefault(name, []).append(tensor)
    return dict(sorted(by_file.items()))


def _load(path: Path, shard: bool = False) -> tuple[dict[str, np.ndarray], Rename]:
    """Returns a file's tensors under their names in the file, and the function that renames them.

    Args:
        shard: whether the file is a shard. HDF5 shards have no group per layer.
    """
    if path.suffix == ".bin":
        return weight_files.read_pytorch(path), from_pytorch
    if path.suffix == ".h5":
        return weight_files.read_hdf5(path), partial(from_keras, groups=not shard)
    if path.suffix == ".msgpack":
        return weight_files.read_flax(path), from_flax
    tensors, metadata = weight_files.read_tensors(path)
    tensors = {name: weight_files.as_float32(tensor) for name, tensor in tensors.items()}
    if metadata.get("format") == "tf":
        return tensors, from_keras
    if metadata.get("format") == "flax":
        return tensors, partial(from_flax, separator=".")
    return tensors, from_pytorch


def _read_shards(index: Path) -> list[Renamed]:
    """Reads all shards as if they were one file; each must contain what the index lists for it."""
    weight_map = read_index(index)
    missing = [name for name in weight_map if not (index.parent / name).is_file()]
    if missing:
        raise UserError(
            f"{index} refers to files that aren't in its folder: {', '.join(missing)}. Copy them "
            "there."
        )
    whole: list[Renamed] = []
    faults = []
    for file, sources in weight_map.items():
        tensors, rename = _load(index.parent / file, shard=True)
        shard = list(rename(tensors))
        wanted = {name for name, _ in rename(dict.fromkeys(sources, _NOTHING))}
        present = {name for name, _ in shard}
        # The Hub's conversion to safetensors drops copies of tied weights but still lists them.
        faults += [f"{file} without {name}" for name in sorted(wanted - present - _COPIES)]
        faults += [f"{file} with {name}" for name in sorted(present - wanted)]
        whole += shard
    if faults:
        raise UserError(
            f"Each shard must contain exactly the tensors that {index} lists for it. Received: "
            f"{listed(faults)}. Copy the index and all shards again from one source."
        )
    return whole


def from_pytorch(tensors: Mapping[str, np.ndarray]) -> Iterator[Renamed]:
    """Renames tensors from PyTorch, including old releases and `DataParallel`."""
    for source, tensor in tensors.items():
        name = source.removeprefix("module.").removeprefix(f"{names.BACKBONE}.")
        for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
            name = name.removesuffix(old) + new if name.endswith(old) else name
        yield name, tensor


def from_keras(tensors: Mapping[str, np.ndarray], groups: bool = False) -> Iterator[Renamed]:
    """Renames tensors from TensorFlow, such as `tf_albert_model/albert/pooler/kernel:0`.

    Args:
        groups: whether names begin with the layer's group, as in HDF5 files.
    """
    for source, tensor in tensors.items():
        steps = source.removesuffix(":0").replace(_LAYER, "/").split("/")
        yield _transposed(steps[groups:], source, tensor)


def from_flax(tensors: Mapping[str, np.ndarray], separator: str = "/") -> Iterator[Renamed]:
    """Renames tensors from Flax, such as `albert/pooler/kernel`."""
    for source, tensor in tensors.items():
        yield _transposed(source.split(separator), source, tensor)


def _transposed(steps: list[str], source: str, tensor: np.ndarray) -> Renamed:
    start = next((index for index, step in enumerate(steps) if step in _TOP), None)
    if start is None:  # An unknown name is kept, so that the error can list it.
        return source, tensor
    steps = steps[start:]
    while steps[0] == names.BACKBONE and len(steps) > 1:
        steps = steps[1:]
    if steps[-1] == "kernel" and tensor.ndim == 2:
        tensor = np.ascontiguousarray(tensor.T)
    return ".".join((*steps[:-1], _LAST.get(steps[-1], steps[-1]))), tensor


def collect_tensors(renamed: Iterable[Renamed]) -> dict[str, np.ndarray]:
    """Returns the tensors keyed by name, without duplicates or redundant copies.

    If the masked-LM head has two biases, the decoder's is kept, because models use that one.
    """
    tensors: dict[str, Any] = {}
    for name, tensor in renamed:
        if name in tensors and not np.array_equal(tensors[name], tensor):
            raise UserError(
                f"The checkpoint contains {name} twice, with different values. Remove the wrong "
                "one."
            )
        tensors[name] = tensor
    effective, stored = _BIASES
    if effective in tensors:
        tensors[stored] = tensors[effective]
    decoder, words = tensors.get(_DECODER), tensors.get(_WORDS)
    if decoder is not None and words is not None:
        turned = decoder.T if decoder.shape == words.shape[::-1] != words.shape else decoder
        if not np.array_equal(turned, words):
            raise UserError(
                "ALBERT's masked-LM head uses the word embedding matrix, but in this checkpoint "
                f"{_DECODER} and {_WORDS} have different values. Use an ALBERT checkpoint."
            )
    return {name: tensor for name, tensor in tensors.items() if name not in _REDUNDANT}

"""Reads KerasHub presets (JSON files, and weights in HDF5) without KerasHub."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.checkpoints import weight_files
from albert_tf.checkpoints.weights import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.files import read_json
from albert_tf.huggingface import KERAS_HUB_FIELDS
from albert_tf.labels import unnamed_labels

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.weights.h5"
VOCABULARY: Final = "assets/tokenizer/vocabulary.spm"
TASK_FILES: Final = ("task.json", "task.weights.h5")  # in presets with a head
_TASK, _TASK_WEIGHTS = TASK_FILES
_SHARDED: Final = "model.weights.json"
# The HDF5 group of a model's layers, in current files and in files from early Keras 3 versions.
_CONTAINERS: Final = ("layers", "_layer_checkpoint_dependencies")
_BOOKKEEPING: Final = frozenset({"name", "trainable", "dtype"})
# The problem type for a classifier's activation; our logits don't include the activation.
_ACTIVATIONS: Final = {
    "linear": None,
    "softmax": "single_label_classification",
    "sigmoid": "multi_label_classification",
}
_CLASS: Final = "AlbertBackbone"
_CLASSIFIERS: Final = ("AlbertTextClassifier", "AlbertClassifier")


class KerasHubWeight(NamedTuple):
    """The location and layout of a weight in a file."""

    layer: str
    path: str  # the layer's class name, numbered in the order of the graph
    below: tuple[str, ...]  # path below the layer
    variable: int
    transposed: bool  # whether KerasHub's array is the transpose of Hugging Face's
    axes: str  # axes if H is split into A heads of size D, otherwise ""

    def from_keras_hub(self, array: np.ndarray, config: AlbertConfig) -> np.ndarray:
        """Converts an array to Hugging Face's shape, unless the array's shape is unexpected."""
        if self.axes:
            width, heads = config.hidden_size, config.num_attention_heads
            lengths = {"H": width, "A": heads, "D": width // heads}
            if array.shape != tuple(lengths[axis] for axis in self.axes):
                return array
            array = array.reshape([width] * (2 if self.transposed else 1))
        return np.ascontiguousarray(array.T) if self.transposed else array


# The weights of a layer: Hugging Face's suffix, whether KerasHub's array is the transpose, and
# KerasHub's axes if H is split.
_Kind = tuple[tuple[str, bool, str], ...]
_DENSE: Final[_Kind] = (("weight", True, ""), ("bias", False, ""))
_NORM: Final[_Kind] = (("weight", False, ""), ("bias", False, ""))
_TABLE: Final[_Kind] = (("weight", False, ""),)
_SPLIT: Final[_Kind] = (("weight", True, "HAD"), ("bias", False, "AD"))
_MERGE: Final[_Kind] = (("weight", True, "ADH"), ("bias", False, ""))

_ATTENTION: Final = "_self_attention_layer"
# Hugging Face's module, KerasHub's layer, the layer's path, the path below it, and its weights.
_Row = tuple[str, str, str, tuple[str, ...], _Kind]
_BACKBONE: Final[tuple[_Row, ...]] = (
    ("embeddings.word_embeddings", "token_embedding", "reversible_embedding", (), _TABLE),
    ("embeddings.position_embeddings", "position_embedding", "position_embedding", (), _TABLE),
    ("embeddings.token_type_embeddings", "segment_embedding", "embedding", (), _TABLE),
    ("embeddings.LayerNorm", "embeddings_layer_norm", "layer_normalization", (), _NORM),
    ("encoder.embedding_hidden_mapping_in", "embedding_projection", "dense", (), _DENSE),
    ("pooler", "pooled_dense", "dense_1", (), _DENSE),
)
_BLOCK: Final[tuple[tuple[str, tuple[str, ...], _Kind], ...]] = (
    ("attention.query", (_ATTENTION, "query_dense"), _SPLIT),
    ("attention.key", (_ATTENTION, "key_dense"), _SPLIT),
    ("attention.value", (_ATTENTION, "value_dense"), _SPLIT),
    ("attention.dense", (_ATTENTION, "output_dense"), _MERGE),
    ("attention.LayerNorm", ("_self_attention_layer_norm",), _NORM),
    ("ffn", ("_feedforward_intermediate_dense",), _DENSE),
    ("ffn_output", ("_feedforward_output_dense",), _DENSE),
    ("full_layer_layer_norm", ("_feedforward_layer_norm",), _NORM),
)
_MLM: Final = ("mlm_head", "masked_lm_head")
_HEADS: Final[tuple[_Row, ...]] = (
    ("classifier", "logits", "dense", (), _DENSE),
    ("predictions", *_MLM, (), (("bias", False, ""),)),
    ("predictions.dense", *_MLM, ("_intermediate_dense",), _DENSE),
    ("predictions.LayerNorm", *_MLM, ("_intermediate_layer_norm",), _NORM),
)


def backbone_weights(config: AlbertConfig) -> dict[str, KerasHubWeight]:
    """Returns the weights in `model.weights.h5`, keyed by Hugging Face's tensor names."""
    rows = list(_BACKBONE)
    for block in range(config.stored_groups * config.inner_group_num):
        group, inner = divmod(block, config.inner_group_num)
        module = f"encoder.albert_layer_groups.{group}.albert_layers.{inner}"
        layer = f"group_{group}_inner_layer_{inner}"
        path = f"transformer_encoder_{block}" if block else "transformer_encoder"
        rows += [(f"{module}.{name}", layer, path, below, kind) for name, below, kind in _BLOCK]
    return _weights(rows)


def _weights(rows: Iterable[_Row]) -> dict[str, KerasHubWeight]:
    return {
        f"{module}.{weight}": KerasHubWeight(layer, path, below, index, transposed, axes)
        for module, layer, path, below, kind in rows
        for index, (weight, transposed, axes) in enumerate(kind)
    }


HEAD_WEIGHTS: Final = _weights(_HEADS)  # in `task.weights.h5`


def read(folder: Path, weights: Path, config: AlbertConfig | None = None) -> Checkpoint:
    """Reads a preset of AlbertBackbone, AlbertTextClassifier, or AlbertMaskedLM.

    KerasHub's masked-LM head uses a layer-norm epsilon of 1e-5 instead of 1e-12, so its logits
    differ slightly from ours.
    """
    for path in (folder / CONFIG, weights):
        if not path.is_file():
            hint = " Sharded presets aren't supported." if (folder / _SHARDED).is_file() else ""
            raise UserError(f"The KerasHub preset {folder} contains no {path.name}.{hint}")
    task = read_json(folder / _TASK) if (folder / _TASK).is_file() else None
    config = config or to_config(folder / CONFIG, task)
    tensors = dict(_read_weights(weights, config, backbone_weights(config)))
    if task and (folder / _TASK_WEIGHTS).is_file():
        tensors.update(_read_weights(folder / _TASK_WEIGHTS, config, HEAD_WEIGHTS))
    return Checkpoint(config, tensors, f"{folder} (KerasHub preset)")


def _read_weights(
    path: Path, config: AlbertConfig, weights: Mapping[str, KerasHubWeight]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the name and values of each tensor. Unknown tensors are named after their paths."""

    def steps(*path: str) -> tuple[str, ...]:
        # Some Keras versions prefix names with "_".
        return tuple(step.lstrip("_") for step in path)

    with weight_files.open_hdf5(path) as file:
        arrays = weight_files.hdf5_datasets(file)
        container = next((name for name in _CONTAINERS if name in file), "/")
        layers = {  # paths keyed by layer name; old files have no names
            str(layer["vars"].attrs["name"]): path
            for path, layer in file[container].items()
            if "vars" in layer and "name" in layer["vars"].attrs
        }
    by_steps = {}
    for name, weight in weights.items():
        layer = layers.get(weight.layer, weight.path)
        by_steps[steps(layer, *weight.below, "vars", str(weight.variable))] = name, weight
    for source, array in arrays.items():
        path_steps = steps(*source.removeprefix(f"{container}/").split("/"))
        if path_steps in by_steps:
            name, weight = by_steps[path_steps]
            yield name, weight.from_keras_hub(array, config)
        else:
            yield source, array


def _class_name(content: Mapping[str, Any]) -> str:
    """Returns an object's class name, without the package prefix of older files."""
    return content["class_name"].rsplit(">", 1)[-1]


def to_config(path: Path, task: Mapping[str, Any] | None) -> AlbertConfig:
    """Reads the configuration from the `config.json` and the task of a preset."""
    content = read_json(path)
    if _class_name(content) != _CLASS:
        raise UserError(f"{path} must describe an {_CLASS}. Received: {_class_name(content)}.")
    values = content["config"]
    unknown = values.keys() - KERAS_HUB_FIELDS.keys() - _BOOKKEEPING
    missing = KERAS_HUB_FIELDS.keys() - values.keys()
    if unknown or missing:
        raise UserError(
            f"{path} must contain the arguments of {_CLASS}. "
            f"Unknown: {', '.join(sorted(unknown)) or 'none'}. "
            f"Missing: {', '.join(sorted(missing)) or 'none'}."
        )
    fields = {ours: values[theirs] for theirs, ours in KERAS_HUB_FIELDS.items()}
    fields["attention_probs_dropout_prob"] = values["dropout"]
    try:
        config = AlbertConfig(hidden_act="gelu_new", **fields)
        return _with_task(config, task) if task else config
    except ValueError as error:
        raise UserError(f"The KerasHub preset {path.parent} is invalid: {error}") from error


def _with_task(config: AlbertConfig, task: Mapping[str, Any]) -> AlbertConfig:
    if _class_name(task) not in _CLASSIFIERS:
        return config
    values = task["config"]
    activation = values.get("activation") or "linear"
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise UserError(
            f"The classifier's activation must be one of {', '.join(_ACTIVATIONS)}. "
            f"Received: {activation!r}."
        )
    return dataclasses.replace(
        config,
        id2label=unnamed_labels(values.get("num_classes")),
        classifier_dropout_prob=values.get("dropout", config.classifier_dropout_prob),
        problem_type=_ACTIVATIONS[activation],
    )

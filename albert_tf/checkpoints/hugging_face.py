"""Hugging Face's directory: `config.json` beside weights of PyTorch, TensorFlow or Flax."""

import os
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes  # also gives NumPy the name "bfloat16", which safetensors asks it for
import numpy as np

from albert_tf.checkpoints import (
    conventions,
    directory,
    flax_file,
    h5_file,
    hub,
    names,
    pytorch_file,
    tensors,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.conventions import Named
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError


def matches(path: Path) -> bool:
    """Whether a directory holds weights in one of Hugging Face's files."""
    return path.is_dir() and directory.find_weights(path) is not None


def read(path: Path) -> Checkpoint:
    """Reads a directory; of several files of weights the one that is preferred.

    Raises:
        UserError: no configuration or no weights, another model's, or a damaged file.
    """
    return load(path)[0]


def load(path: Path) -> tuple[Checkpoint, dict[str, str]]:
    """`read`, and the name of each tensor in the file."""
    config = directory.read_config(path)
    file = directory.find_weights(path)
    if file is None:
        raise UserError(
            f"A model directory must hold {directory.WEIGHTS}. "
            f"Received {path}, which holds {directory.listing(path)}; also read are "
            f"{', '.join(directory.WEIGHT_FILES[1:])}."
        )
    named = _read_file(file)
    return Checkpoint(config, named.tensors, f"{path} ({file.name})"), named.sources


def write(
    folder: str | os.PathLike[str], config: AlbertConfig, weights: Mapping[str, np.ndarray]
) -> None:
    """Writes `config.json` and `model.safetensors`, by the names that transformers has for them.

    Args:
        folder: other files in it stay.
        config: the model's.
        weights: by name without "albert."; the heads among them say which class it is.
    """
    values = {**config.to_dict(), "architectures": [architecture(config, weights)]}
    stored = stored_names(weights)
    directory.write(
        folder, values, {stored[name]: np.ascontiguousarray(weights[name]) for name in weights}
    )


def stored_names(weights: Mapping[str, np.ndarray]) -> dict[str, str]:
    """What `write` calls each tensor."""
    heads = {names.part(name) for name in weights} - {None, names.POOLER}
    return {name: names.stored_name(name) if heads else name for name in weights}


def architecture(config: AlbertConfig, weights: Mapping[str, np.ndarray]) -> str:
    """The class of transformers that has these heads."""
    parts = {names.part(name) for name in weights}
    if "classifier" in parts:
        rows = len(weights["classifier.weight"])
        if rows == 1 != config.num_labels:
            return "AlbertForMultipleChoice"
        kind = "Sequence" if names.POOLER in parts else "Token"
        return f"AlbertFor{kind}Classification"
    if parts & {"qa_outputs", "start_logits"}:
        return "AlbertForQuestionAnswering"
    if "predictions" in parts:
        return "AlbertForPreTraining" if "sop_classifier" in parts else "AlbertForMaskedLM"
    return "AlbertModel"


def _read_file(path: Path) -> Named:
    if path.name.endswith(directory.INDEX):
        parts = [_read_file(path.parent / name) for name in _shards(path)]
        together = {name: tensor for part in parts for name, tensor in part.tensors.items()}
        sources = {name: source for part in parts for name, source in part.sources.items()}
        return Named(together, sources)
    if path.suffix == ".bin":
        return conventions.from_pytorch(pytorch_file.read(path))
    if path.suffix == ".h5":
        return conventions.from_keras(h5_file.read(path), groups=True)
    if path.suffix == ".msgpack":
        return conventions.from_flax(flax_file.read(path))
    return _from_safetensors(path)


def _from_safetensors(path: Path) -> Named:
    found, metadata = tensors.read_tensors(path)
    found = {name: _float32(tensor) for name, tensor in found.items()}
    if metadata.get("format") == "tf":
        return conventions.from_keras(found)
    if metadata.get("format") == "flax":
        return conventions.from_flax(found, separator=".")
    return conventions.from_pytorch(found)


def _float32(tensor: np.ndarray) -> np.ndarray:
    is_float = tensor.dtype.kind == "f" or tensor.dtype == ml_dtypes.bfloat16
    return tensor.astype("float32", copy=False) if is_float else tensor


def _shards(index: Path) -> list[str]:
    found = hub.shard_names(index)
    missing = [name for name in found if not (index.parent / name).is_file()]
    if missing:
        raise UserError(
            f"{index} names files that must lie beside it. Missing: {', '.join(missing)}. "
            "Copy them there."
        )
    return found

"""Google's own format: TensorFlow 1 checkpoints of google-research/albert, read and written."""

import dataclasses
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from albert_tf.checkpoints import albert_zh, model_garden, names, tf_checkpoint
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.google_config import layers_in_other_groups, to_google
from albert_tf.checkpoints.google_files import (
    CONFIG,
    STATE,
    find_prefix,
    is_checkpoint,
    read_config,
)
from albert_tf.config import AlbertConfig, unnamed_labels
from albert_tf.errors import UserError
from albert_tf.files import written_atomically

logger = logging.getLogger(__name__)

PREFIX: Final = "model.ckpt"
_SCOPE: Final = "module/"  # around the variables of a TF-Hub module in a graph
_PROJECTION: Final = "encoder.embedding_hidden_mapping_in"


def matches(path: Path) -> bool:
    """Whether a path is a TensorFlow 1 checkpoint: its prefix, one of its files, its directory."""
    return is_checkpoint(path)


def read(path: Path) -> Checkpoint:
    """Reads a checkpoint of the original code, of brightmart/albert_zh or of Model Garden.

    Args:
        path: the prefix of its files ("…/model.ckpt-best"), one of them, or the directory that
            holds them. `albert_config.json` lies beside them or one folder up.
    Returns:
        all weights without optimizer slots and counters; variables that no ALBERT has keep their
        names. A classifier's rows give the number of labels, SQuAD 2.0's head `answerability`.
    Raises:
        UserError: a file is missing or damaged, or which one is meant isn't clear.
    """
    prefix = find_prefix(path)
    config = read_config((prefix.parent, prefix.parent.parent))
    variables = in_googles_names(tf_checkpoint.read_variables(prefix))
    if albert_zh.matches(variables):
        config, variables = albert_zh.to_google(config, variables)
    if layers_in_other_groups(config):
        logger.warning("%s: the original code rounds layers into other groups than these.", prefix)
    return as_checkpoint(config, variables, f"{prefix} (Google's TensorFlow 1 checkpoint)")


def in_googles_names(variables: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Variables of the original, of a TF-Hub module or of Model Garden as the original's."""
    if model_garden.heads(variables):
        return model_garden.to_google(variables)
    return {name.removeprefix(_SCOPE): tensor for name, tensor in variables.items()}


def as_checkpoint(
    config: AlbertConfig, variables: Mapping[str, np.ndarray], origin: str
) -> Checkpoint:
    """Google's variables under Hugging Face's names, and what their heads say of the model."""
    table = names.google(config)
    tensors = {}
    for name, variable in variables.items():
        tensor, transposed = table.get(name, (name, False))
        tensors[tensor] = np.ascontiguousarray(variable.T) if transposed else variable
    if config.embedding_size == config.hidden_size:  # where the original has no projection
        width = config.hidden_size
        tensors.setdefault(f"{_PROJECTION}.weight", np.eye(width, dtype="float32"))
        tensors.setdefault(f"{_PROJECTION}.bias", np.zeros(width, "float32"))
    if "classifier.weight" in tensors:
        labels = unnamed_labels(len(tensors["classifier.weight"]))
        config = dataclasses.replace(config, id2label=labels)
    if "start_logits.dense.weight" in tensors:
        config = dataclasses.replace(config, answerability=True)
    return Checkpoint(config, tensors, origin)


def write(
    folder: str | os.PathLike[str],
    config: AlbertConfig,
    tensors: Mapping[str, np.ndarray],
    prefix: str = PREFIX,
    *,
    force: bool = False,
) -> None:
    """Writes what the original code loads: a checkpoint, `albert_config.json` and `checkpoint`.

    Names of labels, token ids and `classifier_dropout_prob` have no place in that format.

    Args:
        folder: made whole or not at all.
        config: the model's.
        tensors: by Hugging Face's names, with or without "albert.".
        prefix: the name of the checkpoint in the folder.
        force: replace what stands at `folder`.
    Raises:
        UserError: the original can't express the model, or `folder` is occupied.
    """
    values = to_google(config)
    variables = _variables(config, tensors)
    with written_atomically(folder, force=force) as new:
        new.mkdir()
        tf_checkpoint.write_variables(new / prefix, variables)
        (new / CONFIG).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        (new / STATE).write_text(
            f'model_checkpoint_path: "{prefix}"\nall_model_checkpoint_paths: "{prefix}"\n',
            encoding="utf-8",
        )


def _variables(config: AlbertConfig, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Google's variables, float32, and the step counter that its predictions want to restore."""
    given = {name.removeprefix(f"{names.BACKBONE}."): tensor for name, tensor in tensors.items()}
    if config.embedding_size == config.hidden_size:
        _drop_identity(given)
    table = {tensor: (name, turned) for name, (tensor, turned) in names.google(config).items()}
    if unknown := sorted(given.keys() - table.keys() - names.REDUNDANT):
        raise UserError(
            f"Google's code must have every weight of the model. Received: {', '.join(unknown)}, "
            "which it has not. Keep this model in another format."
        )
    variables = {"global_step": np.zeros((), "int64")}
    for tensor in given.keys() & table.keys():
        name, transposed = table[tensor]
        array = np.asarray(given[tensor]).astype("float32")
        variables[name] = np.ascontiguousarray(array.T) if transposed else array
    return variables


def _drop_identity(tensors: dict[str, np.ndarray]) -> None:
    """Takes the projection out where E = H: the original has none there."""
    weight = tensors.pop(f"{_PROJECTION}.weight")
    bias = tensors.pop(f"{_PROJECTION}.bias")
    if np.any(bias) or not np.array_equal(weight, np.eye(len(weight))):
        raise UserError(
            "Google's code has no projection where embedding_size equals hidden_size. "
            f"Received: both {len(weight)}, and a projection that changes its input. "
            "Keep this model in another format."
        )

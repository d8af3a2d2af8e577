"""Google's own format: TensorFlow 1 checkpoints of google-research/albert, read and written."""

import dataclasses
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf.checkpoints import google_variants, names, tf_checkpoint
from albert_tf.checkpoints.weights import Checkpoint
from albert_tf.config import GOOGLE_CONSTANTS, GOOGLE_FIELDS, AlbertConfig, unnamed_labels
from albert_tf.errors import UserError
from albert_tf.files import read_json, write_json, written_atomically

logger = logging.getLogger(__name__)

PREFIX: Final = "model.ckpt"
CONFIG: Final = "albert_config.json"
_CONFIGS: Final = (CONFIG, "bert_config.json", "config.json")
_OTHER_CONFIGS: Final = frozenset(
    {"tokenizer_config.json", "generation_config.json", "preprocessor_config.json"}
)
_SCOPE: Final = "module/"  # around the variables of a TF-Hub module in a graph
_PROJECTION: Final = "encoder.embedding_hidden_mapping_in"
_LAYER_NORM_EPSILON: Final = 1e-12  # tf.contrib.layers.layer_norm has no other
_ACTIVATIONS: Final = {"gelu_new": "gelu", "relu": "relu", "tanh": "tanh"}


def read(folder: Path, prefix: Path, config: AlbertConfig | None = None) -> Checkpoint:
    """Reads a checkpoint of the original code, of brightmart/albert_zh or of Model Garden.

    Args:
        folder: has `albert_config.json`, or lies in a folder that has.
        prefix: the path of its files without their endings.
        config: is used in the file's place.
    Returns:
        all weights without optimizer slots and counters; variables that no ALBERT has keep their
        names. A classifier's rows give the number of labels, SQuAD 2.0's head `answerability`.
    Raises:
        UserError: a file is missing or damaged, or several configurations are there.
    """
    if config is None:
        path = find_config((folder, folder.parent))
        if path is None:
            raise UserError(
                f"A checkpoint needs its configuration, {CONFIG}, beside it or one folder up. "
                f"Received: {folder}, without one. Copy it there."
            )
        config = read_config(path)
    variables = with_google_names(tf_checkpoint.read_variables(prefix))
    if google_variants.is_albert_zh(variables):
        config, variables = google_variants.from_albert_zh(config, variables)
    if layers_in_other_groups(config):
        logger.warning("%s: the original code rounds layers into other groups than these.", prefix)
    return as_checkpoint(config, variables, f"{prefix} (Google's TensorFlow 1 checkpoint)")


def find_config(folders: tuple[Path, ...]) -> Path | None:
    """Returns the configuration file in the first of these folders that has one.

    Raises:
        UserError: a folder has several, and none is called `albert_config.json`.
    """
    for folder in folders:
        known = [folder / name for name in _CONFIGS if (folder / name).is_file()]
        found = known[:1] or sorted(
            path for path in folder.glob("*config*.json") if path.name not in _OTHER_CONFIGS
        )
        if len(found) > 1:
            raise UserError(
                "There must be one configuration beside a checkpoint. "
                f"Received: {', '.join(map(str, found))}. Name the right one {CONFIG}."
            )
        if found:
            return found[0]
    return None


def read_config(path: Path) -> AlbertConfig:
    """Reads `albert_config.json`.

    Raises:
        UserError: the file isn't an ALBERT's.
    """
    config = AlbertConfig.from_json_file(path)
    if "embedding_size" not in read_json(path):
        raise UserError(
            "An ALBERT's configuration has embedding_size. "
            f"Received: {path} without it, as BERT's are. Give an ALBERT's checkpoint."
        )
    return config


def with_google_names(variables: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Renames the variables of a TF-Hub module or of Model Garden to the original's."""
    if google_variants.model_garden_heads(variables):
        return google_variants.from_model_garden(variables)
    return {name.removeprefix(_SCOPE): tensor for name, tensor in variables.items()}


def as_checkpoint(
    config: AlbertConfig, variables: Mapping[str, np.ndarray], origin: str
) -> Checkpoint:
    """Renames Google's variables to Hugging Face's; completes the configuration by their heads."""
    table = names.google(config)
    tensors = {}
    for name, variable in variables.items():
        tensor, transposed = table.get(name, (name, False))
        tensors[tensor] = np.ascontiguousarray(variable.T) if transposed else variable
    sources = {table.get(name, (name,))[0]: name for name in variables}
    width = config.hidden_size
    # Where the original has no projection; a file that holds no such matrix gets none either.
    if config.embedding_size == width and any(
        tensor.shape == (width, width) for tensor in tensors.values()
    ):
        tensors.setdefault(f"{_PROJECTION}.weight", np.eye(width, dtype="float32"))
        tensors.setdefault(f"{_PROJECTION}.bias", np.zeros(width, "float32"))
    if "classifier.weight" in tensors:
        labels = unnamed_labels(tensors["classifier.weight"].shape[0])
        config = dataclasses.replace(config, id2label=labels)
    if "start_logits.dense.weight" in tensors:
        config = dataclasses.replace(config, answerability=True)
    return Checkpoint(config, tensors, sources, origin)


def write(
    folder: str | os.PathLike[str],
    config: AlbertConfig,
    tensors: Mapping[str, np.ndarray],
    prefix: str = PREFIX,
    *,
    force: bool = False,
) -> None:
    """Writes the files that the original code loads.

    They are a checkpoint, `albert_config.json` and `checkpoint`. The format has no place for names
    of labels, token ids and `classifier_dropout_prob`.

    Args:
        folder: written atomically.
        config: the model's.
        tensors: by Hugging Face's names, with or without "albert.".
        prefix: the name of the checkpoint in the folder.
        force: whether to replace an existing folder.
    Raises:
        UserError: the original can't express the model, or `folder` exists.
    """
    values = to_google(config)
    variables = _variables(config, tensors)
    with written_atomically(folder, force=force) as new:
        new.mkdir()
        tf_checkpoint.write_variables(new / prefix, variables)
        write_json(new / CONFIG, values)
        (new / tf_checkpoint.STATE).write_text(
            f'model_checkpoint_path: "{prefix}"\nall_model_checkpoint_paths: "{prefix}"\n',
            encoding="utf-8",
        )


def to_google(config: AlbertConfig) -> dict[str, Any]:
    """Returns the content of `albert_config.json`; Google's "gelu" is the tanh approximation.

    Layers that share only some of their weights become as many groups.

    Raises:
        UserError: the original code has no such activation or epsilon, or would give a layer
            another group.
    """
    if config.hidden_act not in _ACTIVATIONS:
        raise UserError(
            f"Google's code knows the activations {', '.join(sorted(_ACTIVATIONS))}. "
            f"Received: hidden_act={config.hidden_act!r}. Keep this model in another format."
        )
    if config.layer_norm_eps != _LAYER_NORM_EPSILON:
        raise UserError(
            f"Google's code has layer_norm_eps={_LAYER_NORM_EPSILON}. "
            f"Received: {config.layer_norm_eps}. Keep this model in another format."
        )
    if differing := layers_in_other_groups(config):
        raise UserError(
            "Google's code must apply the same group in every layer. Received: "
            f"num_hidden_layers={config.num_hidden_layers} in {config.stored_groups} groups, where "
            f"its rounding gives layer {differing[0]} another. Keep this model in another format."
        )
    return {
        **{field: getattr(config, field) for field in sorted(GOOGLE_FIELDS)},
        **GOOGLE_CONSTANTS,
        "hidden_act": _ACTIVATIONS[config.hidden_act],
        "num_hidden_groups": config.stored_groups,
    }


def layers_in_other_groups(config: AlbertConfig) -> list[int]:
    """Returns the layers that the original rounds into another group than transformers does.

    Source: google-research/albert, modeling.py; transformers, modeling_albert.py.
    """
    layers, groups = config.num_hidden_layers, config.stored_groups
    return [
        layer
        for layer in range(layers)
        if int(layer / layers * groups) != int(layer / (layers / groups))
    ]


def _variables(config: AlbertConfig, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns Google's variables, float32, and the step counter that its predictions restore."""
    given = names.without_prefix(tensors)
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
    """Removes the projection where E = H: the original has none there."""
    weight = tensors.pop(f"{_PROJECTION}.weight")
    bias = tensors.pop(f"{_PROJECTION}.bias")
    if np.any(bias) or not np.array_equal(weight, np.eye(len(weight))):
        raise UserError(
            "Google's code has no projection where embedding_size equals hidden_size. "
            f"Received: both {len(weight)}, and a projection that changes its input. "
            "Keep this model in another format."
        )

"""Reads TensorFlow 1 checkpoints from google-research/albert, Model Garden, and albert_zh.

Also writes checkpoints that google-research/albert can load.
"""

import dataclasses
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf.checkpoints import hugging_face, names, tf_checkpoint
from albert_tf.checkpoints.weights import Checkpoint, identity_projection
from albert_tf.config import AlbertConfig
from albert_tf.config_files import GOOGLE_CONSTANTS, GOOGLE_FIELDS
from albert_tf.errors import UserError
from albert_tf.files import find_file, read_json, write_json
from albert_tf.labels import unnamed_labels

logger = logging.getLogger(__name__)

PREFIX: Final = "model.ckpt"
CONFIG: Final = "albert_config.json"
_CONFIGS: Final = (CONFIG, "bert_config.json", "config.json", "*config*.json")
_OTHER_CONFIGS: Final = frozenset(
    {"tokenizer_config.json", "generation_config.json", "preprocessor_config.json"}
)
_SCOPE: Final = "module/"  # variable scope of a TF-Hub module
_LAYER_NORM_EPSILON: Final = 1e-12  # fixed in tf.contrib.layers.layer_norm
_ACTIVATIONS: Final = {"gelu_new": "gelu", "relu": "relu", "tanh": "tanh"}
BLOCK: Final = "bert/encoder/transformer/group_0/inner_group_0/"
_GARDEN: Final = {
    "word_embeddings/embeddings": "bert/embeddings/word_embeddings",
    "position_embedding/embeddings": "bert/embeddings/position_embeddings",
    "type_embeddings/embeddings": "bert/embeddings/token_type_embeddings",
    "embeddings/layer_norm": "bert/embeddings/LayerNorm",
    "embedding_projection": "bert/encoder/embedding_hidden_mapping_in",
    "transformer/self_attention/query": f"{BLOCK}attention_1/self/query",
    "transformer/self_attention/key": f"{BLOCK}attention_1/self/key",
    "transformer/self_attention/value": f"{BLOCK}attention_1/self/value",
    "transformer/self_attention/attention_output": f"{BLOCK}attention_1/output/dense",
    "transformer/self_attention_output": f"{BLOCK}attention_1/output/dense",  # name until 2020
    "transformer/self_attention_layer_norm": f"{BLOCK}LayerNorm",
    "transformer/intermediate": f"{BLOCK}ffn_1/intermediate/dense",
    "transformer/output": f"{BLOCK}ffn_1/intermediate/output/dense",
    "transformer/output_layer_norm": f"{BLOCK}LayerNorm_1",
    "pooler_transform": "bert/pooler/dense",
    "cls/predictions/output_bias/bias": "cls/predictions/output_bias",
    "cls/predictions/transform/dense": "cls/predictions/transform/dense",
    "cls/predictions/transform/LayerNorm": "cls/predictions/transform/LayerNorm",
}
_GARDEN_NAME: Final = re.compile(
    rf"(?:.*/)?({'|'.join(map(re.escape, _GARDEN))})(/(?:kernel|bias|gamma|beta))?"
)
_GARDEN_QUERY: Final = "transformer/self_attention/query/kernel"
_ZH_TABLE: Final = "bert/embeddings/word_embeddings"
_ZH_PROJECTION: Final = "bert/embeddings/word_embeddings_2"
_ZH_PARTS: Final = {
    "attention/self": "attention_1/self",
    "attention/output/dense": "attention_1/output/dense",
    "attention/output/LayerNorm": "LayerNorm",
    "intermediate/dense": "ffn_1/intermediate/dense",
    "output/dense": "ffn_1/intermediate/output/dense",
    "output/LayerNorm": "LayerNorm_1",
}
_ZH_PART: Final = re.compile(
    rf"bert/encoder/layer_shared/({'|'.join(map(re.escape, _ZH_PARTS))})(?=/)"
)


def read(folder: Path, prefix: Path, config: AlbertConfig | None = None) -> Checkpoint:
    """Reads a checkpoint from the original code, brightmart/albert_zh, or Model Garden.

    Looks for `albert_config.json` in the folder, then in its parent. Omits optimizer slots and
    counters; variables that aren't part of an ALBERT model keep their names. The number of
    labels is inferred from the classifier, and `answerability` from the SQuAD 2.0 head.
    """
    variables = tf_checkpoint.read_variables(prefix)
    if hugging_face.is_tf_model(variables):
        return hugging_face.read(folder, prefix, config, variables)
    if config is None:
        path = find_config((folder, folder.parent))
        if path is None:
            raise UserError(
                f"{folder} contains no configuration. Copy the checkpoint's {CONFIG} there, or "
                "into its parent folder."
            )
        config = read_config(path)
    variables = with_google_names(variables)
    if _ZH_PROJECTION in variables:
        config, variables = from_albert_zh(config, variables)
    if layers_in_other_groups(config):
        logger.warning("%s: the original code assigns some layers to different groups.", prefix)
    return as_checkpoint(config, variables, f"{prefix} (TensorFlow checkpoint)")


def find_config(folders: tuple[Path, ...]) -> Path | None:
    """Returns the configuration file from the first of these folders that has one."""
    found = (find_file(each, _CONFIGS, "configurations", _OTHER_CONFIGS) for each in folders)
    return next(filter(None, found), None)


def read_config(path: Path) -> AlbertConfig:
    """Reads `albert_config.json`."""
    config = AlbertConfig.from_json_file(path)
    if "embedding_size" not in read_json(path):
        raise UserError(
            f"{path} has no embedding_size, so it may be a BERT configuration. Pass an ALBERT "
            "checkpoint."
        )
    return config


def with_google_names(variables: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Renames TF-Hub and Model Garden variables to the original code's names."""
    if model_garden_heads(variables):
        return from_model_garden(variables)
    return {name.removeprefix(_SCOPE): tensor for name, tensor in variables.items()}


def model_garden_heads(variables: Mapping[str, np.ndarray]) -> int | None:
    """Returns A from the shape `[H, A, H/A]` of Model Garden's query kernel, or None if absent."""
    kernels = [tensor for name, tensor in variables.items() if name.endswith(_GARDEN_QUERY)]
    return kernels[0].shape[1] if kernels and kernels[0].ndim == 3 else None


def from_model_garden(variables: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Renames and reshapes Model Garden's `AlbertEncoder` weights; keeps all other variables.

    Kernels `[H, A, H/A]` and `[A, H/A, H]` become `[H, H]`, and biases `[A, H/A]` become `[H]`.
    Source: tensorflow/models 2.20, official/nlp/modeling/networks/albert_encoder.py.
    """
    renamed = {}
    for name, tensor in variables.items():
        if match := _GARDEN_NAME.fullmatch(name):
            layer, part = match.group(1), match.group(2) or ""
            if "self_attention" in layer and part in ("/kernel", "/bias"):
                width = tensor.shape[-1] if layer.endswith("output") else tensor.shape[0]
                tensor = tensor.reshape((width, width) if part == "/kernel" else -1)
            name = _GARDEN[layer] + part
        renamed[name] = tensor
    return renamed


def from_albert_zh(
    config: AlbertConfig, variables: Mapping[str, np.ndarray]
) -> tuple[AlbertConfig, dict[str, np.ndarray]]:
    """Renames albert_zh variables to Google's names and converts the embedding to E = H.

    albert_zh projects only the word embeddings to H, without bias, then adds the position and type
    embeddings and applies layer norm. ALBERT does both at width E, before the projection. With E =
    H, ALBERT has no projection, so its word embedding matrix `[V, H]` is the product of albert_zh's
    matrix and projection. The masked-LM head uses the same product, because albert_zh projects the
    head's output back to E before scoring the words.
    Source: brightmart/albert_zh, modeling.py and run_pretraining.py.

    Raises:
        UserError: if the two matrices don't fit the other weights. This is checked first, because
            the product of unchecked matrices could take terabytes.
    """
    width = config.hidden_size
    table, projection = variables[_ZH_TABLE], variables[_ZH_PROJECTION]
    widths = {tensor.shape for tensor in variables.values()}
    if projection.shape != (*table.shape[1:], width) or (width, width) not in widths:
        raise UserError(
            f"An albert_zh checkpoint must contain {_ZH_TABLE} [V, E], {_ZH_PROJECTION} [E, H], "
            "and weights [H, H], where H is hidden_size. Received: "
            f"{table.shape}, {projection.shape}, and hidden_size={width}. Use the configuration "
            "that these weights were saved with."
        )
    renamed = {
        _ZH_PART.sub(lambda match: BLOCK + _ZH_PARTS[match.group(1)], name): tensor
        for name, tensor in variables.items()
        if name != _ZH_PROJECTION
    }
    renamed[_ZH_TABLE] = table @ projection
    return dataclasses.replace(config, embedding_size=config.hidden_size), renamed


def as_checkpoint(
    config: AlbertConfig, variables: Mapping[str, np.ndarray], origin: str
) -> Checkpoint:
    """Renames Google's variables to Hugging Face's names; infers config fields from the heads."""
    table = names.google(config)
    if table.keys().isdisjoint(variables):
        raise UserError(
            f"{origin} contains no variables with names from google-research/albert, Model Garden, "
            f"or transformers. Received: {', '.join(sorted(variables)[:3])}, …. Load it with the "
            "program that wrote it, and save the model there with save_pretrained."
        )
    tensors = {}
    for name, variable in variables.items():
        tensor, transposed = table.get(name, (name, False))
        tensors[tensor] = np.ascontiguousarray(variable.T) if transposed else variable
    width = config.hidden_size
    # If E = H, Google's code has no projection, so an identity is added, but only if the file
    # contains an [H, H] matrix. Otherwise, a wrong hidden_size could allocate a huge matrix.
    if config.embedding_size == width and any(
        tensor.shape == (width, width) for tensor in tensors.values()
    ):
        tensors = {**identity_projection(width), **tensors}
    if "classifier.weight" in tensors:
        labels = unnamed_labels(tensors["classifier.weight"].shape[0])
        config = dataclasses.replace(config, id2label=labels)
    if "start_logits.dense.weight" in tensors:
        config = dataclasses.replace(config, answerability=True)
    return Checkpoint(config, tensors, origin)


def write(folder: Path, config: AlbertConfig, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes a checkpoint for the original code, with `albert_config.json` and `checkpoint`.

    The format can't store label names, token ids, or `classifier_dropout_prob`.

    Args:
        folder: folder to write; created if missing.
        config: the model's configuration.
        tensors: arrays, keyed by Hugging Face's names without "albert.".
    Raises:
        UserError: if the original code doesn't support the model.
    """
    values, variables = to_google(config), _variables(config, tensors)
    folder.mkdir(parents=True, exist_ok=True)
    tf_checkpoint.write_variables(folder / PREFIX, variables)
    write_json(folder / CONFIG, values)
    (folder / tf_checkpoint.STATE).write_text(
        f'model_checkpoint_path: "{PREFIX}"\nall_model_checkpoint_paths: "{PREFIX}"\n',
        encoding="utf-8",
        newline="\n",
    )


def to_google(config: AlbertConfig) -> dict[str, Any]:
    """Returns the content of `albert_config.json`, in which "gelu" is the tanh approximation.

    Layers that share only some of their weights become separate groups.

    Raises:
        UserError: if the original code doesn't support the activation or the epsilon, or would
            assign a layer to a different group.
    """
    if config.hidden_act not in _ACTIVATIONS:
        raise UserError(
            "google-research/albert supports only the activations "
            f"{', '.join(sorted(_ACTIVATIONS))}. "
            f"Received: hidden_act={config.hidden_act!r}. Save this model in another format."
        )
    if config.layer_norm_eps != _LAYER_NORM_EPSILON:
        raise UserError(
            f"google-research/albert supports only layer_norm_eps={_LAYER_NORM_EPSILON}. "
            f"Received: {config.layer_norm_eps}. Save this model in another format."
        )
    if differing := layers_in_other_groups(config):
        raise UserError(
            f"With num_hidden_layers={config.num_hidden_layers} in {config.stored_groups} groups, "
            f"the rounding in google-research/albert assigns layer {differing[0]} to a different "
            "group. Save this model in another format."
        )
    return {
        **{field: getattr(config, field) for field in sorted(GOOGLE_FIELDS)},
        **GOOGLE_CONSTANTS,
        "hidden_act": _ACTIVATIONS[config.hidden_act],
        "num_hidden_groups": config.stored_groups,
    }


def layers_in_other_groups(config: AlbertConfig) -> list[int]:
    """Returns the indices of layers that the original code and transformers group differently.

    Source: google-research/albert, modeling.py; transformers, modeling_albert.py.
    """
    layers, groups = config.num_hidden_layers, config.stored_groups
    return [
        layer
        for layer in range(layers)
        if int(layer / layers * groups) != int(layer / (layers / groups))
    ]


def _variables(config: AlbertConfig, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns float32 variables for Google's code, plus the step counter that it restores."""
    given = dict(tensors)
    if config.embedding_size == config.hidden_size:  # The original code then has no projection.
        identity = identity_projection(config.hidden_size)
        if not all(np.array_equal(given.pop(name), tensor) for name, tensor in identity.items()):
            raise UserError(
                "Google's format has no projection if embedding_size equals hidden_size "
                f"({config.hidden_size}), but this model's projection isn't the identity. "
                "Save this model in another format."
            )
    table = {tensor: (name, turned) for name, (tensor, turned) in names.google(config).items()}
    if unknown := sorted(given.keys() - table.keys()):
        raise UserError(
            f"Google's format has no variable for {', '.join(unknown)}. Save this model in another "
            "format."
        )
    variables = {"global_step": np.zeros((), "int64")}
    for tensor, values in given.items():
        name, transposed = table[tensor]
        array = np.asarray(values).astype("float32")
        variables[name] = np.ascontiguousarray(array.T) if transposed else array
    return variables

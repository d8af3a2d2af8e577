"""The one table of KerasHub's weights: the place of each of Hugging Face's tensors in its files."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig

Transform = Callable[[np.ndarray, AlbertConfig], np.ndarray]


class Form(NamedTuple):
    """Converts a tensor to KerasHub's shape, and back."""

    there: Transform
    back: Transform


class Place(NamedTuple):
    """A tensor's place in a file: the name of its layer, the steps below it, the variable."""

    layer: str
    below: tuple[str, ...]
    variable: int
    form: Form


def _heads(config: AlbertConfig) -> tuple[int, int]:
    return config.num_attention_heads, config.hidden_size // config.num_attention_heads


def _flat(array: np.ndarray, config: AlbertConfig) -> np.ndarray:
    return array.reshape(config.hidden_size)


_SAME: Final = Form(lambda array, _: array, lambda array, _: array)
_TURNED: Final = Form(lambda array, _: array.T, lambda array, _: array.T)
# KerasHub's attention has an axis for the heads: [H, A, H/A] and [A, H/A, H].
_TO_HEADS: Final = Form(
    lambda array, config: array.T.reshape(config.hidden_size, *_heads(config)),
    lambda array, config: array.reshape(config.hidden_size, config.hidden_size).T,
)
_HEADS_BIAS: Final = Form(lambda array, config: array.reshape(_heads(config)), _flat)
_FROM_HEADS: Final = Form(
    lambda array, config: array.T.reshape(*_heads(config), config.hidden_size),
    lambda array, config: array.reshape(config.hidden_size, config.hidden_size).T,
)
_DENSE: Final = (("weight", 0, _TURNED), ("bias", 1, _SAME))
_NORM: Final = (("weight", 0, _SAME), ("bias", 1, _SAME))
_TABLE: Final = (("weight", 0, _SAME),)
_SPLIT: Final = (("weight", 0, _TO_HEADS), ("bias", 1, _HEADS_BIAS))
_MERGE: Final = (("weight", 0, _FROM_HEADS), ("bias", 1, _SAME))

_ATTENTION: Final = "_self_attention_layer"
# Hugging Face's module, KerasHub's layer and the steps below it, and the variables.
_BACKBONE: Final[tuple[tuple[str, str, tuple[str, ...], Any], ...]] = (
    ("embeddings.word_embeddings", "token_embedding", (), _TABLE),
    ("embeddings.position_embeddings", "position_embedding", (), _TABLE),
    ("embeddings.token_type_embeddings", "segment_embedding", (), _TABLE),
    ("embeddings.LayerNorm", "embeddings_layer_norm", (), _NORM),
    ("encoder.embedding_hidden_mapping_in", "embedding_projection", (), _DENSE),
    ("pooler", "pooled_dense", (), _DENSE),
)
_BLOCK: Final[tuple[tuple[str, tuple[str, ...], Any], ...]] = (
    ("attention.query", (_ATTENTION, "query_dense"), _SPLIT),
    ("attention.key", (_ATTENTION, "key_dense"), _SPLIT),
    ("attention.value", (_ATTENTION, "value_dense"), _SPLIT),
    ("attention.dense", (_ATTENTION, "output_dense"), _MERGE),
    ("attention.LayerNorm", ("_self_attention_layer_norm",), _NORM),
    ("ffn", ("_feedforward_intermediate_dense",), _DENSE),
    ("ffn_output", ("_feedforward_output_dense",), _DENSE),
    ("full_layer_layer_norm", ("_feedforward_layer_norm",), _NORM),
)
_TASKS: Final[tuple[tuple[str, str, tuple[str, ...], Any], ...]] = (
    ("classifier", "logits", (), _DENSE),
    ("predictions", "mlm_head", (), (("bias", 0, _SAME),)),
    ("predictions.dense", "mlm_head", ("_intermediate_dense",), _DENSE),
    ("predictions.LayerNorm", "mlm_head", ("_intermediate_layer_norm",), _NORM),
)


def backbone(config: AlbertConfig) -> dict[str, Place]:
    """Returns the place of each of the backbone's tensors in `model.weights.h5`."""
    rows = list(_BACKBONE)
    for group in range(config.stored_groups):
        for inner in range(config.inner_group_num):
            module = f"encoder.albert_layer_groups.{group}.albert_layers.{inner}"
            layer = f"group_{group}_inner_layer_{inner}"
            rows += [(f"{module}.{name}", layer, below, kind) for name, below, kind in _BLOCK]
    return _places(rows)


def tasks() -> dict[str, Place]:
    """Returns the place of each head's tensors in `task.weights.h5`."""
    return _places(list(_TASKS))


def layer_path(layer: str, config: AlbertConfig) -> str:
    """Returns a layer's path: its class, numbered in the order of the model's graph."""
    if not layer.startswith("group_"):
        return _PATHS[layer]
    _, group, *_, inner = layer.split("_")
    number = int(group) * config.inner_group_num + int(inner)
    return "transformer_encoder" + (f"_{number}" if number else "")


_PATHS: Final = {
    "token_embedding": "reversible_embedding",
    "position_embedding": "position_embedding",
    "segment_embedding": "embedding",
    "embeddings_layer_norm": "layer_normalization",
    "embedding_projection": "dense",
    "pooled_dense": "dense_1",
    "logits": "dense",
    "mlm_head": "masked_lm_head",
}


def _places(rows: list[Any]) -> dict[str, Place]:
    return {
        f"{module}.{weight}": Place(layer, below, index, form)
        for module, layer, below, kind in rows
        for weight, index, form in kind
    }

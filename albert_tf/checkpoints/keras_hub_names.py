"""The one table of KerasHub's weights: the place of each of Hugging Face's tensors in its files."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig


class Place(NamedTuple):
    """A tensor's place in a file: the name of its layer, the steps below it, the variable.

    Attributes:
        transposed: whether KerasHub's is the transpose of Hugging Face's.
        axes: KerasHub's axes where it splits H into heads: A, and D = H/A; "" elsewhere.
    """

    layer: str
    below: tuple[str, ...]
    variable: int
    transposed: bool
    axes: str

    def written(self, tensor: np.ndarray, config: AlbertConfig) -> np.ndarray:
        """Converts a tensor to KerasHub's shape."""
        turned = tensor.T if self.transposed else tensor
        return turned.reshape(self._lengths(config)) if self.axes else turned

    def read(self, array: np.ndarray, config: AlbertConfig) -> np.ndarray:
        """Converts an array to Hugging Face's shape; leaves one of another shape to the errors."""
        if self.axes:
            if array.shape != self._lengths(config):
                return array
            array = array.reshape([config.hidden_size] * (2 if self.transposed else 1))
        return np.ascontiguousarray(array.T) if self.transposed else array

    def _lengths(self, config: AlbertConfig) -> tuple[int, ...]:
        width, heads = config.hidden_size, config.num_attention_heads
        return tuple({"H": width, "A": heads, "D": width // heads}[axis] for axis in self.axes)


# The weights of a layer: Hugging Face's ending, transposed or not, KerasHub's axes if it splits H.
_Kind = tuple[tuple[str, bool, str], ...]
_DENSE: Final[_Kind] = (("weight", True, ""), ("bias", False, ""))
_NORM: Final[_Kind] = (("weight", False, ""), ("bias", False, ""))
_TABLE: Final[_Kind] = (("weight", False, ""),)
_SPLIT: Final[_Kind] = (("weight", True, "HAD"), ("bias", False, "AD"))
_MERGE: Final[_Kind] = (("weight", True, "ADH"), ("bias", False, ""))

_ATTENTION: Final = "_self_attention_layer"
# Hugging Face's module, KerasHub's layer and the steps below it, and the variables.
_BACKBONE: Final[tuple[tuple[str, str, tuple[str, ...], _Kind], ...]] = (
    ("embeddings.word_embeddings", "token_embedding", (), _TABLE),
    ("embeddings.position_embeddings", "position_embedding", (), _TABLE),
    ("embeddings.token_type_embeddings", "segment_embedding", (), _TABLE),
    ("embeddings.LayerNorm", "embeddings_layer_norm", (), _NORM),
    ("encoder.embedding_hidden_mapping_in", "embedding_projection", (), _DENSE),
    ("pooler", "pooled_dense", (), _DENSE),
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
_TASKS: Final[tuple[tuple[str, str, tuple[str, ...], _Kind], ...]] = (
    ("classifier", "logits", (), _DENSE),
    ("predictions", "mlm_head", (), (("bias", False, ""),)),
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
    return _places(_TASKS)


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


def _places(rows: Iterable[tuple[str, str, tuple[str, ...], _Kind]]) -> dict[str, Place]:
    return {
        f"{module}.{weight}": Place(layer, below, index, transposed, axes)
        for module, layer, below, kind in rows
        for index, (weight, transposed, axes) in enumerate(kind)
    }

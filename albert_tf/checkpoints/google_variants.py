"""Variables of Model Garden and of brightmart/albert_zh as google-research/albert's."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Final

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError

_BLOCK: Final = "bert/encoder/transformer/group_0/inner_group_0/"
_GARDEN: Final = {
    "word_embeddings/embeddings": "bert/embeddings/word_embeddings",
    "position_embedding/embeddings": "bert/embeddings/position_embeddings",
    "type_embeddings/embeddings": "bert/embeddings/token_type_embeddings",
    "embeddings/layer_norm": "bert/embeddings/LayerNorm",
    "embedding_projection": "bert/encoder/embedding_hidden_mapping_in",
    "transformer/self_attention/query": f"{_BLOCK}attention_1/self/query",
    "transformer/self_attention/key": f"{_BLOCK}attention_1/self/key",
    "transformer/self_attention/value": f"{_BLOCK}attention_1/self/value",
    "transformer/self_attention/attention_output": f"{_BLOCK}attention_1/output/dense",
    "transformer/self_attention_output": f"{_BLOCK}attention_1/output/dense",  # until 2020
    "transformer/self_attention_layer_norm": f"{_BLOCK}LayerNorm",
    "transformer/intermediate": f"{_BLOCK}ffn_1/intermediate/dense",
    "transformer/output": f"{_BLOCK}ffn_1/intermediate/output/dense",
    "transformer/output_layer_norm": f"{_BLOCK}LayerNorm_1",
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


def model_garden_heads(variables: Mapping[str, np.ndarray]) -> int | None:
    """Returns A from Model Garden's query kernel `[H, A, H/A]`; None for other variables."""
    found = [tensor for name, tensor in variables.items() if name.endswith(_GARDEN_QUERY)]
    return found[0].shape[1] if found and found[0].ndim == 3 else None


def from_model_garden(variables: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Renames and reshapes the weights of Model Garden's `AlbertEncoder`; keeps unknown ones.

    Kernels `[H, A, H/A]` and `[A, H/A, H]` become `[H, H]`, biases `[A, H/A]` become `[H]`.
    Source: tensorflow/models 2.20, official/nlp/modeling/networks/albert_encoder.py.
    """
    return dict(_from_model_garden(name, tensor) for name, tensor in variables.items())


def _from_model_garden(name: str, tensor: np.ndarray) -> tuple[str, np.ndarray]:
    match = _GARDEN_NAME.fullmatch(name)
    if not match:
        return name, tensor
    part = match.group(2) or ""
    if "self_attention" in match.group(1) and part in ("/kernel", "/bias"):
        width = tensor.shape[-1] if match.group(1).endswith("output") else tensor.shape[0]
        tensor = tensor.reshape((width, width) if part == "/kernel" else -1)
    return _GARDEN[match.group(1)] + part, tensor


def is_albert_zh(variables: Mapping[str, np.ndarray]) -> bool:
    """Whether a checkpoint is of brightmart/albert_zh."""
    return _ZH_PROJECTION in variables


def from_albert_zh(
    config: AlbertConfig, variables: Mapping[str, np.ndarray]
) -> tuple[AlbertConfig, dict[str, np.ndarray]]:
    """Returns the same model with the embedding of ALBERT's paper, E = H, and Google's names.

    That code projects the words alone, without bias, then adds positions and types and normalises,
    in H. ALBERT adds and normalises in E, before the projection. With E = H there is no projection,
    so a word table of the products, `[V, H]`, gives the same outputs; the masked-language head,
    which that code projects back to E, is tied to the same products.
    Source: brightmart/albert_zh, modeling.py and run_pretraining.py.

    Raises:
        UserError: the tables don't fit the other weights; their product may take terabytes.
    """
    width = config.hidden_size
    table, projection = variables[_ZH_TABLE], variables[_ZH_PROJECTION]
    widths = {tensor.shape for tensor in variables.values()}
    if projection.shape != (*table.shape[1:], width) or (width, width) not in widths:
        raise UserError(
            f"An albert_zh must have {_ZH_TABLE} [V, E], {_ZH_PROJECTION} [E, H] "
            f"and weights [H, H] with H = hidden_size. Received: {table.shape}, "
            f"{projection.shape} and hidden_size={width}. Give the configuration that these "
            "weights were saved with."
        )
    renamed = {
        _ZH_PART.sub(lambda match: _BLOCK + _ZH_PARTS[match.group(1)], name): tensor
        for name, tensor in variables.items()
        if name != _ZH_PROJECTION
    }
    renamed[_ZH_TABLE] = table @ projection
    return dataclasses.replace(config, embedding_size=config.hidden_size), renamed

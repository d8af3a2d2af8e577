"""brightmart/albert_zh's checkpoints as Google's: another order of embedding, and other names."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Final

import numpy as np

from albert_tf.config import AlbertConfig

_TABLE: Final = "bert/embeddings/word_embeddings"
_PROJECTION: Final = "bert/embeddings/word_embeddings_2"
_SHARED: Final = "bert/encoder/layer_shared/"
_BLOCK: Final = "bert/encoder/transformer/group_0/inner_group_0/"
_PARTS: Final = {
    "attention/self": "attention_1/self",
    "attention/output/dense": "attention_1/output/dense",
    "attention/output/LayerNorm": "LayerNorm",
    "intermediate/dense": "ffn_1/intermediate/dense",
    "output/dense": "ffn_1/intermediate/output/dense",
    "output/LayerNorm": "LayerNorm_1",
}
_PART: Final = re.compile(rf"{_SHARED}({'|'.join(map(re.escape, _PARTS))})(?=/)")


def matches(variables: Mapping[str, np.ndarray]) -> bool:
    """Whether a checkpoint is of that code."""
    return _PROJECTION in variables


def to_google(
    config: AlbertConfig, variables: Mapping[str, np.ndarray]
) -> tuple[AlbertConfig, dict[str, np.ndarray]]:
    """The same model with the embedding of ALBERT's paper, E = H, and Google's names.

    That code projects the words alone, without bias, and adds positions and types and normalises
    after that, in H. ALBERT adds and normalises in E, before the projection. With E = H there is
    no projection, so that a word table of the products, `[V, H]`, gives the same outputs; the
    masked-language head, which that code projects back to E, is tied to the same products.
    Source: brightmart/albert_zh, modeling.py and run_pretraining.py.
    """
    renamed = {
        _PART.sub(lambda match: _BLOCK + _PARTS[match.group(1)], name): tensor
        for name, tensor in variables.items()
        if name != _PROJECTION
    }
    renamed[_TABLE] = variables[_TABLE] @ variables[_PROJECTION]
    return dataclasses.replace(config, embedding_size=config.hidden_size), renamed

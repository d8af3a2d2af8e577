"""TensorFlow Model Garden's `AlbertEncoder` as Google's original: other names, kernels by head."""

import re
from collections.abc import Mapping
from typing import Final

import numpy as np

_BLOCK: Final = "bert/encoder/transformer/group_0/inner_group_0"
_NAMES: Final = {
    "word_embeddings/embeddings": "bert/embeddings/word_embeddings",
    "position_embedding/embeddings": "bert/embeddings/position_embeddings",
    "type_embeddings/embeddings": "bert/embeddings/token_type_embeddings",
    "embeddings/layer_norm": "bert/embeddings/LayerNorm",
    "embedding_projection": "bert/encoder/embedding_hidden_mapping_in",
    "transformer/self_attention/query": f"{_BLOCK}/attention_1/self/query",
    "transformer/self_attention/key": f"{_BLOCK}/attention_1/self/key",
    "transformer/self_attention/value": f"{_BLOCK}/attention_1/self/value",
    "transformer/self_attention/attention_output": f"{_BLOCK}/attention_1/output/dense",
    "transformer/self_attention_output": f"{_BLOCK}/attention_1/output/dense",  # until 2020
    "transformer/self_attention_layer_norm": f"{_BLOCK}/LayerNorm",
    "transformer/intermediate": f"{_BLOCK}/ffn_1/intermediate/dense",
    "transformer/output": f"{_BLOCK}/ffn_1/intermediate/output/dense",
    "transformer/output_layer_norm": f"{_BLOCK}/LayerNorm_1",
    "pooler_transform": "bert/pooler/dense",
    "cls/predictions/output_bias/bias": "cls/predictions/output_bias",
    "cls/predictions/transform/dense": "cls/predictions/transform/dense",
    "cls/predictions/transform/LayerNorm": "cls/predictions/transform/LayerNorm",
}
_NAME: Final = re.compile(
    rf"(?:.*/)?({'|'.join(map(re.escape, _NAMES))})(/(?:kernel|bias|gamma|beta))?"
)
_QUERY: Final = "transformer/self_attention/query/kernel"


def heads(variables: Mapping[str, np.ndarray]) -> int | None:
    """A, from the query's kernel `[H, A, H/A]`; None if these are other variables."""
    found = [tensor for name, tensor in variables.items() if name.endswith(_QUERY)]
    return found[0].shape[1] if found and found[0].ndim == 3 else None


def to_google(variables: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same weights under Google's names, in its shapes; unknown ones keep theirs.

    Kernels `[H, A, H/A]` and `[A, H/A, H]` become `[H, H]`, biases `[A, H/A]` become `[H]`.
    Source: tensorflow/models 2.20, official/nlp/modeling/networks/albert_encoder.py.
    """
    return dict(_to_google(name, tensor) for name, tensor in variables.items())


def _to_google(name: str, tensor: np.ndarray) -> tuple[str, np.ndarray]:
    match = _NAME.fullmatch(name)
    if not match:
        return name, tensor
    part = match.group(2) or ""
    if "self_attention" in match.group(1) and part in ("/kernel", "/bias"):
        width = tensor.shape[-1] if match.group(1).endswith("output") else tensor.shape[0]
        tensor = tensor.reshape((width, width) if part == "/kernel" else -1)
    return _NAMES[match.group(1)] + part, tensor

"""ALBERT's named sizes, as fields of `AlbertConfig`."""

from collections.abc import Mapping
from typing import Any, Final


def _size(hidden: int, layers: int, heads: int, dropout: float, **more: Any) -> dict[str, Any]:
    """Returns a published size; the feed-forward width is 4·H (table 1)."""
    return {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
        **more,
    }


_PUBLISHED: Final[Mapping[str, Mapping[str, Any]]] = {
    "base-v1": _size(768, 12, 12, 0.1),
    "large-v1": _size(1024, 24, 16, 0.1),
    "xlarge-v1": _size(2048, 24, 16, 0.1),
    "xxlarge-v1": _size(4096, 12, 64, 0.0),
    "base-v2": _size(768, 12, 12, 0.0),
    "large-v2": _size(1024, 24, 16, 0.0),
    "xlarge-v2": _size(2048, 24, 16, 0.0),
    "xxlarge-v2": _size(4096, 12, 64, 0.0),
}
# Source: google-research/albert's README for both releases; "mini" and "tiny" are this project's.
SIZES: Final[Mapping[str, Mapping[str, Any]]] = {
    **_PUBLISHED,
    **{name.removesuffix("-v2"): size for name, size in _PUBLISHED.items() if name.endswith("-v2")},
    "mini": _size(256, 4, 4, 0.1),
    "tiny": _size(
        32,
        3,
        4,
        0.0,
        vocab_size=1000,
        embedding_size=16,
        intermediate_size=64,
        max_position_embeddings=128,
    ),
}

"""Converts BERT encoders to ALBERT with E = H, an identity projection, and one group per layer.

BERT adds word, type, and position embeddings of size H and normalizes the sum. ALBERT does the same
at size E, and then projects to H. With E = H and an identity projection, ALBERT's outputs equal
BERT's.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from albert_tf.checkpoints.weights import identity_projection

MODEL_TYPE: Final = "bert"
NEXT_SENTENCE: Final = "seq_relationship"
_LAYER: Final = re.compile(r"encoder\.layer\.(\d+)\.(.*)\.(weight|bias)")
# BERT's and ALBERT's names for the modules of a layer.
_PARTS: Final[Mapping[str, str]] = {
    "attention.self.query": "attention.query",
    "attention.self.key": "attention.key",
    "attention.self.value": "attention.value",
    "attention.output.dense": "attention.dense",
    "attention.output.LayerNorm": "attention.LayerNorm",
    "intermediate.dense": "ffn",
    "output.dense": "ffn_output",
    "output.LayerNorm": "full_layer_layer_norm",
}
# BERT's and ALBERT's prefixes for all other modules.
_PREFIXES: Final[Mapping[str, str]] = {
    "pooler.dense.": "pooler.",
    "predictions.transform.": "predictions.",
    f"{NEXT_SENTENCE}.": "sop_classifier.classifier.",
}


def is_layer(name: str) -> bool:
    """Returns whether a tensor belongs to a layer of a BERT model."""
    return _LAYER.fullmatch(name.removeprefix(f"{MODEL_TYPE}.")) is not None


def albert_tensors(
    tensors: Iterable[tuple[str, np.ndarray]],
) -> Iterator[tuple[str, np.ndarray]]:
    """Renames BERT's tensors to their ALBERT names and adds the identity projection.

    Args:
        tensors: (PyTorch name, tensor) pairs.
    """
    for name, tensor in tensors:
        name = name.removeprefix(f"{MODEL_TYPE}.").removeprefix("cls.")
        if name == "embeddings.word_embeddings.weight":
            yield from identity_projection(tensor.shape[1]).items()
        elif (match := _LAYER.fullmatch(name)) and match[2] in _PARTS:
            layer = f"encoder.albert_layer_groups.{match[1]}.albert_layers.0"
            name = f"{layer}.{_PARTS[match[2]]}.{match[3]}"
        else:
            for theirs, ours in _PREFIXES.items():
                if name.startswith(theirs):
                    name = ours + name.removeprefix(theirs)
                    break
        yield name, tensor

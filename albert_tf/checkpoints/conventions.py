"""What PyTorch, TensorFlow and Flax call the tensors of one Hugging Face model, made alike."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.checkpoints import names
from albert_tf.errors import UserError

_WORDS: Final = "embeddings.word_embeddings.weight"
_DECODER: Final = "predictions.decoder.weight"
_BIASES: Final = ("predictions.decoder.bias", "predictions.bias")
_TOP: Final = frozenset({names.BACKBONE, "embeddings", "encoder", names.POOLER, *names.HEADS})
# The last step of a Keras or Flax weight's name. Their kernels are transposed.
_LAST: Final = {
    "kernel": "weight",
    "gamma": "weight",
    "scale": "weight",
    "embedding": "weight",
    "embeddings": "weight",
    "beta": "bias",
}


class Named(NamedTuple):
    """Tensors under this project's names, and the names that they have in the file."""

    tensors: dict[str, np.ndarray]
    sources: dict[str, str]


def from_pytorch(found: Mapping[str, np.ndarray]) -> Named:
    """PyTorch's names, those of old releases and of `DataParallel` too."""
    renamed = []
    for source, tensor in found.items():
        name = source.removeprefix("module.").removeprefix(f"{names.BACKBONE}.")
        for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
            name = name.removesuffix(old) + new if name.endswith(old) else name
        renamed.append((name, source, tensor))
    return _collected(renamed)


def from_keras(found: Mapping[str, np.ndarray], groups: bool = False) -> Named:
    """TensorFlow's names: `tf_albert_model/albert/pooler/kernel:0`.

    Args:
        found: tensors by name.
        groups: a layer's group stands before each name, as in HDF5 files.
    """
    renamed = []
    for source, tensor in found.items():
        steps = source.removesuffix(":0").replace("_._", "/").split("/")
        renamed.append(_turned(steps[groups:], source, tensor))
    return _collected(renamed)


def from_flax(found: Mapping[str, np.ndarray], separator: str = "/") -> Named:
    """Flax's names: `albert/pooler/kernel`."""
    return _collected(
        _turned(source.split(separator), source, tensor) for source, tensor in found.items()
    )


def _turned(steps: list[str], source: str, tensor: np.ndarray) -> tuple[str, str, np.ndarray]:
    start = next((place for place, step in enumerate(steps) if step in _TOP), None)
    if start is None:  # no weight of this model: it keeps its name, and loading lists it
        return source, source, tensor
    steps = steps[start:]
    while steps[0] == names.BACKBONE and len(steps) > 1:
        steps = steps[1:]
    if steps[-1] == "kernel" and tensor.ndim == 2:
        tensor = np.ascontiguousarray(tensor.T)
    return ".".join((*steps[:-1], _LAST.get(steps[-1], steps[-1]))), source, tensor


def _collected(renamed: Iterable[tuple[str, str, np.ndarray]]) -> Named:
    tensors: dict[str, np.ndarray] = {}
    sources: dict[str, str] = {}
    for name, source, tensor in renamed:
        if name in tensors and not np.array_equal(tensors[name], tensor):
            raise UserError(
                f"A checkpoint must hold each weight once. Received {name} as {sources[name]} and "
                f"as {source}, with other values. Remove the wrong one."
            )
        tensors[name], sources[name] = tensor, source
    _resolve_ties(tensors, sources)
    return Named(tensors, sources)


def _resolve_ties(tensors: dict[str, Any], sources: dict[str, str]) -> None:
    """Checks the tied table, and keeps the bias that the models compute with, the decoder's."""
    effective, other = _BIASES
    if effective in tensors:
        tensors[other], sources[other] = tensors.pop(effective), sources.pop(effective)
    decoder, words = tensors.get(_DECODER), tensors.get(_WORDS)
    if decoder is not None and words is not None:
        turned = decoder.T if decoder.shape == words.shape[::-1] != words.shape else decoder
        if not np.array_equal(turned, words):
            raise UserError(
                "The masked-word head must use the word table itself, as every ALBERT's does. "
                f"Received {sources[_DECODER]} with other values than {sources[_WORDS]}. "
                "This checkpoint is of another model."
            )

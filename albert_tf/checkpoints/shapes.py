"""What a whole checkpoint holds: every weight's shape by its configuration."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from albert_tf.checkpoints import names
from albert_tf.config import AlbertConfig

# Letters as everywhere: V vocabulary, E embedding, H hidden, I intermediate, P positions, T types;
# C is any number of classes. Modules by how their names end; their biases and norms have the first
# dimension.
_SIZES: Final = {
    "embeddings.word_embeddings": "V E",
    "embeddings.position_embeddings": "P E",
    "embeddings.token_type_embeddings": "T E",
    "embeddings.LayerNorm": "E",
    "encoder.embedding_hidden_mapping_in": "H E",
    "attention.query": "H H",
    "attention.key": "H H",
    "attention.value": "H H",
    "attention.dense": "H H",
    "attention.LayerNorm": "H",
    "ffn": "I H",
    "ffn_output": "H I",
    "full_layer_layer_norm": "H",
    "pooler": "H H",
    "predictions.dense": "E H",
    "predictions.LayerNorm": "E",
    "predictions": "V",
    "sop_classifier.classifier": "2 H",
    "classifier": "C H",
    "qa_outputs": "2 H",
    "start_logits.dense": "1 H",
    "end_logits.dense_0": "H 2H",
    "end_logits.LayerNorm": "H",
    "end_logits.dense_1": "1 H",
    "answer_class.dense_0": "H 2H",
    "answer_class.dense_1": "1 H",
}


_KEYS: Final = {
    "V": "vocab_size",
    "E": "embedding_size",
    "H": "hidden_size",
    "2H": "hidden_size",
    "I": "intermediate_size",
    "P": "max_position_embeddings",
    "T": "type_vocab_size",
    "C": "num_labels",
}


def expected(config: AlbertConfig) -> dict[str, tuple[int | None, ...]]:
    """The shape of every weight that the encoder, the pooler and all heads have; None is free."""
    hidden = config.hidden_size
    lengths = {"V": config.vocab_size, "E": config.embedding_size, "H": hidden, "C": None}
    lengths |= {"P": config.max_position_embeddings, "T": config.type_vocab_size}
    lengths |= {"I": config.intermediate_size, "1": 1, "2": 2, "2H": 2 * hidden}
    return {
        name: tuple(lengths[letter] for letter in _letters(name))
        for name, _ in names.google(config).values()
    }


def another_shape(name: str, found: Sequence[int], wanted: Sequence[int | None]) -> str | None:
    """What is wrong with a tensor's shape, and the keys of the configuration that decide it."""
    if len(found) == len(wanted):
        differing = [
            letter
            for letter, ours, theirs in zip(_letters(name), wanted, found, strict=True)
            if ours not in (None, theirs)
        ]
        if not differing:
            return None
    else:
        differing = _letters(name)
    keys = dict.fromkeys(_KEYS[letter] for letter in differing if letter in _KEYS)
    decided = f" ({', '.join(keys)})" if keys else ""
    return (
        f"another shape: {name} is {_readable(found)} in the checkpoint, {_readable(wanted)} by "
        f"the configuration{decided}"
    )


def bad_values(name: str, tensor: np.ndarray) -> str | None:
    """What is wrong with a tensor's numbers."""
    if np.issubdtype(tensor.dtype, np.integer):
        return f"not floating-point: {name}, {tensor.dtype}"
    return None if np.isfinite(tensor).all() else f"not finite: {name}"


def _letters(name: str) -> list[str]:
    """The size of each axis of a tensor, as in `_SIZES`."""
    module, weight = name.rsplit(".", 1)
    key = ".".join(module.split(".albert_layers.")[-1].split(".")[-2:]).lstrip("0123456789.")
    sizes = _SIZES[key].split()
    return sizes if weight == "weight" else sizes[:1]


def faults(config: AlbertConfig, tensors: Mapping[str, np.ndarray]) -> Iterator[str]:
    """What is missing, unknown, of another shape or not finite; heads may be absent as a whole."""
    wanted = expected(config)
    present = {names.part(name) for name in tensors}
    for name, shape in wanted.items():
        part = names.part(name)
        if name not in tensors:
            if part is None or part in present:
                yield f"missing from the checkpoint: {name} {_readable(shape)}"
            continue
        fault = another_shape(name, tensors[name].shape, shape) or bad_values(name, tensors[name])
        if fault:
            yield fault
    yield from (
        f"unknown to every model: {name} {tensors[name].shape}"
        for name in tensors
        if name not in wanted
    )


def _readable(shape: Sequence[int | None]) -> str:
    sizes = ", ".join("any" if size is None else str(size) for size in shape)
    return f"({sizes},)" if len(shape) == 1 else f"({sizes})"

"""The one table of weight names: ours, by attribute, and Hugging Face's, by tensor."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from albert_tf.config import AlbertConfig

# kind → (our attribute, Hugging Face's suffix, whether Hugging Face stores the transpose)
_PARTS: Final = {
    "table": (("", ".weight", False),),
    "dense": ((".kernel", ".weight", True), (".bias", ".bias", False)),
    "norm": ((".gamma", ".weight", False), (".beta", ".bias", False)),
}
_BLOCK: Final = "encoder.albert_layer_groups.{group}.albert_layers.{inner}"
_TABLE: Final = (
    ("table", "embedding.word_embeddings", "embeddings.word_embeddings"),
    ("table", "embedding.position_embeddings", "embeddings.position_embeddings"),
    ("table", "embedding.token_type_embeddings", "embeddings.token_type_embeddings"),
    ("norm", "embedding.layer_norm", "embeddings.LayerNorm"),
    ("dense", "embedding.projection", "encoder.embedding_hidden_mapping_in"),
    ("dense", "encoder.blocks.{block}.attention.query", f"{_BLOCK}.attention.query"),
    ("dense", "encoder.blocks.{block}.attention.key", f"{_BLOCK}.attention.key"),
    ("dense", "encoder.blocks.{block}.attention.value", f"{_BLOCK}.attention.value"),
    ("dense", "encoder.blocks.{block}.attention.dense", f"{_BLOCK}.attention.dense"),
    ("norm", "encoder.blocks.{block}.attention.layer_norm", f"{_BLOCK}.attention.LayerNorm"),
    ("dense", "encoder.blocks.{block}.ffn", f"{_BLOCK}.ffn"),
    ("dense", "encoder.blocks.{block}.ffn_output", f"{_BLOCK}.ffn_output"),
    ("norm", "encoder.blocks.{block}.layer_norm", f"{_BLOCK}.full_layer_layer_norm"),
    ("dense", "pooler", "pooler"),
)
_HEADS: Final = (("dense", "head.classifier", "classifier"),)
BACKBONE: Final = "albert"  # the attribute of a task model, and the prefix of its tensors
OPTIONAL_PARTS: Final = ("pooler", "classifier", "predictions", "sop_classifier", "qa_outputs")
# What a checkpoint may hold beside its weights: a buffer of 0, 1, 2, …, and the tied word table
# once more.
REDUNDANT: Final = frozenset(
    {"embeddings.position_ids", "predictions.decoder.weight", "predictions.decoder.bias"}
)


class Weight(NamedTuple):
    """One variable of a model, and how its tensor looks on disk."""

    variable: Any
    transposed: bool


def weights(model: Any) -> dict[str, Weight]:
    """Every variable of a model by Hugging Face's tensor name, without the prefix "albert."."""
    backbone = getattr(model, BACKBONE, model)
    found = dict(_rows(backbone, model.config, _TABLE))
    if backbone is not model:
        found.update(_rows(model, model.config, _HEADS))
    return found


def part(name: str) -> str | None:
    """The part that may be absent on one side, "pooler" or a head; None for the encoder."""
    first = name.split(".", 1)[0]
    return first if first in OPTIONAL_PARTS else None


def _rows(owner: Any, config: AlbertConfig, table: Any) -> Iterator[tuple[str, Weight]]:
    for kind, ours, theirs in table:
        if getattr(owner, ours.split(".", 1)[0], None) is None:
            continue  # a backbone without pooler
        blocks = config.num_hidden_groups * config.inner_group_num if "{block}" in ours else 1
        for block in range(blocks):
            group, inner = divmod(block, config.inner_group_num)
            layer = ours.format(block=block)
            tensor = theirs.format(group=group, inner=inner)
            for attribute, suffix, transposed in _PARTS[kind]:
                yield tensor + suffix, Weight(_resolve(owner, layer + attribute), transposed)


def _resolve(owner: Any, path: str) -> Any:
    for step in path.split("."):
        owner = owner[int(step)] if step.isdigit() else getattr(owner, step)
    return owner

"""The one table of weight names: ours by attribute, Hugging Face's tensors, Google's variables."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from albert_tf.config import AlbertConfig


class _Form(NamedTuple):
    """How one weight of a layer is called, and whether it is Hugging Face's transpose."""

    ours: str
    hugging_face: str
    google: str
    ours_transposed: bool = False
    google_transposed: bool = False


_FORMS: Final = {
    "table": (_Form("", ".weight", ""),),
    "dense": (
        _Form(".kernel", ".weight", "/kernel", ours_transposed=True, google_transposed=True),
        _Form(".bias", ".bias", "/bias"),
    ),
    # Without bias.
    "matrix": (
        _Form(".kernel", ".weight", "/kernel", ours_transposed=True, google_transposed=True),
    ),
    # Google's classifiers, made without a layer, keep their matrix as Hugging Face does.
    "output": (
        _Form(".kernel", ".weight", "output_weights", ours_transposed=True),
        _Form(".bias", ".bias", "output_bias"),
    ),
    "norm": (_Form(".gamma", ".weight", "/gamma"), _Form(".beta", ".bias", "/beta")),
    "bias": (_Form("", "", ""),),
}
_OURS: Final = "encoder.blocks.{block}"
_LAYER: Final = "encoder.albert_layer_groups.{group}.albert_layers.{inner}"
_SCOPE: Final = "bert/encoder/transformer/group_{group}/inner_group_{inner}"
# Kind, our attribute, Hugging Face's tensor, Google's variable.
_BACKBONE: Final = (
    (
        "table",
        "embedding.word_embeddings",
        "embeddings.word_embeddings",
        "bert/embeddings/word_embeddings",
    ),
    (
        "table",
        "embedding.position_embeddings",
        "embeddings.position_embeddings",
        "bert/embeddings/position_embeddings",
    ),
    (
        "table",
        "embedding.token_type_embeddings",
        "embeddings.token_type_embeddings",
        "bert/embeddings/token_type_embeddings",
    ),
    ("norm", "embedding.layer_norm", "embeddings.LayerNorm", "bert/embeddings/LayerNorm"),
    (
        "dense",
        "embedding.projection",
        "encoder.embedding_hidden_mapping_in",
        "bert/encoder/embedding_hidden_mapping_in",
    ),
    *(
        (
            "dense",
            f"{_OURS}.attention.{part}",
            f"{_LAYER}.attention.{part}",
            f"{_SCOPE}/attention_1/self/{part}",
        )
        for part in ("query", "key", "value")
    ),
    (
        "dense",
        f"{_OURS}.attention.dense",
        f"{_LAYER}.attention.dense",
        f"{_SCOPE}/attention_1/output/dense",
    ),
    (
        "norm",
        f"{_OURS}.attention.layer_norm",
        f"{_LAYER}.attention.LayerNorm",
        f"{_SCOPE}/LayerNorm",
    ),
    ("dense", f"{_OURS}.ffn.intermediate", f"{_LAYER}.ffn", f"{_SCOPE}/ffn_1/intermediate/dense"),
    (
        "dense",
        f"{_OURS}.ffn.output_dense",
        f"{_LAYER}.ffn_output",
        f"{_SCOPE}/ffn_1/intermediate/output/dense",
    ),
    (
        "norm",
        f"{_OURS}.ffn.layer_norm",
        f"{_LAYER}.full_layer_layer_norm",
        f"{_SCOPE}/LayerNorm_1",
    ),
    ("dense", "pooler", "pooler", "bert/pooler/dense"),
)
_HEADS: Final = (
    ("dense", "predictions.dense", "predictions.dense", "cls/predictions/transform/dense"),
    (
        "norm",
        "predictions.layer_norm",
        "predictions.LayerNorm",
        "cls/predictions/transform/LayerNorm",
    ),
    ("bias", "predictions.bias", "predictions.bias", "cls/predictions/output_bias"),
    ("output", "sop_classifier", "sop_classifier.classifier", "cls/seq_relationship/"),
    ("output", "classifier.dense", "classifier", ""),
    ("output", "qa_outputs.dense", "qa_outputs", "cls/squad/"),
    # SQuAD 2.0's head; Hugging Face's names for it are those of its XLNet model.
    ("dense", "answer_spans.start", "start_logits.dense", "start_logits/dense"),
    ("dense", "answer_spans.end_0", "end_logits.dense_0", "end_logits/dense_0"),
    ("norm", "answer_spans.layer_norm", "end_logits.LayerNorm", "end_logits/LayerNorm"),
    ("dense", "answer_spans.end_1", "end_logits.dense_1", "end_logits/dense_1"),
    ("dense", "answer_spans.answer_0", "answer_class.dense_0", "answer_class/dense_0"),
    ("matrix", "answer_spans.answer_1", "answer_class.dense_1", "answer_class/dense_1"),
)
BACKBONE: Final = "albert"  # the attribute of a task model, and the prefix of its tensors
POOLER: Final = "pooler"
HEADS: Final = tuple(dict.fromkeys(row[2].split(".", 1)[0] for row in _HEADS))
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
    """Every variable of a model by Hugging Face's tensor name, without the prefix "albert.".

    A variable that several layers share has one name for each where the format has no other way to
    say so (`config.stored_groups`).
    """
    backbone = getattr(model, BACKBONE, model)
    found = dict(_of_model(backbone, model.config, _BACKBONE))
    if backbone is not model:
        found.update(_of_model(model, model.config, _HEADS))
    return found


def google(config: AlbertConfig) -> dict[str, tuple[str, bool]]:
    """Hugging Face's tensor name by Google's variable name, and whether it is the transpose."""
    return {
        scope + form.google: (tensor + form.hugging_face, form.google_transposed)
        for form, _, tensor, scope in _rows(config, (*_BACKBONE, *_HEADS))
    }


def part(name: str) -> str | None:
    """The part that may be absent on one side, "pooler" or a head; None for the encoder."""
    first = name.split(".", 1)[0]
    return first if first in (POOLER, *HEADS) else None


def stored_name(name: str) -> str:
    """The name of a task model's tensor in a file: the backbone's have the prefix "albert."."""
    return name if part(name) not in (None, POOLER) else f"{BACKBONE}.{name}"


def _of_model(owner: Any, config: AlbertConfig, table: Any) -> Iterator[tuple[str, Weight]]:
    present = [row for row in table if getattr(owner, row[1].split(".", 1)[0], None) is not None]
    for form, layer, tensor, _ in _rows(config, present):
        variable = _resolve(owner, layer + form.ours)
        yield tensor + form.hugging_face, Weight(variable, form.ours_transposed)


def _rows(config: AlbertConfig, table: Any) -> Iterator[tuple[_Form, str, str, str]]:
    """Each weight's form, our layer, Hugging Face's and Google's, for every block there is."""
    for kind, ours, theirs, scope in table:
        blocks = config.stored_groups * config.inner_group_num if "{block}" in ours else 1
        for block in range(blocks):
            group, inner = divmod(block, config.inner_group_num)
            for form in _FORMS[kind]:
                yield (
                    form,
                    ours.format(block=block),
                    theirs.format(group=group, inner=inner),
                    scope.format(group=group, inner=inner),
                )


def _resolve(owner: Any, path: str) -> Any:
    for step in path.split("."):
        owner = owner[int(step)] if step.isdigit() else getattr(owner, step)
    return owner

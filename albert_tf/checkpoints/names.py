"""The table of weights: our attribute, Hugging Face's and Google's names, and the shape."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from albert_tf.config import AlbertConfig


class _Form(NamedTuple):
    """A weight's name suffixes, and which formats store the transpose of Hugging Face's array."""

    ours: str
    hugging_face: str
    google: str
    ours_transposed: bool = False
    google_transposed: bool = False


_FORMS: Final[dict[str, tuple[_Form, ...]]] = {
    "table": (_Form("", ".weight", ""),),
    "dense": (
        _Form(".kernel", ".weight", "/kernel", ours_transposed=True, google_transposed=True),
        _Form(".bias", ".bias", "/bias"),
    ),
    # A matrix without a bias.
    "matrix": (
        _Form(".kernel", ".weight", "/kernel", ours_transposed=True, google_transposed=True),
    ),
    # Google's classifiers aren't layers, and store their matrix in Hugging Face's orientation.
    "output": (
        _Form(".kernel", ".weight", "output_weights", ours_transposed=True),
        _Form(".bias", ".bias", "output_bias"),
    ),
    "norm": (_Form(".gamma", ".weight", "/gamma"), _Form(".beta", ".bias", "/beta")),
    "bias": (_Form("", "", ""),),
}
PROJECTION: Final = "encoder.embedding_hidden_mapping_in"
_OURS: Final = "encoder.blocks.{block}"
_LAYER: Final = "encoder.albert_layer_groups.{group}.albert_layers.{inner}"
_SCOPE: Final = "bert/encoder/transformer/group_{group}/inner_group_{inner}"
# Kind, our attribute, Hugging Face's tensor, Google's variable, and the axes in Hugging Face's
# orientation: V vocabulary, P positions, T types, E embedding, H hidden, I intermediate, C classes.
# Biases and layer norms have only the first axis.
_BACKBONE: Final = (
    *(
        (
            "table",
            f"embedding.{table}_embeddings",
            f"embeddings.{table}_embeddings",
            f"bert/embeddings/{table}_embeddings",
            axes,
        )
        for table, axes in (("word", "V E"), ("position", "P E"), ("token_type", "T E"))
    ),
    ("norm", "embedding.layer_norm", "embeddings.LayerNorm", "bert/embeddings/LayerNorm", "E"),
    (
        "dense",
        "embedding.projection",
        PROJECTION,
        "bert/encoder/embedding_hidden_mapping_in",
        "H E",
    ),
    *(
        (kind, f"{_OURS}.{ours}", f"{_LAYER}.{theirs}", f"{_SCOPE}/{google}", axes)
        for kind, ours, theirs, google, axes in (
            ("dense", "attention.query", "attention.query", "attention_1/self/query", "H H"),
            ("dense", "attention.key", "attention.key", "attention_1/self/key", "H H"),
            ("dense", "attention.value", "attention.value", "attention_1/self/value", "H H"),
            ("dense", "attention.dense", "attention.dense", "attention_1/output/dense", "H H"),
            ("norm", "attention.layer_norm", "attention.LayerNorm", "LayerNorm", "H"),
            ("dense", "ffn.intermediate", "ffn", "ffn_1/intermediate/dense", "I H"),
            ("dense", "ffn.output_dense", "ffn_output", "ffn_1/intermediate/output/dense", "H I"),
            ("norm", "ffn.layer_norm", "full_layer_layer_norm", "LayerNorm_1", "H"),
        )
    ),
    ("dense", "pooler", "pooler", "bert/pooler/dense", "H H"),
)
_HEADS: Final = (
    ("dense", "predictions.dense", "predictions.dense", "cls/predictions/transform/dense", "E H"),
    (
        "norm",
        "predictions.layer_norm",
        "predictions.LayerNorm",
        "cls/predictions/transform/LayerNorm",
        "E",
    ),
    ("bias", "predictions.bias", "predictions.bias", "cls/predictions/output_bias", "V"),
    ("output", "sop_classifier", "sop_classifier.classifier", "cls/seq_relationship/", "2 H"),
    ("output", "classifier.dense", "classifier", "", "C H"),
    ("output", "qa_outputs.dense", "qa_outputs", "cls/squad/", "2 H"),
    # SQuAD 2.0's head, under the names of Hugging Face's XLNet model.
    ("dense", "answer_spans.start", "start_logits.dense", "start_logits/dense", "1 H"),
    ("dense", "answer_spans.end_0", "end_logits.dense_0", "end_logits/dense_0", "H 2H"),
    ("norm", "answer_spans.layer_norm", "end_logits.LayerNorm", "end_logits/LayerNorm", "H"),
    ("dense", "answer_spans.end_1", "end_logits.dense_1", "end_logits/dense_1", "1 H"),
    ("dense", "answer_spans.answer_0", "answer_class.dense_0", "answer_class/dense_0", "H 2H"),
    ("matrix", "answer_spans.answer_1", "answer_class.dense_1", "answer_class/dense_1", "1 H"),
)
BACKBONE: Final = "albert"  # a task model's attribute for the encoder, and its tensors' prefix
POOLER: Final = "pooler"
HEADS: Final = tuple(dict.fromkeys(row[2].split(".", 1)[0] for row in _HEADS))
# The config field that determines the size of an axis.
FIELDS: Final = {
    "V": "vocab_size",
    "P": "max_position_embeddings",
    "T": "type_vocab_size",
    "E": "embedding_size",
    "H": "hidden_size",
    "2H": "hidden_size",
    "I": "intermediate_size",
    "C": "num_labels",
}


class Weight(NamedTuple):
    """A model variable, and whether its tensor on disk is the transpose."""

    variable: Any
    transposed: bool


def weights(model: Any) -> dict[str, Weight]:
    """Returns the variables of a model, keyed by Hugging Face's tensor names without "albert.".

    If the format can't represent shared variables, each is listed for every layer that uses it.
    """
    backbone = getattr(model, BACKBONE, model)
    table = dict(_model_weights(backbone, model.config, _BACKBONE))
    if backbone is not model:
        table.update(_model_weights(model, model.config, _HEADS))
    return table


def added(model: Any) -> list[Any]:
    """Returns the layers and variables that a subclass adds to those in the table."""
    backbone = getattr(model, BACKBONE, model)
    tables = {backbone: _BACKBONE} if backbone is model else {backbone: _BACKBONE, model: _HEADS}
    named = {id(backbone)} | {
        id(getattr(owner, row[1].split(".", 1)[0]))
        for owner, table in tables.items()
        for row in _present_rows(owner, table)
    }
    return [
        part
        for owner in tables
        for part in (*owner.layers, *owner._trainable_variables, *owner._non_trainable_variables)
        if id(part) not in named
    ]


def google(config: AlbertConfig) -> dict[str, tuple[str, bool]]:
    """Maps Google's variable names to (Hugging Face's name, whether Google's is the transpose)."""
    return {
        scope + form.google: (tensor + form.hugging_face, form.google_transposed)
        for form, _, tensor, scope, _ in _rows(config, (*_BACKBONE, *_HEADS))
    }


def axes(config: AlbertConfig) -> dict[str, list[str]]:
    """Returns the axes of every tensor of the encoder, the pooler, and all heads."""
    return {
        tensor + form.hugging_face: sizes[:1] if form.hugging_face == ".bias" else sizes
        for form, _, tensor, _, sizes in _rows(config, (*_BACKBONE, *_HEADS))
    }


def shapes(config: AlbertConfig) -> dict[str, tuple[int | None, ...]]:
    """Returns the shape of every tensor in `axes`; None allows any number of classes."""
    lengths = {letter: getattr(config, field) for letter, field in FIELDS.items()}
    lengths |= {"C": None, "1": 1, "2": 2, "2H": 2 * config.hidden_size}
    return {
        name: tuple(lengths[letter] for letter in letters) for name, letters in axes(config).items()
    }


def part(name: str) -> str | None:
    """Returns the optional part (pooler or head) that a tensor belongs to; None for the encoder."""
    first = name.split(".", 1)[0]
    return first if first in (POOLER, *HEADS) else None


def stored_name(name: str) -> str:
    """Returns a tensor's name in a task model's file: "albert." is added for the backbone."""
    return name if part(name) not in (None, POOLER) else f"{BACKBONE}.{name}"


def _model_weights(owner: Any, config: AlbertConfig, table: Any) -> Iterator[tuple[str, Weight]]:
    for form, layer, tensor, *_ in _rows(config, _present_rows(owner, table)):
        variable = _resolve(owner, layer + form.ours)
        yield tensor + form.hugging_face, Weight(variable, form.ours_transposed)


def _present_rows(owner: Any, table: Any) -> list[Any]:
    """Returns the table rows whose layers exist in the model."""

    def has(path: str) -> bool:
        try:
            return _resolve(owner, path.format(block=0)) is not None
        except AttributeError:
            return False

    return [row for row in table if has(row[1])]


def _rows(config: AlbertConfig, table: Any) -> Iterator[tuple[_Form, str, str, str, list[str]]]:
    """Yields, for each weight in each block, the `_Form` and the other four table columns."""
    for kind, ours, theirs, scope, sizes in table:
        blocks = config.stored_groups * config.inner_group_num if "{block}" in ours else 1
        for block in range(blocks):
            group, inner = divmod(block, config.inner_group_num)
            for form in _FORMS[kind]:
                yield (
                    form,
                    ours.format(block=block),
                    theirs.format(group=group, inner=inner),
                    scope.format(group=group, inner=inner),
                    sizes.split(),
                )


def _resolve(owner: Any, path: str) -> Any:
    for step in path.split("."):
        owner = owner[int(step)] if step.isdigit() else getattr(owner, step)
    return owner

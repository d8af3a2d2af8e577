"""The paper's comparisons between ALBERT models, at sizes small enough for two cores."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.data.pretraining.options import PairTask

# A quarter of base's widths and a third of its depth; without dropout, like v2.
SMALL: Final[Mapping[str, Any]] = {
    "embedding_size": 32,
    "hidden_size": 192,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "intermediate_size": 768,
}


class Row(NamedTuple):
    """One model of a comparison.

    Attributes:
        name: name of the model in the table, and of its folder.
        changes: fields of `AlbertConfig` that differ from `SMALL`.
        pair_task: pair task of the records that it trains on.
    """

    name: str
    changes: Mapping[str, Any] = {}
    pair_task: PairTask = "sop"


class Comparison(NamedTuple):
    """A comparison in the paper.

    Attributes:
        place: table or figure in the paper.
        summary: the difference between the models.
        rows: the models; speeds are relative to the first one's.
        pair_tasks: kinds of held-out records to score each model on; for masked LM, only the first.
        course: whether the table shows scores during the runs instead of those at the end.
    """

    place: str
    summary: str
    rows: tuple[Row, ...]
    pair_tasks: tuple[PairTask, ...] = ("sop",)
    course: bool = False


def _sharing(share: str, size: int) -> Row:
    return Row(f"E{size}-share-{share}", {"embedding_size": size, "share": share})


def _width(times: int) -> Row:
    """Returns the model that is `times` as wide as the narrowest; all heads have 32 dimensions."""
    sizes = {"hidden_size": 96 * times, "intermediate_size": 384 * times}
    return Row(
        f"H{96 * times}", {**sizes, "num_attention_heads": 3 * times, "num_hidden_layers": 3}
    )


def _dropout(rate: float) -> Row:
    names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    return Row(f"dropout-{rate}", dict.fromkeys(names, rate))


# E = 16, 32, 64, 192 are to H = 192 as the paper's 64, 128, 256, 768 are to base's 768.
COMPARISONS: Final[Mapping[str, Comparison]] = {
    "embedding-size": Comparison(
        "table 3",
        "width of the embeddings, with separate and with shared layers",
        tuple(_sharing(share, size) for share in ("none", "all") for size in (16, 32, 64, 192)),
    ),
    "sharing": Comparison(
        "table 4",
        "parts that the layers share",
        tuple(
            _sharing(share, size)
            for size in (192, 32)
            for share in ("all", "attention", "ffn", "none")
        ),
    ),
    "pair-task": Comparison(
        "table 5",
        "task for a pair of segments",
        tuple(Row(task, pair_task=task) for task in ("none", "nsp", "sop")),
        pair_tasks=("none", "nsp", "sop"),
    ),
    "depth": Comparison(
        "table 11",
        "number of times that the shared layer is applied",
        tuple(Row(f"L{layers}", {"num_hidden_layers": layers}) for layers in (1, 3, 6, 12)),
    ),
    "width": Comparison(
        "table 12",
        "width of the hidden states, in models of 3 layers",
        tuple(_width(times) for times in (1, 2, 4, 6)),
    ),
    "dropout": Comparison(
        "figure 2b and table 8",
        "dropout or none, during training",
        (_dropout(0.1), _dropout(0.0)),
        course=True,
    ),
}


def configuration(row: Row, vocab_size: int, **token_ids: int) -> AlbertConfig:
    """Returns the configuration of a row's model for a vocabulary size."""
    fields = {**SMALL, **row.changes, **token_ids}
    return AlbertConfig.from_size("base", vocab_size=vocab_size, **fields)

"""The paper's comparisons between ALBERTs, over models small enough for two cores."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.data.pretraining.options import PairTask

# A quarter of base's widths and a third of its depth; as v2, without dropout.
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
        name: in the table, and of its folder.
        changes: fields of `AlbertConfig`, beside `SMALL`.
        pair_task: of the records that it learns from.
    """

    name: str
    changes: Mapping[str, Any] = {}
    pair_task: PairTask = "sop"


class Ablation(NamedTuple):
    """A comparison of the paper.

    Attributes:
        place: in the paper.
        summary: what is compared.
        rows: the models; speeds are relative to the first one's.
        pair_tasks: kinds of held-out records that each model is scored on; masked LM on the first.
        course: whether the table shows scores during the runs, instead of those at the end.
    """

    place: str
    summary: str
    rows: tuple[Row, ...]
    pair_tasks: tuple[PairTask, ...] = ("sop",)
    course: bool = False


def _sharing(share: str, size: int) -> Row:
    return Row(f"E{size}-share-{share}", {"embedding_size": size, "share": share})


def _width(times: int) -> Row:
    """Heads are 32 wide throughout, for the narrowest model has three too."""
    sizes = {"hidden_size": 96 * times, "intermediate_size": 384 * times}
    return Row(
        f"H{96 * times}", {**sizes, "num_attention_heads": 3 * times, "num_hidden_layers": 3}
    )


def _dropout(rate: float) -> Row:
    names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    return Row(f"dropout-{rate}", dict.fromkeys(names, rate))


# E = 16, 32, 64, 192 are to H = 192 as the paper's 64, 128, 256, 768 are to base's 768.
ABLATIONS: Final[Mapping[str, Ablation]] = {
    "embedding-size": Ablation(
        "table 3",
        "the width of embeddings, with layers of their own and shared",
        tuple(_sharing(share, size) for share in ("none", "all") for size in (16, 32, 64, 192)),
    ),
    "sharing": Ablation(
        "table 4",
        "what layers share",
        tuple(
            _sharing(share, size)
            for size in (192, 32)
            for share in ("all", "attention", "ffn", "none")
        ),
    ),
    "pair-task": Ablation(
        "table 5",
        "what is to be said of a pair of segments",
        tuple(Row(task, pair_task=task) for task in ("none", "nsp", "sop")),
        pair_tasks=("none", "nsp", "sop"),
    ),
    "depth": Ablation(
        "table 11",
        "how often the shared layer is applied",
        tuple(Row(f"L{layers}", {"num_hidden_layers": layers}) for layers in (1, 3, 6, 12)),
    ),
    "width": Ablation(
        "table 12",
        "the width of hidden states, in models of 3 layers",
        tuple(_width(times) for times in (1, 2, 4, 6)),
    ),
    "dropout": Ablation(
        "figure 2b and table 8",
        "with dropout and without, as training goes on",
        (_dropout(0.1), _dropout(0.0)),
        course=True,
    ),
}


def configuration(row: Row, vocab_size: int, **token_ids: int) -> AlbertConfig:
    """Of a row, for a vocabulary."""
    fields = {**SMALL, **row.changes, **token_ids}
    return AlbertConfig.from_size("base", vocab_size=vocab_size, **fields)

"""GLUE's nine tasks: the layout of their files, their labels and their official metrics."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from albert_tf.data.readers import Columns


class GlueTask(NamedTuple):
    """A GLUE task: its columns, its labels in GLUE's order, and its official metrics.

    `labels` pairs the spelling in the files with the name in a model; empty for scores.
    """

    columns: Columns
    labels: Sequence[tuple[str, str]]
    metrics: Sequence[str]
    dev_file: str = "dev.tsv"


_ENTAILMENT: Final = (("entailment", "entailment"), ("not_entailment", "not_entailment"))
_SIMILARITY: Final = (("0", "not_equivalent"), ("1", "equivalent"))
# Wang et al., "GLUE", arXiv 1804.07461; label order as in published checkpoints.
GLUE: Final = {
    "cola": GlueTask(
        Columns(text=3, label=1), (("0", "unacceptable"), ("1", "acceptable")), ("matthews",)
    ),
    "sst2": GlueTask(
        Columns(text="sentence", label="label"),
        (("0", "negative"), ("1", "positive")),
        ("accuracy",),
    ),
    "mrpc": GlueTask(
        Columns(text="#1 String", text_pair="#2 String", label="Quality"),
        _SIMILARITY,
        ("accuracy", "f1"),
    ),
    "stsb": GlueTask(
        Columns(text="sentence1", text_pair="sentence2", label="score"), (), ("pearson", "spearman")
    ),
    "qqp": GlueTask(
        Columns(text="question1", text_pair="question2", label="is_duplicate"),
        _SIMILARITY,
        ("accuracy", "f1"),
    ),
    "mnli": GlueTask(
        Columns(text="sentence1", text_pair="sentence2", label="gold_label"),
        tuple((name, name) for name in ("entailment", "neutral", "contradiction")),
        ("accuracy",),
        "dev_matched.tsv",
    ),
    "qnli": GlueTask(
        Columns(text="question", text_pair="sentence", label="label"), _ENTAILMENT, ("accuracy",)
    ),
    "rte": GlueTask(
        Columns(text="sentence1", text_pair="sentence2", label="label"), _ENTAILMENT, ("accuracy",)
    ),
    "wnli": GlueTask(
        Columns(text="sentence1", text_pair="sentence2", label="label"),
        (("0", "not_entailment"), ("1", "entailment")),
        ("accuracy",),
    ),
}

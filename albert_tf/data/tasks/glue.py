"""The nine GLUE tasks and the diagnostic set: files, labels, official metrics, and submissions."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from albert_tf.data.tables import Columns


class ScoredSet(NamedTuple):
    """A part of a task, scored and submitted separately.

    `dev` and `test` are paths relative to the task's folder; the first that exists is read.
    """

    submission: str  # name of the predictions file that the website expects
    dev: Sequence[str] = ("dev.tsv",)
    test: Sequence[str] = ("test.tsv",)
    name: str = ""  # prefix of its metrics
    columns: Columns | None = None  # columns of dev, if they differ from the task's
    metrics: Sequence[str] | None = None  # metrics, if they differ from the task's


class GlueTask(NamedTuple):
    """A GLUE task: its columns, its labels in GLUE's order, and its official metrics.

    `labels` maps each spelling in the files to the name in a model, and is empty for regression.
    All parts except the first are optional. `test_text` is set if test files have a different text
    column, and `hub` if the dataset on the Hugging Face Hub (nyu-mll/glue) has different columns.
    """

    columns: Columns
    labels: Sequence[tuple[str, str]]
    metrics: Sequence[str]
    parts: Sequence[ScoredSet]
    test_text: str | None = None
    hub: Columns | None = None

    def part(self, path: Path) -> ScoredSet:
        """Returns the part that a file or a Hub split belongs to, according to its name."""
        names = (set(map(_hub_split, (*part.dev, *part.test))) for part in self.parts)
        parts = zip(self.parts, names, strict=True)
        return next((part for part, own in parts if _hub_split(path.name) in own), self.parts[0])

    def splits(self, split: str) -> list[str]:
        """Returns a split's names on the Hub (MNLI has two), excluding the diagnostic set."""
        if split == "train":
            return [split]
        files = [(part.dev if split == "dev" else part.test)[0] for part in self.parts]
        return [_hub_split(file) for file in files if file.startswith(split)]

    def columns_of(self, part: ScoredSet, labelled: bool, on_hub: bool) -> Columns:
        """Returns the columns of a part's files, or of its Hub dataset."""
        if on_hub:
            columns = self.hub or self.columns
            return columns if labelled else columns._replace(label=None)
        if labelled:
            return part.columns or self.columns
        return Columns(self.test_text or self.columns.text, None, self.columns.text_pair)


def _hub_split(file: str) -> str:
    """Returns the name of the Hub split for a GLUE file."""
    return re.sub("^dev", "validation", Path(file).name.split(".")[0])


_ENTAILMENT: Final = (("entailment", "entailment"), ("not_entailment", "not_entailment"))
_SIMILARITY: Final = (("0", "not_equivalent"), ("1", "equivalent"))
_DUPLICATE: Final = (("0", "not_duplicate"), ("1", "duplicate"))
_SENTENCES: Final = Columns(text="sentence1", text_pair="sentence2", label="label")
# Wang et al., "GLUE", arXiv 1804.07461. Labels are ordered as in published checkpoints. Test files
# are from GLUE's download script: all have a header, even CoLA's, and are predicted in order.
GLUE: Final = {
    "cola": GlueTask(
        Columns(text=3, label=1),
        (("0", "unacceptable"), ("1", "acceptable")),
        ("matthews",),
        (ScoredSet("CoLA"),),
        test_text="sentence",
        hub=Columns(text="sentence", label="label"),
    ),
    "sst2": GlueTask(
        Columns(text="sentence", label="label"),
        (("0", "negative"), ("1", "positive")),
        ("accuracy",),
        (ScoredSet("SST-2"),),
    ),
    "mrpc": GlueTask(
        Columns(text="#1 String", text_pair="#2 String", label="Quality"),
        _SIMILARITY,
        ("accuracy", "f1"),
        (ScoredSet("MRPC"),),
        hub=_SENTENCES,
    ),
    "stsb": GlueTask(
        _SENTENCES._replace(label="score"),
        (),
        ("pearson", "spearman"),
        (ScoredSet("STS-B"),),
        hub=_SENTENCES,
    ),
    "qqp": GlueTask(
        Columns(text="question1", text_pair="question2", label="is_duplicate"),
        _DUPLICATE,
        ("accuracy", "f1"),
        (ScoredSet("QQP"),),
        hub=Columns(text="question1", text_pair="question2", label="label"),
    ),
    "mnli": GlueTask(
        _SENTENCES._replace(label="gold_label"),
        tuple((name, name) for name in ("entailment", "neutral", "contradiction")),
        ("accuracy",),
        (
            ScoredSet("MNLI-m", ("dev_matched.tsv",), ("test_matched.tsv",)),
            ScoredSet("MNLI-mm", ("dev_mismatched.tsv",), ("test_mismatched.tsv",), "mismatched"),
            ScoredSet(
                "AX",
                ("diagnostic-full.tsv", "../diagnostic/diagnostic-full.tsv"),
                ("diagnostic.tsv", "AX.tsv", "../diagnostic/diagnostic.tsv", "../AX/AX.tsv"),
                "ax",
                Columns(text="Premise", text_pair="Hypothesis", label="Label"),
                ("matthews",),
            ),
        ),
        hub=Columns(text="premise", text_pair="hypothesis", label="label"),
    ),
    "qnli": GlueTask(
        Columns(text="question", text_pair="sentence", label="label"),
        _ENTAILMENT,
        ("accuracy",),
        (ScoredSet("QNLI"),),
    ),
    "rte": GlueTask(_SENTENCES, _ENTAILMENT, ("accuracy",), (ScoredSet("RTE"),)),
    "wnli": GlueTask(
        _SENTENCES,
        (("0", "not_entailment"), ("1", "entailment")),
        ("accuracy",),
        (ScoredSet("WNLI"),),
    ),
}

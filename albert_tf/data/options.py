"""The options of labelled examples, and of `evaluate`, without TensorFlow."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from albert_tf.data.readers import Columns
from albert_tf.data.tasks.glue import GLUE
from albert_tf.options import COUNT, check_options, option

CLASSIFY: Final = "classify"
TAG: Final = "tag"
TASKS: Final = (*GLUE, CLASSIFY, TAG)
_OWN: Final = "columns of your own files (--task classify)"
_TAGGED: Final = "columns of words with tags (--task tag)"


@dataclass(frozen=True, kw_only=True)
class LabelledData:
    """The options of labelled examples."""

    task: str = option(help="GLUE task, or classify or tag for data of your own", choices=TASKS)
    data: Path = option(
        help="folder with train and dev files (GLUE's TSV; .tsv, .csv or .jsonl for classify; "
        "CoNLL or .jsonl for tag), or one file for classify and tag"
    )
    skip_bad_rows: bool = option(False, help="omission of rows that can't be read")
    text_column: str = option("text", help="name of the text's column", group=_OWN)
    text_pair_column: str | None = option(
        None, help="name of the second text's column, for pairs", group=_OWN
    )
    label_column: str = option("label", help="name of the label's column", group=_OWN)
    regression: bool = option(False, help="numeric labels, fitted by regression", group=_OWN)
    multi_label: bool = option(
        False,
        help="any number of labels for a text: a list in JSONL, or a text with separators",
        group=_OWN,
    )
    label_separator: str = option(
        ",", help="text between labels, with --multi-label", metavar="TEXT", group=_OWN
    )
    words_column: str | None = option(
        None,
        help="name, or number from 1, of the words' column; the first, or words or tokens in JSONL",
        group=_TAGGED,
    )
    tags_column: str | None = option(
        None,
        help="name, or number from 1, of the tags' column; the last, or tags or ner_tags in JSONL",
        group=_TAGGED,
    )

    @property
    def columns(self) -> Columns:
        """The columns of the task's files."""
        if self.task in GLUE:
            return GLUE[self.task].columns
        return Columns(self.text_column, self.label_column, self.text_pair_column)


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(LabelledData):
    """The options of `evaluate`."""

    model: str = option(help="model directory, name on the hub, or small", metavar="NAME")
    batch_size: int = option(64, help="examples predicted at once", range=COUNT)
    predictions: Path | None = option(
        None, help="folder for the predictions, as the task's official scorer or site takes them"
    )
    report: Path | None = option(
        None, help="folder for a confusion matrix or scores as a picture, and the worst mistakes"
    )

    def __post_init__(self) -> None:
        check_options(self)

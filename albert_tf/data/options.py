"""The options of a task's files, and of `evaluate`, without TensorFlow."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from albert_tf.data.tables import Columns
from albert_tf.data.tasks.glue import GLUE
from albert_tf.options import COUNT, Checked, option

CLASSIFY: Final = "classify"
SQUAD: Final = "squad"
TAG: Final = "tag"
CHOICES: Final = ("race", "swag", "choices")
SIMILARITY: Final = "similarity"
ENCODING: Final = (
    "encoding of files of text, such as cp1252; by default UTF-8, or the one that the file's first "
    "bytes name"
)
TASKS: Final = (*GLUE, CLASSIFY, SQUAD, TAG, *CHOICES, SIMILARITY)
# Tasks with one class for each text, and also those with one for each word.
TEXT_CLASSES: Final = (*(name for name, task in GLUE.items() if task.labels), CLASSIFY)
CLASSES: Final = (*TEXT_CLASSES, TAG)
_OWN: Final = "tasks of your own (--task NAME --help shows the options of one)"
_OWN_TASKS: Final = {"task": (CLASSIFY, TAG, "choices", SIMILARITY)}


@dataclass(frozen=True, kw_only=True)
class TaskData(Checked):
    """The options of labelled examples."""

    task: str = option(
        help="GLUE task, squad (1.1 and 2.0), race or swag; classify, tag, choices or similarity "
        "for data of your own",
        choices=TASKS,
    )
    data: Path = option(
        help="folder with train and dev files, one file, or a data set on Hugging Face's hub, "
        "hub:owner/name/config@revision. Files are the task's own; for your own data .tsv, .csv or "
        ".jsonl, each also .gz, .parquet, or CoNLL for tag",
        metavar="PATH",
        decisive=False,
    )
    skip_bad_rows: bool = option(False, help="skip rows that can't be read")
    text_column: str | None = option(
        None,
        help="column of the texts, by default text; for tag of the words, for choices of the "
        "contexts",
        metavar="NAME",
        group=_OWN,
        only=_OWN_TASKS,
    )
    text_pair_column: str | None = option(
        None,
        help="column of the second texts, for pairs; for choices of the questions",
        metavar="NAME",
        group=_OWN,
        only={"task": (CLASSIFY, "choices", SIMILARITY)},
    )
    label_column: str | None = option(
        None,
        help="column of the labels, by default label; for tag of the tags, for similarity of the "
        "scores",
        metavar="NAME",
        group=_OWN,
        only=_OWN_TASKS,
    )
    label_separator: str = option(
        ",",
        help="text between the labels of a text that has several",
        metavar="TEXT",
        group=_OWN,
        only={"task": (CLASSIFY,)},
    )
    choices_columns: tuple[str, ...] = option(
        ("choices",),
        help="column of the lists of choices, or a column for each choice",
        metavar="NAME",
        group=_OWN,
        only={"task": ("choices",)},
    )
    encoding: str | None = option(
        None,
        help=ENCODING,
        metavar="NAME",
        group=_OWN,
        only={"task": (CLASSIFY, TAG, "choices", SIMILARITY, SQUAD)},
    )

    @property
    def columns(self) -> Columns:
        """The columns of the user's own files; GLUE's table lists those of GLUE's files."""
        return Columns(
            self.text_column or "text", self.label_column or "label", self.text_pair_column
        )


@dataclass(frozen=True, kw_only=True)
class LabelledData(TaskData):
    """The options of labelled examples that say what a new model learns of them."""

    regression: bool = option(
        False, help="fit numeric labels by regression", group=_OWN, only={"task": (CLASSIFY,)}
    )
    multi_label: bool = option(
        False,
        help="learn any number of labels for a text: a list in JSONL, or a text with separators",
        group=_OWN,
        only={"task": (CLASSIFY,)},
        excludes=("regression",),
    )
    head: Literal["transformers", "original"] | None = option(
        None,
        help="transformers' head, or the original's for SQuAD 2.0, which also learns whether there "
        "is an answer; by default the original's if some questions have none",
        group=_OWN,
        only={"task": (SQUAD,)},
    )


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(TaskData):
    """The options of `evaluate`."""

    model: str = option(
        help="model directory, name on the hub, or small", metavar="NAME", is_path=True
    )
    batch_size: int = option(64, help="examples predicted at once", range=COUNT)
    predictions: Path | None = option(
        None, help="folder for the predictions, as the task's official scorer or site takes them"
    )
    report: Path | None = option(None, help="folder for a confusion matrix and the worst mistakes")

"""Options for task data and for `evaluate`. Importing them doesn't load TensorFlow."""

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
    "encoding of text files, such as cp1252; default: UTF-8, unless there is a byte order mark"
)
TASKS: Final = (*GLUE, CLASSIFY, SQUAD, TAG, *CHOICES, SIMILARITY)
TEXT_CLASSES: Final = (*(name for name, task in GLUE.items() if task.labels), CLASSIFY)
CLASSES: Final = (*TEXT_CLASSES, TAG)  # one class per text or word
_OWN: Final = "tasks on your own data (--task NAME --help shows only the options of that task)"
_OWN_TASKS: Final = {"task": (CLASSIFY, TAG, "choices", SIMILARITY)}


@dataclass(frozen=True, kw_only=True)
class TaskData(Checked):
    """The options for labeled examples."""

    task: str = option(
        help="GLUE task, squad (1.1 and 2.0), race, or swag; for your own data: classify, tag, "
        "choices, or similarity",
        choices=TASKS,
    )
    data: Path = option(
        help="folder with train and dev files, a single file, or a dataset on the Hugging Face Hub "
        "(hub:owner/name/config@revision). Files must be in the task's format. Your own "
        "files can be .tsv, .csv, .json, .jsonl, or .parquet (for tag, also CoNLL); text files can "
        "be compressed (.gz)",
        metavar="PATH",
        decisive=False,
    )
    skip_bad_rows: bool = option(False, help="skip rows that can't be read")
    text_column: str | None = option(
        None,
        help="text column (default: text); for tag, the word column; for choices, the context "
        "column",
        metavar="NAME",
        group=_OWN,
        only=_OWN_TASKS,
    )
    text_pair_column: str | None = option(
        None,
        help="column with the second text of each pair; for choices, the question column",
        metavar="NAME",
        group=_OWN,
        only={"task": (CLASSIFY, "choices", SIMILARITY)},
    )
    label_column: str | None = option(
        None,
        help="label column (default: label); for tag, the tag column; for similarity, the score "
        "column",
        metavar="NAME",
        group=_OWN,
        only=_OWN_TASKS,
    )
    label_separator: str = option(
        ",",
        help="separator between a text's labels",
        metavar="TEXT",
        group=_OWN,
        only={"task": (CLASSIFY,)},
    )
    choices_columns: tuple[str, ...] = option(
        ("choices",),
        help="column with lists of choices, or one column per choice",
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
        """The columns in the user's own files. `GLUE` lists the columns in GLUE's files."""
        return Columns(
            self.text_column or "text", self.label_column or "label", self.text_pair_column
        )


@dataclass(frozen=True, kw_only=True)
class LabelledData(TaskData):
    """The options for labeled examples, including those that define the labels of a new model."""

    regression: bool = option(
        False,
        help="train a regression model on numeric labels",
        group=_OWN,
        only={"task": (CLASSIFY,)},
    )
    multi_label: bool = option(
        False,
        help="train a multi-label classifier; labels are a JSON list or a delimited string",
        group=_OWN,
        only={"task": (CLASSIFY,)},
        excludes=("regression",),
    )
    group_column: str | None = option(
        None,
        help="column that groups rows, such as the author; rows with the same value stay together "
        "when a single file is split",
        metavar="NAME",
        group=_OWN,
        only={"task": (CLASSIFY,)},
    )
    head: Literal["transformers", "original"] | None = option(
        None,
        help="transformers' head, or the original SQuAD 2.0 head, which also predicts "
        "whether a question has an answer; default: original if some questions have no answer",
        group=_OWN,
        only={"task": (SQUAD,)},
    )

    @property
    def columns(self) -> Columns:
        return super().columns._replace(group=self.group_column)


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(TaskData):
    """The options for `evaluate`."""

    model: str = option(
        help='model directory, Hub model ID, or "small"', metavar="NAME", is_path=True
    )
    batch_size: int = option(64, help="number of examples in a batch", range=COUNT)
    predictions: Path | None = option(
        None, help="folder for predictions in the format of the task's official scorer or website"
    )
    report: Path | None = option(None, help="folder for a confusion matrix and the worst mistakes")

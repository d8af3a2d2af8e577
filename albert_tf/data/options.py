"""The options of labelled examples, and of `evaluate`, without TensorFlow."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from albert_tf.data.readers import Columns, Dialect
from albert_tf.data.tasks.glue import GLUE
from albert_tf.errors import UserError
from albert_tf.options import COUNT, NOT_NEGATIVE, check_options, option

CLASSIFY: Final = "classify"
SQUAD: Final = "squad"
TAG: Final = "tag"
CHOICES: Final = ("race", "swag", "choices")
SIMILARITY: Final = "similarity"
TASKS: Final = (*GLUE, CLASSIFY, SQUAD, TAG, *CHOICES, SIMILARITY)
_OWN: Final = "columns of your own files (--task classify, similarity, choices)"
_TAGGED: Final = "columns of words with tags (--task tag)"
_ANSWERS: Final = "questions and answers (--task squad)"
_CHOICES: Final = "one of several choices (--task race, swag, choices)"
_OWN_CHOICES: Final[dict[str, Any]] = {"group": _CHOICES, "only": {"task": ("choices",)}}


@dataclass(frozen=True, kw_only=True)
class LabelledData:
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
    skip_bad_rows: bool = option(False, help="omission of rows that can't be read")
    text_column: str | None = option(
        None,
        help="name of the text's column; default: text, for similarity also sentence1 or anchor",
        group=_OWN,
        only={"task": (CLASSIFY, SIMILARITY)},
    )
    text_pair_column: str | None = option(
        None,
        help="name of the second text's column, for pairs",
        group=_OWN,
        only={"task": (CLASSIFY, SIMILARITY)},
    )
    negative_column: str | None = option(
        None,
        help="name of the column of a text that doesn't belong to the first one; default: negative",
        group=_OWN,
        only={"task": (SIMILARITY,)},
    )
    label_column: str | None = option(
        None,
        help="name of the label's or score's column; default: label, for similarity also score",
        group=_OWN,
        only={"task": (CLASSIFY, "choices", SIMILARITY)},
    )
    separator: str | None = option(
        None,
        help="text between the columns of .csv and .tsv; by default the one with which the header "
        "has the columns",
        metavar="TEXT",
        group=_OWN,
        only={"task": (CLASSIFY, "choices", SIMILARITY)},
    )
    encoding: str | None = option(
        None,
        help="encoding of files of text, such as cp1252; by default UTF-8, or the one that the "
        "file's first bytes name",
        metavar="NAME",
        group=_OWN,
        only={"task": (CLASSIFY, "choices", TAG, SQUAD, SIMILARITY)},
    )
    regression: bool = option(
        False, help="numeric labels, fitted by regression", group=_OWN, only={"task": (CLASSIFY,)}
    )
    multi_label: bool = option(
        False,
        help="any number of labels for a text: a list in JSONL, or a text with separators",
        group=_OWN,
        only={"task": (CLASSIFY,)},
    )
    label_separator: str = option(
        ",",
        help="text between labels, with --multi-label",
        metavar="TEXT",
        group=_OWN,
        only={"task": (CLASSIFY,)},
    )
    words_column: str | None = option(
        None,
        help="name, or number from 1, of the words' column; the first, or words or tokens in JSONL",
        group=_TAGGED,
        only={"task": (TAG,)},
    )
    tags_column: str | None = option(
        None,
        help="name, or number from 1, of the tags' column; the last, or tags or ner_tags in JSONL",
        group=_TAGGED,
        only={"task": (TAG,)},
    )
    head: Literal["transformers", "original"] | None = option(
        None,
        help="transformers' head, or the original's for SQuAD 2.0, which also learns whether there "
        "is an answer; by default the original's if some questions have none",
        group=_ANSWERS,
        only={"task": (SQUAD,)},
    )
    doc_stride: int | None = option(
        None,
        help="tokens that the windows of a long context share; 128 unless windows are short",
        range=NOT_NEGATIVE,
        group=_ANSWERS,
        only={"task": (SQUAD,)},
    )
    max_question_length: int = option(
        64,
        help="tokens to read of a question; at most half a window",
        range=COUNT,
        group=_ANSWERS,
        only={"task": (SQUAD,)},
    )
    max_answer_length: int = option(
        30, help="most tokens of an answer", range=COUNT, group=_ANSWERS, only={"task": (SQUAD,)}
    )
    n_best: int = option(
        20,
        help="answers to a question that are ranked",
        range=COUNT,
        group=_ANSWERS,
        only={"task": (SQUAD,)},
    )
    part: Literal["middle", "high", "both"] = option(
        "both", help="part of RACE", group=_CHOICES, only={"task": ("race",)}
    )
    context_column: str | None = option(
        None, help="name of the context's column; default: context", **_OWN_CHOICES
    )
    question_column: str | None = option(
        None, help="name of the question's column; default: question", **_OWN_CHOICES
    )
    choices_columns: tuple[str, ...] = option(
        ("choices",),
        help="name of the column with a list of choices, or a column for each",
        **_OWN_CHOICES,
    )
    part_column: str | None = option(
        None, help="name of a column with parts of the data, each with a score", **_OWN_CHOICES
    )
    id_column: str | None = option(
        None, help="name of a column with ids; default: id", **_OWN_CHOICES
    )

    def __post_init__(self) -> None:
        check_options(self)
        _check_dialect(self.separator, self.encoding)
        if self.regression and self.multi_label:
            raise UserError(
                "Labels must be numbers or several names. Received: regression and multi_label. "
                "Give one of them."
            )

    @property
    def dialect(self) -> Dialect:
        """How the task's tables are written."""
        separator = self.separator and self.separator.replace("\\t", "\t")
        return Dialect(separator, self.encoding)

    @property
    def has_numbers(self) -> bool:
        """Whether labels are numbers, fitted by regression."""
        return self.regression or (self.task in GLUE and not GLUE[self.task].labels)

    @property
    def columns(self) -> Columns:
        """The columns of the user's own files; GLUE's table lists those of GLUE's files."""
        return Columns(
            self.text_column or "text", self.label_column or "label", self.text_pair_column
        )


def _check_dialect(separator: str | None, encoding: str | None) -> None:
    if separator is not None and len(separator.replace("\\t", "\t")) != 1:
        raise UserError(
            f"separator must be one character, or \\t for a tab. Received: {separator!r}."
        )
    if encoding is not None:
        try:
            "".encode(encoding)
        except (LookupError, UnicodeError) as error:
            raise UserError(
                "encoding must be a name that Python knows, such as cp1252, latin-1 or utf-16. "
                f"Received: {encoding!r}."
            ) from error


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

"""GLUE's nine tasks with the layout of their files, and `classify` for other files."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from albert_tf.data.readers import FORMATS, Columns, Example, read_examples
from albert_tf.errors import UserError, listed


class Task(NamedTuple):
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
    "cola": Task(
        Columns(text=3, label=1), (("0", "unacceptable"), ("1", "acceptable")), ("matthews",)
    ),
    "sst2": Task(
        Columns(text="sentence", label="label"),
        (("0", "negative"), ("1", "positive")),
        ("accuracy",),
    ),
    "mrpc": Task(
        Columns(text="#1 String", text_pair="#2 String", label="Quality"),
        _SIMILARITY,
        ("accuracy", "f1"),
    ),
    "stsb": Task(
        Columns(text="sentence1", text_pair="sentence2", label="score"), (), ("pearson", "spearman")
    ),
    "qqp": Task(
        Columns(text="question1", text_pair="question2", label="is_duplicate"),
        _SIMILARITY,
        ("accuracy", "f1"),
    ),
    "mnli": Task(
        Columns(text="sentence1", text_pair="sentence2", label="gold_label"),
        tuple((name, name) for name in ("entailment", "neutral", "contradiction")),
        ("accuracy",),
        "dev_matched.tsv",
    ),
    "qnli": Task(
        Columns(text="question", text_pair="sentence", label="label"), _ENTAILMENT, ("accuracy",)
    ),
    "rte": Task(
        Columns(text="sentence1", text_pair="sentence2", label="label"), _ENTAILMENT, ("accuracy",)
    ),
    "wnli": Task(
        Columns(text="sentence1", text_pair="sentence2", label="label"),
        (("0", "not_entailment"), ("1", "entailment")),
        ("accuracy",),
    ),
}
CLASSIFY: Final = "classify"
TASKS: Final = (*GLUE, CLASSIFY)


def find_file(data: Path, name: str) -> Path:
    """Finds the file `name` in a folder, with or without its ending.

    Raises:
        UserError: no such file, or more than one.
    """
    if not data.is_dir():
        raise UserError(
            f"The data must be a folder or a file. Received: {data}, which doesn't exist."
        )
    found = [path for path in sorted(data.iterdir()) if path.name == name]
    found = found or [data / f"{name}{end}" for end in FORMATS if (data / f"{name}{end}").is_file()]
    if len(found) != 1:
        there = listed(path.name for path in sorted(data.iterdir())) or "nothing"
        raise UserError(f"The folder {data} must have one file {name}. Received: {there}.")
    return found[0]


def train_file(data: Path, task: str) -> Path:
    """Finds the file to train on: a folder's, or a single file."""
    return data if data.is_file() else find_file(data, "train.tsv" if task in GLUE else "train")


def dev_file(data: Path, task: str) -> Path:
    """Finds the file to evaluate on: a folder's, or a single file."""
    return (
        data if data.is_file() else find_file(data, GLUE[task].dev_file if task in GLUE else "dev")
    )


def train_and_dev(
    data: Path,
    task: str,
    columns: Columns,
    dev_fraction: float,
    seed: int,
    skip_bad_rows: bool = False,
    is_score: bool = False,
) -> tuple[list[Example], list[Example]]:
    """Reads the examples to train on and those to evaluate on.

    A folder has a file for each. A single file is split by `seed`, and each label has the same
    share of both parts unless labels are scores (`is_score`).
    """
    if data.is_file():
        from sklearn.model_selection import train_test_split  # Takes seconds.

        examples = read_examples(data, columns, skip_bad_rows)
        count = max(1, round(dev_fraction * len(examples)))
        labels = [example.label for example in examples]
        share = not is_score and min(Counter(labels).values()) > 1
        try:
            train, dev = train_test_split(
                examples, test_size=count, random_state=seed, stratify=labels if share else None
            )
        except ValueError as error:
            raise UserError(
                f"{data} can't be split with dev_fraction={dev_fraction}: {error}"
            ) from error
        return train, dev
    train, dev = (
        read_examples(path, columns, skip_bad_rows)
        for path in (train_file(data, task), dev_file(data, task))
    )
    return train, dev

"""The base class of all tasks."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.data import hub
from albert_tf.data.options import TaskData
from albert_tf.data.readers import FORMATS
from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError, listed
from albert_tf.files import fault
from albert_tf.text.base_tokenizer import BaseTokenizer

# An example is a NamedTuple whose last field is its `location` in a file, for error messages.
Example = TypeVar("Example", bound=tuple[Any, ...])
Prediction = TypeVar("Prediction")
# Names of a split's file, the most common one first.
_NAMES: Final = {"dev": ("dev", "validation", "valid", "val")}
Outputs = Sequence[Mapping[str, np.ndarray]]  # a model's outputs for each row


class Keys(NamedTuple):
    """Determines how a file is split into train and dev. Each field has one value per example.

    Attributes:
        labels: label names of each example; None if labels are not names.
        strata: values to stratify by; None for a random split.
        groups: documents or other groups to keep together; None if there are no groups.
    """

    labels: Sequence[Sequence[str]] | None = None
    strata: Sequence[Any] | None = None
    groups: Sequence[Any] | None = None


@dataclass(frozen=True)
class Predicted(Generic[Example, Prediction]):
    """Examples, a model's prediction for each of them, and the model's configuration."""

    examples: Sequence[Example]
    predictions: Sequence[Prediction]
    config: AlbertConfig

    @property
    def pairs(self) -> Iterable[tuple[Example, Prediction]]:
        """Each example with its prediction."""
        return zip(self.examples, self.predictions, strict=True)

    def of(self, rows: Sequence[int]) -> "Predicted[Example, Prediction]":
        """Returns the examples with these indices, and their predictions."""
        predictions = [self.predictions[row] for row in rows]
        return Predicted([self.examples[row] for row in rows], predictions, self.config)


class Graded(NamedTuple):
    """A prediction and its label, formatted for display.

    Attributes:
        text: all texts that the prediction depends on, each on its own line.
        expected, predicted: class names, answers, entities, or numbers.
        confidence: probability of the prediction; for a number, the distance from the label.
        is_right: whether the task's metric counts the prediction as correct.
        is_number: whether the prediction is a number.
    """

    text: str
    expected: str
    predicted: str
    confidence: float
    is_right: bool
    is_number: bool = False


class Task(ABC, Generic[Example, Prediction]):
    """A fine-tuning task: its files, rows, predictions, and scores.

    The configuration of a trained model contains everything that the model knows about its task:
    labels, problem type, head, and thresholds. Training and evaluation therefore call the same
    methods, none of which requires TensorFlow.

    Args:
        options: the task's name, data, and columns.
    Attributes:
        model: name of the model class in `albert_tf.models`.
        formats: suffixes of the task's files.
        more: "*" if file names can continue after the name of the split, as in train-v2.0.json.
        columns: columns of the user's own files by role; empty for files with a fixed format.
    """

    model: ClassVar[str]
    formats: ClassVar[Sequence[str]] = FORMATS
    more: ClassVar[str] = ""
    columns: Mapping[str, str] = {}

    def __init__(self, options: TaskData):
        self.options = options

    @abstractmethod
    def read(self, path: Path, labelled: bool = True) -> list[Example]:
        """Reads a file of examples.

        Args:
            labelled: whether the rows have labels. Without labels, bad rows are never skipped.
        Raises:
            UserError: if the file or one of its rows can't be read; the message names the line.
        """

    def config_fields(self, train: Sequence[Example]) -> dict[str, Any]:
        """Returns the fields that the task sets in the configuration of a new model.

        The default is for a task without class names.

        Raises:
            UserError: if nothing can be learned from the examples.
        """
        return {"id2label": {0: "LABEL_0", 1: "LABEL_1"}, "problem_type": None}

    def check(self, examples: Sequence[Example], config: AlbertConfig) -> None:
        """Checks examples, labeled or not, against a model's configuration.

        All other methods rely on this check. The default accepts all examples, for tasks whose
        labels don't depend on the model.

        Raises:
            UserError: if the model is for a different task, or lacks the label of an example.
        """

    @abstractmethod
    def encode(
        self,
        examples: Sequence[Example],
        tokenizer: BaseTokenizer,
        config: AlbertConfig,
        max_length: int,
    ) -> Rows:
        """Encodes examples as rows, with labels if the examples have labels.

        Args:
            tokenizer: the model's tokenizer.
            max_length: maximum number of tokens per row.
        """

    @abstractmethod
    def predictions(
        self, examples: Sequence[Example], rows: Rows, outputs: Outputs, config: AlbertConfig
    ) -> list[Prediction]:
        """Returns a prediction for each example.

        Args:
            outputs: the model's outputs for each row.
        """

    @abstractmethod
    def scores(self, predicted: Predicted[Example, Prediction]) -> dict[str, float]:
        """Returns the task's metrics. The first one selects the best version of a model."""

    def fit_thresholds(self, predicted: Predicted[Example, Prediction]) -> dict[str, Any]:
        """Returns the field `thresholds` with the best F1, or {} if the task has no thresholds."""
        return {}

    @abstractmethod
    def grade(self, predicted: Predicted[Example, Prediction]) -> list[Graded]:
        """Compares predictions with the labels of their examples."""

    def by_class(self, predicted: Predicted[Example, Prediction]) -> dict[str, dict[str, float]]:
        """Returns the scores of each class or entity type, if any; see `metrics.by_class`."""
        return {}

    def confusions(self, predicted: Predicted[Example, Prediction]) -> list[tuple[str, str]]:
        """Returns the expected and the predicted class of each example or word, if any."""
        return []

    @abstractmethod
    def write(self, predicted: Predicted[Example, Prediction], folder: Path) -> None:
        """Writes predictions to a folder in the format of the official scorer or website."""

    @abstractmethod
    def texts(self, example: Example) -> Iterable[str]:
        """Returns the texts of an example in the order in which the model reads them."""

    def text(self, example: Example) -> str:
        """Returns the texts of an example, each on its own line."""
        return "\n".join(self.texts(example))

    def keys(self, examples: Sequence[Example]) -> Keys:
        """Returns the keys that determine how a file is split into train and dev."""
        return Keys()

    def files(self, split: str) -> list[Path]:
        """Returns a split's files, or its name on the Hub. A single file contains all splits."""
        data = self.options.data
        if hub.is_hub(data):
            return [hub.split(data, split)]
        if data.is_file():
            return [data]
        return [find_split_file(data, _NAMES.get(split, (split,)), self.formats, self.more)]


def grade_class(
    text: str, names: Sequence[str], label: int | None, probabilities: np.ndarray
) -> Graded:
    """Compares the most probable class or choice with the correct one."""
    best = int(probabilities.argmax())
    expected = "" if label is None else names[label]
    return Graded(text, expected, names[best], float(probabilities[best]), best == label)


def grade_number(text: str, target: float, value: float) -> Graded:
    """Compares a number with its label; the confidence is the distance between them."""
    distance = abs(value - target)
    return Graded(text, f"{target:g}", f"{value:.3g}", distance, distance == 0, True)


def find_split_file(
    data: Path, names: Sequence[str], formats: Sequence[str] = FORMATS, more: str = ""
) -> Path:
    """Returns the path of a split's file in a folder, trying the names in order.

    Args:
        names: file names with or without a format suffix.
        more: a glob pattern for the part of the file name between the given name and the suffix.
    Raises:
        UserError: if there is no such file, or more than one.
    """
    if not data.is_dir():
        raise UserError(
            f"The data must be a folder or a file. Received: {data}, which {fault(data)}."
        )
    inside = sorted(data.iterdir())
    for name in names:
        patterns = [f"{name}{more}{end}" for end in formats]
        paths = [path for path in inside if path.name == name]
        paths = paths or [
            path for path in inside if any(fnmatchcase(path.name, each) for each in patterns)
        ]
        if paths:
            break
    if len(paths) != 1:
        there = listed(path.name for path in inside) or "nothing"
        raise UserError(
            f"The folder {data} must contain exactly one file {names[0]}{more}. Received: {there}."
        )
    return paths[0]

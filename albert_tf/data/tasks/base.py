"""The base of all tasks."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
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

# An example is a NamedTuple whose last field is its `location` in a file, for errors.
Example = TypeVar("Example", bound=tuple[Any, ...])
Prediction = TypeVar("Prediction")
# Names of a split's file.
_NAMES: Final = {"dev": ("dev", "validation", "valid", "val")}
Outputs = Mapping[str, np.ndarray]  # a model's outputs for one row, without the batch's axis


class Keys(NamedTuple):
    """What decides the side of each example when a file is split, as lists of a value per example.

    Attributes:
        labels: names that a model learns from the example; None if its label is not a name.
        strata: values that both sides contain in equal shares; None for a random split.
        groups: documents or other groups that stay on one side; None without groups.
    """

    labels: Sequence[Sequence[str]] | None = None
    strata: Sequence[Any] | None = None
    groups: Sequence[Any] | None = None


class Task(ABC, Generic[Example, Prediction]):
    """A kind of fine-tuning: its files, rows, predictions, and scores.

    The configuration of a trained model contains everything that the model knows about its task:
    labels, problem type, head, and thresholds. So training and evaluation call the same methods,
    and none of them needs TensorFlow.

    Args:
        options: the task's name, its data, and their columns.
        config: configuration of a trained model, which decides the kind of labels; default: the
            options decide.
    Attributes:
        model: name of the model's class in `albert_tf.models`.
        formats: endings of the task's files.
        columns: columns of the user's own files by their role; empty for files with a fixed form.
    """

    model: ClassVar[str]
    formats: ClassVar[Sequence[str]] = FORMATS
    columns: Mapping[str, str] = {}

    def __init__(self, options: TaskData, config: AlbertConfig | None = None):
        self.options = options

    @abstractmethod
    def read(self, path: Path, labelled: bool = True) -> list[Example]:
        """Reads a file of examples.

        Args:
            labelled: whether the rows have labels. Without labels no bad row is skipped.
        Raises:
            UserError: the file or one of its rows can't be read. The message names the line.
        """

    @abstractmethod
    def config_fields(self, train: Sequence[Example]) -> dict[str, Any]:
        """Returns the fields that the task sets in the configuration of a new model.

        Raises:
            UserError: nothing can be learned from the examples.
        """

    def check(self, examples: Sequence[Example], config: AlbertConfig) -> None:
        """Compares examples, labelled or not, with a model's configuration.

        By default it accepts all examples: their labels don't depend on a model.

        Raises:
            UserError: the model is for another task, or doesn't have the label of an example.
        """

    @abstractmethod
    def encode(
        self, examples: Sequence[Example], tokenizer: Any, config: AlbertConfig, max_length: int
    ) -> Rows:
        """Returns the rows of examples, with labels if the examples have them.

        Args:
            tokenizer: the model's tokenizer.
            max_length: maximum number of tokens in a row.
        """

    @abstractmethod
    def predictions(
        self,
        examples: Sequence[Example],
        rows: Rows,
        outputs: Sequence[Outputs],
        config: AlbertConfig,
    ) -> list[Prediction]:
        """Returns a prediction for each example.

        Args:
            outputs: the model's outputs for each row.
        """

    @abstractmethod
    def scores(
        self, examples: Sequence[Example], predictions: Sequence[Prediction], config: AlbertConfig
    ) -> dict[str, float]:
        """Returns the task's metrics; the first chooses the best version of a model."""

    @abstractmethod
    def write(
        self,
        folder: Path,
        examples: Sequence[Example],
        predictions: Sequence[Prediction],
        config: AlbertConfig,
    ) -> None:
        """Writes predictions to a folder, in the form that the official scorer or site accepts."""

    @abstractmethod
    def texts(self, example: Example) -> Iterable[str]:
        """Returns the texts of an example, in the order in which the model reads them."""

    def keys(self, examples: Sequence[Example]) -> Keys:
        """Returns what decides the side of each example when a file is split."""
        return Keys()

    def files(self, split: str) -> list[Path]:
        """Returns the files of a split, or its name on the hub; a single file has all splits."""
        data = self.options.data
        if hub.is_hub(data):
            return [hub.split(data, split)]
        if data.is_file():
            return [data]
        for name in names_of(split):
            with contextlib.suppress(UserError):
                return [find_file(data, name, self.formats)]
        return [find_file(data, split, self.formats)]  # raises the error


class Predicted(NamedTuple):
    """A model's predictions for the examples of a task, and the model's configuration."""

    task: Task[Any, Any]
    examples: Sequence[Any]
    predictions: Sequence[Any]
    config: AlbertConfig

    def scores(self) -> dict[str, float]:
        """Returns the task's metrics; the first chooses the best version of a model."""
        return self.task.scores(self.examples, self.predictions, self.config)


def names_of(split: str) -> Sequence[str]:
    """Returns the names that the file of a split may have, the usual one first."""
    return _NAMES.get(split, (split,))


def find_file(data: Path, name: str, formats: Sequence[str] = FORMATS) -> Path:
    """Returns the file `name` in a folder, or the one with this name and the ending of a format.

    Raises:
        UserError: there is no such file, or more than one.
    """
    if not data.is_dir():
        raise UserError(
            f"The data must be a folder or a file. Received: {data}, which {fault(data)}."
        )
    paths = [path for path in sorted(data.iterdir()) if path.name == name]
    paths = paths or [data / f"{name}{end}" for end in formats if (data / f"{name}{end}").exists()]
    if len(paths) != 1:
        there = listed(path.name for path in sorted(data.iterdir())) or "nothing"
        raise UserError(f"The folder {data} must have one file {name}. Received: {there}.")
    return paths[0]

"""The base of all tasks: what each defines, and what they share."""

import contextlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from operator import not_
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


class GradedPrediction(NamedTuple):
    """A prediction beside its label, for people to read.

    Attributes:
        text: all that the prediction depends on; parts, such as a pair, are lines.
        expected, predicted: names of classes, answers, tags or numbers.
        confidence: probability of the prediction; for numbers, their distance from the label.
        is_right: whether the task's metric counts it as right.
    """

    text: str
    expected: str
    predicted: str
    confidence: float
    is_right: bool


class Task(ABC, Generic[Example, Prediction]):
    """A kind of fine-tuning: its files, rows, predictions and scores.

    A model's configuration has all that a trained model knows of its task (labels, problem type,
    head, thresholds), so that training and evaluation call the same methods. Nothing here needs
    TensorFlow.

    Args:
        options: the task's name, its data and their columns.
        config: a trained model's, which decides what its labels are; by default the options do.
    Attributes:
        model: name of the model's class in `albert_tf.models`.
        formats: endings of the task's files.
    """

    model: ClassVar[str]
    formats: ClassVar[Sequence[str]] = FORMATS

    def __init__(self, options: TaskData, config: AlbertConfig | None = None):
        self.options = options

    @abstractmethod
    def read(self, path: Path, labelled: bool = True) -> list[Example]:
        """Reads a file of examples.

        Args:
            labelled: whether its rows have labels; without them every row is read, bad or not.
        Raises:
            UserError: the file or one of its rows can't be read; the message names the line.
        """

    @abstractmethod
    def config_fields(self, train: Sequence[Example]) -> dict[str, Any]:
        """Returns the fields of a new model's configuration that the task decides.

        Raises:
            UserError: nothing can be learned from the examples.
        """

    @abstractmethod
    def check(self, examples: Sequence[Example], config: AlbertConfig) -> None:
        """Compares examples, labelled or not, with a model's configuration.

        Raises:
            UserError: the model is another task's, or an example's label isn't the model's.
        """

    @abstractmethod
    def encode(
        self, examples: Sequence[Example], tokenizer: Any, config: AlbertConfig, max_length: int
    ) -> Rows:
        """Returns the rows of examples, at most `max_length` tokens each, with labels if any.

        Args:
            tokenizer: the model's.
            config: an `AlbertConfig`.
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
            outputs: the model's outputs for each of `rows`.
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
        """Writes predictions to files in `folder`, as the task's official scorer or site takes."""

    @abstractmethod
    def texts(self, example: Example) -> Iterable[str]:
        """Returns the texts that a vocabulary is trained on."""

    @abstractmethod
    def grade(
        self, examples: Sequence[Example], predictions: Sequence[Prediction], config: AlbertConfig
    ) -> list[GradedPrediction]:
        """Compares predictions with labels, for people to read."""

    def pairs(
        self, examples: Sequence[Example], predictions: Sequence[Prediction], config: AlbertConfig
    ) -> list[tuple[str, str]]:
        """Returns expected and predicted classes for a confusion matrix; [] without classes."""
        return []

    def fit_thresholds(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> dict[str, Any]:
        """Returns fields of the configuration that dev decides, such as thresholds."""
        return {}

    def has_accuracy(self, config: AlbertConfig) -> bool:
        """Returns whether training reports the share of right labels beside the loss."""
        return True

    def recipe_name(self, train: Sequence[Example]) -> str:
        """Returns the name of the task's hyperparameters in `albert_tf.recipes`."""
        return self.options.task

    def labels(self, example: Example) -> Sequence[str]:
        """Returns the names that a model learns from an example; () where they are no names."""
        return ()

    def columns(self) -> dict[str, str]:
        """Returns the columns of files of one's own by what they are; {} of other files."""
        return {}

    def strata(self, examples: Sequence[Example]) -> Sequence[Any] | None:
        """Returns the labels to stratify the split of a file by, or None."""
        return None

    def groups(self, examples: Sequence[Example]) -> Sequence[Any] | None:
        """Returns group keys, such as documents, that stay on one side of a split file, or None."""
        return None

    def examples(self, split: str, labelled: bool = True) -> list[Example]:
        """Reads a split, "train", "dev" or "test"; see `read`."""
        return [example for path in self.files(split) for example in self.read(path, labelled)]

    def files(self, split: str) -> list[Path]:
        """Finds the files of a split, or its name on the hub; a single file is all splits."""
        data = self.options.data
        if hub.is_hub(data):
            return [hub.split(data, split)]
        return [data] if data.is_file() else [_find_split(data, split, self.formats)]

    def train_and_dev(self, dev_fraction: float, seed: int) -> tuple[list[Example], list[Example]]:
        """Reads the examples to train on and those to evaluate on.

        A folder has a file for each. A single file is split by `seed`.
        """
        if self.options.data.is_file():
            return self._split(self.read(self.options.data), dev_fraction, seed)
        return self.examples("train"), self.examples("dev")

    def _split(
        self, examples: list[Example], dev_fraction: float, seed: int
    ) -> tuple[list[Example], list[Example]]:
        from sklearn import model_selection  # Takes seconds.

        groups, counts = self.groups(examples), self._label_counts(examples)
        # A label that occurs once has to be learned.
        occurs_once = [
            any(counts[name] < 2 for name in self.labels(example)) for example in examples
        ]
        rare = [example for example, is_once in zip(examples, occurs_once, strict=True) if is_once]
        others = [
            example for example, is_once in zip(examples, occurs_once, strict=True) if not is_once
        ]
        strata = self.strata(others) if others else None
        count = max(1, round(dev_fraction * len(others)))
        if strata is not None:  # as texts: scikit-learn takes no tuples of unlike lengths
            strata = list(map(str, strata)) if len(set(strata)) <= count else None
        try:
            if groups is not None:
                splitter = model_selection.GroupShuffleSplit(
                    n_splits=1, test_size=dev_fraction, random_state=seed
                )
                ((train, dev),) = splitter.split(examples, groups=groups)
                return [examples[row] for row in train], [examples[row] for row in dev]
            train, dev = model_selection.train_test_split(
                others, test_size=count, random_state=seed, stratify=strata
            )
            learned = self._label_counts([*train, *rare]).keys()
            is_new = [not learned >= set(self.labels(example)) for example in dev]
            if all(is_new):
                raise ValueError("dev has only labels that train lacks")
        except ValueError as error:
            of_groups = "" if groups is None else f" in {len(set(groups))} documents"
            raise UserError(
                f"{self.options.data} can't be split with dev_fraction={dev_fraction}: train and "
                f"dev need an example each, of labels that occur twice. Received: {len(examples)} "
                f"examples{of_groups}, {len(examples) - len(others)} with labels that occur once. "
                "Give more examples, or a folder with train and dev."
            ) from error
        unseen = list(compress(dev, is_new))
        return [*train, *rare, *unseen], list(compress(dev, map(not_, is_new)))

    def _label_counts(self, examples: Iterable[Example]) -> Counter[str]:
        return Counter(name for example in examples for name in self.labels(example))


def names_of(split: str) -> Sequence[str]:
    """Returns the names that a split's file may have, the usual one first."""
    return _NAMES.get(split, (split,))


def _find_split(data: Path, split: str, formats: Sequence[str]) -> Path:
    """Finds the file of a split by the first of its names that there is."""
    for name in names_of(split):
        with contextlib.suppress(UserError):
            return find_file(data, name, formats)
    return find_file(data, split, formats)


def find_file(data: Path, name: str, formats: Sequence[str] = FORMATS) -> Path:
    """Finds the file `name` in a folder, or one of this name with the ending of a format.

    Raises:
        UserError: no such file, or more than one.
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

"""Label types: one class, any number of classes, or a number."""

import ast
import contextlib
import csv
import json
import math
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.data.options import TaskData
from albert_tf.data.readers import Example, Row
from albert_tf.data.tasks.glue import GLUE
from albert_tf.errors import UserError, listed, short_repr
from albert_tf.probabilities import sigmoid, softmax

SCORE: Final = "score"  # the label of a regression model
MULTI_LABEL: Final = "multi_label_classification"
# Label separators in tables, other than the default.
_OTHER_SEPARATORS: Final = (";", "|", "/")
# Several values in Python or JSON syntax.
_LIST: Final = re.compile(r"\[.*\]|[({]\s*['\"].*[)}]", re.DOTALL)


class LabelType(ABC):
    """How labels of one type are read, learned, predicted, scored, and written.

    Args:
        options: the task's data and columns.
        labels: the labels of a GLUE task, as in `GLUE`; () for your own data.
    Attributes:
        problem_type: `problem_type` of the configuration.
        metrics: names of the metrics for your own data.
    """

    problem_type: ClassVar[str]
    metrics: ClassVar[Sequence[str]] = ()

    def __init__(self, options: TaskData, labels: Sequence[tuple[str, str]]):
        self.options, self.glue_labels = options, labels

    def read(self, row: Row, column: str | int) -> Any:
        """Returns a row's label.

        Raises:
            UserError: if the label is missing, or is a list, also in Python or JSON syntax.
        """
        value = row.get(column)
        if not isinstance(value, list):
            value = row.text(column)
        if isinstance(value, list) or (_LIST.fullmatch(value) and any(_written_list(value))):
            raise UserError(
                f"{column!r} must be one label. Received: {short_repr(value)} ({row.location}). "
                "For several labels, pass --multi-label."
            )
        return value

    @abstractmethod
    def model_labels(self, train: Sequence[Example]) -> Sequence[str]:
        """Returns the labels of a new model.

        Raises:
            UserError: if nothing can be learned from the examples.
        """

    @abstractmethod
    def check(self, examples: Sequence[Example], config: AlbertConfig) -> None:
        """Checks the labels of examples against a model.

        Raises:
            UserError: if the model's labels differ from the task's, or lack an example's label.
        """

    @abstractmethod
    def targets(self, examples: Sequence[Example], config: AlbertConfig) -> list[Any]:
        """Returns the target of each example: a class id, a float, or a multi-hot array."""

    def numbers(self, config: AlbertConfig) -> Mapping[str, int]:
        """Returns the model's class id of each label."""
        return dict(config.label2id)

    @abstractmethod
    def decode(self, logits: np.ndarray, config: AlbertConfig) -> Any:
        """Returns an example's prediction."""

    @abstractmethod
    def decide(self, predictions: Sequence[Any], config: AlbertConfig) -> np.ndarray:
        """Converts predictions to the same format as targets, `[N]` or `[N, C]`."""

    def score(
        self,
        metrics: Sequence[str],
        targets: np.ndarray,
        decisions: np.ndarray,
        predictions: Sequence[Any],
    ) -> dict[str, float]:
        """Returns the named metrics."""
        from albert_tf.evaluation.metrics import evaluate  # imports scikit-learn, which is slow

        return evaluate(metrics, targets, decisions)

    @abstractmethod
    def write(
        self, stem: Path, rows: Sequence[int], predictions: Sequence[Any], config: AlbertConfig
    ) -> None:
        """Writes predictions to `stem` plus a suffix.

        Args:
            rows: 0-based index of each example in its file.
        """

    def _label_error(self, expected: str, names: Sequence[str]) -> UserError:
        return UserError(
            f"The model must have the labels of the task {self.options.task}: {expected}. "
            f"Received: {listed(names)}. Pass the --task that the model was trained on, or --task "
            "classify for your own data."
        )


class SingleLabel(LabelType):
    """One of several classes. A prediction is float `[C]`, the class probabilities."""

    problem_type = "single_label_classification"
    metrics = ("accuracy", "macro_f1")

    def model_labels(self, train: Sequence[Example]) -> Sequence[str]:
        """Returns GLUE's labels in GLUE's order, or the sorted labels of `train` for other data."""
        names = [name for _, name in self.glue_labels]
        names = names or _sorted_labels({example.label or "" for example in train})
        if len(names) < 2:
            raise UserError(
                "Classification requires at least two labels. "
                f"Received: {len(train)} examples, all with the label {short_repr(names[0])}."
            )
        return names

    def check(self, examples: Sequence[Example], config: AlbertConfig) -> None:
        numbers = self.numbers(config)
        for example in examples:
            _check_label(example.label, example, numbers)

    def targets(self, examples: Sequence[Example], config: AlbertConfig) -> list[int]:
        numbers = self.numbers(config)
        return [numbers[example.label] for example in examples]

    def decode(self, logits: np.ndarray, config: AlbertConfig) -> np.ndarray:
        return softmax(logits)

    def decide(self, predictions: Sequence[np.ndarray], config: AlbertConfig) -> np.ndarray:
        return np.stack(predictions).argmax(axis=-1)

    def write(
        self,
        stem: Path,
        rows: Sequence[int],
        predictions: Sequence[np.ndarray],
        config: AlbertConfig,
    ) -> None:
        """Writes a TSV file of indices and of labels as the task's files spell them."""
        labels = {number: label for label, number in self.numbers(config).items()}
        write_tsv(stem, rows, [labels[int(prediction.argmax())] for prediction in predictions])

    def numbers(self, config: AlbertConfig) -> Mapping[str, int]:
        """Returns the class id of each label in the files, in GLUE's order.

        A model's labels can also be spelled as in GLUE's files, or be LABEL_0, LABEL_1, … in GLUE's
        order.
        """
        if not self.glue_labels:
            return super().numbers(config)
        names = config.labels
        written, named = zip(*self.glue_labels, strict=True)
        known = [named, written, tuple(f"LABEL_{number}" for number in range(len(written)))]
        lowered = [name.lower() for name in names]
        for spelled in known:
            expected = [name.lower() for name in spelled]
            if sorted(expected) == sorted(lowered):
                pairs = zip(written, expected, strict=True)
                return {label: lowered.index(name) for label, name in pairs}
        raise self._label_error(listed(known[0]), names)


class Regression(LabelType):
    """A number. A prediction is float `[1]`."""

    problem_type = "regression"
    metrics = ("pearson", "spearman")

    def model_labels(self, train: Sequence[Example]) -> Sequence[str]:
        return (SCORE,)

    def check(self, examples: Sequence[Example], config: AlbertConfig) -> None:
        if len(config.labels) != 1:
            raise self._label_error(SCORE, config.labels)
        for example in examples:
            number = math.nan
            with contextlib.suppress(ValueError):
                number = float(example.label)
            if not math.isfinite(number):
                raise UserError(
                    f"A score must be a number. Received: {short_repr(example.label)} "
                    f"({_where(example)})."
                )

    def targets(self, examples: Sequence[Example], config: AlbertConfig) -> list[float]:
        return [float(example.label) for example in examples]

    def decode(self, logits: np.ndarray, config: AlbertConfig) -> np.ndarray:
        return logits

    def decide(self, predictions: Sequence[np.ndarray], config: AlbertConfig) -> np.ndarray:
        return np.stack(predictions)[:, 0]

    def write(
        self,
        stem: Path,
        rows: Sequence[int],
        predictions: Sequence[np.ndarray],
        config: AlbertConfig,
    ) -> None:
        """Writes a TSV file of indices and numbers."""
        numbers = [prediction[0] for prediction in predictions]
        if self.options.task in GLUE:  # the website rejects scores outside [0, 5]
            numbers = list(np.clip(numbers, 0, 5))
        write_tsv(stem, rows, [f"{number:.4f}" for number in numbers])


class MultiLabel(LabelType):
    """Any number of labels per text.

    The label of an example is a tuple of names. A prediction maps label names, in the model's
    order, to probabilities. A label is predicted if its probability reaches its threshold.
    """

    problem_type = MULTI_LABEL

    def read(self, row: Row, column: str | int) -> tuple[str, ...]:
        """Returns the labels in a list or in a delimited string.

        In a table, a string can also be a list in Python or JSON syntax.
        """
        value = row.get(column)
        if isinstance(value, list) and all(isinstance(label, str) for label in value):
            labels = value
        elif isinstance(value, str) or (value is None and column not in row.fields):
            text = row.text(column, may_be_empty=True).strip()
            if _LIST.fullmatch(text):
                labels = _written_list(text)
            else:
                labels = text.split(self.options.label_separator) if text else []
        else:
            labels = [""]
        labels = [label.strip() for label in labels]
        if not all(labels):
            raise UserError(
                "Labels must be a list of strings, or a single string in which "
                f"{self.options.label_separator!r} separates labels (empty for no label). "
                f"Received: {short_repr(value)} ({row.location})."
            )
        return tuple(dict.fromkeys(labels))

    def model_labels(self, train: Sequence[Example]) -> Sequence[str]:
        names = _sorted_labels({label for example in train for label in example.label or ()})
        if not names:
            raise UserError(
                "--multi-label requires at least one row with a label. "
                f"Received: {len(train)} examples, all without labels."
            )
        self._check_separator(train, names)
        return names

    def _check_separator(self, train: Sequence[Example], names: Sequence[str]) -> None:
        """Rejects labels that seem to be delimited by a separator other than the default."""
        if self.options.label_separator != TaskData.label_separator:
            return
        if any(len(example.label or ()) > 1 for example in train):
            return
        for separator in _OTHER_SEPARATORS:
            several = [name for name in names if separator in name]
            if 2 * len(several) > len(names):
                raise UserError(
                    f"--multi-label splits labels at {self.options.label_separator!r}, which no "
                    f"label contains. Received: {len(several)} of {len(names)} labels with "
                    f"{separator!r}, such as {short_repr(several[0])}. Pass --label-separator "
                    f"{shlex.quote(separator)}, or omit --multi-label if each is a single label."
                )

    def check(self, examples: Sequence[Example], config: AlbertConfig) -> None:
        for example in examples:
            for label in example.label:
                _check_label(label, example, config.label2id)

    def targets(self, examples: Sequence[Example], config: AlbertConfig) -> list[np.ndarray]:
        """Returns a float32 multi-hot array `[C]` for each example."""
        targets = np.zeros((len(examples), len(config.label2id)), "float32")
        for row, example in enumerate(examples):
            targets[row, [config.label2id[label] for label in example.label]] = 1
        return list(targets)

    def decode(self, logits: np.ndarray, config: AlbertConfig) -> dict[str, float]:
        return dict(zip(config.labels, sigmoid(logits).tolist(), strict=True))

    def decide(
        self, predictions: Sequence[Mapping[str, float]], config: AlbertConfig
    ) -> np.ndarray:
        return _probabilities(predictions) >= np.array(config.label_thresholds)

    def score(
        self,
        metrics: Sequence[str],
        targets: np.ndarray,
        decisions: np.ndarray,
        predictions: Sequence[Mapping[str, float]],
    ) -> dict[str, float]:
        """Returns micro F1, macro F1, and the mean average precision."""
        from albert_tf.evaluation.metrics import evaluate_labels

        return evaluate_labels(targets, _probabilities(predictions), decisions)

    def write(
        self,
        stem: Path,
        rows: Sequence[int],
        predictions: Sequence[Mapping[str, float]],
        config: AlbertConfig,
    ) -> None:
        """Writes one JSON object per line, because a label may contain any character."""
        with Path(f"{stem}.jsonl").open("w", encoding="utf-8", newline="\n") as file:
            for index, probabilities in zip(rows, predictions, strict=True):
                labels = chosen_labels(probabilities, config)
                row = {"index": index, "labels": labels, "probabilities": probabilities}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def chosen_labels(probabilities: Mapping[str, float], config: AlbertConfig) -> list[str]:
    """Returns the labels whose probability reaches their threshold, in the model's order."""
    pairs = zip(probabilities.items(), config.label_thresholds, strict=True)
    return [name for (name, value), threshold in pairs if value >= threshold]


def _sorted_labels(labels: set[str]) -> list[str]:
    """Sorts labels by value if all are finite numbers ("2" before "10"), or else as text."""
    try:
        values = {label: float(label) for label in labels}
    except ValueError:
        return sorted(labels)
    if not all(map(math.isfinite, values.values())):
        return sorted(labels)
    return sorted(labels, key=lambda label: (values[label], label))


def _check_label(label: str, example: Example, known: Mapping[str, int]) -> None:
    if label not in known:
        raise UserError(
            f"A label must be one of {listed(known)}. Received: {short_repr(label)} "
            f"({_where(example)})."
        )


def _where(example: Example) -> str:
    return example.location or f"for the text {example.text[:60]!r}"


def write_tsv(stem: Path, rows: Sequence[int], predictions: Sequence[str]) -> None:
    """Writes predictions and the 0-based index of each row to `stem.tsv`."""
    with Path(f"{stem}.tsv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(("index", "prediction"))
        writer.writerows(zip(rows, predictions, strict=True))


def _probabilities(predictions: Sequence[Mapping[str, float]]) -> np.ndarray:
    return np.array([list(probabilities.values()) for probabilities in predictions])


def _written_list(text: str) -> list[str]:
    """Parses a list of strings in JSON or Python syntax. Returns `[""]` for any other text.

    NumPy writes `['a' 'b']` without commas, which Python would parse as a single string.
    """
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            values = read(text)
            is_list = isinstance(values, list) and all(isinstance(value, str) for value in values)
            if is_list and (read is json.loads or repr(values) == text):
                return values
    return [""]

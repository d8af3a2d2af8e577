"""Classification by label type: one class, any number of classes, or a number."""

import ast
import contextlib
import csv
import json
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.data.options import LabelledData, TaskData
from albert_tf.data.readers import Example, Row, row_numbers
from albert_tf.data.tasks.base import Graded, Keys, Predicted, grade_class, grade_number
from albert_tf.data.tasks.classification import Classification
from albert_tf.data.tasks.glue import GLUE
from albert_tf.errors import UserError, listed, short_repr
from albert_tf.probabilities import sigmoid, softmax

SCORE: Final = "score"  # the label of a regression model
MULTI_LABEL: Final = "multi_label_classification"
# Label separators in tables, other than the default.
_OTHER_SEPARATORS: Final = (";", "|", "/")
_COMMA: Final = re.compile(r"[+-]?\d+,\d+")
# Several values in Python or JSON syntax.
_LIST: Final = re.compile(r"\[.*\]|[({]\s*['\"].*[)}]", re.DOTALL)


def classification(options: TaskData, config: AlbertConfig | None) -> Classification:
    """Returns the task for the label type of a GLUE task, a trained model, or your own data."""
    several, numbers = False, False
    if options.task in GLUE:
        numbers = not GLUE[options.task].labels
    elif config is not None:
        several, numbers = config.problem_type == MULTI_LABEL, len(config.labels) == 1
    elif isinstance(options, LabelledData):
        several, numbers = options.multi_label, options.regression
    if several:
        return MultiLabel(options)
    is_known = config is not None or isinstance(options, LabelledData)
    if is_known and options.label_separator != TaskData.label_separator:
        raise UserError(
            "--label-separator requires --multi-label, or a model trained with it. "
            f"Received: {options.label_separator!r}."
        )
    return Regression(options) if numbers else SingleLabel(options)


class SingleLabel(Classification):
    """One of several classes. A prediction is float `[C]`, the class probabilities."""

    problem_type = "single_label_classification"
    metrics = ("accuracy", "macro_f1")

    def read_label(self, row: Row, column: str | int) -> str:
        """Returns a row's label, stripped of whitespace. Rejects lists in Python or JSON syntax."""
        value = row.get(column)
        if not isinstance(value, list):
            value = row.text(column).strip()
        if isinstance(value, list) or (_LIST.fullmatch(value) and any(_written_list(value))):
            raise UserError(
                f"{column!r} must be one label. Received: {short_repr(value)} ({row.location}). "
                "For several labels, pass --multi-label."
            )
        return value

    def model_labels(self, train: Sequence[Example]) -> Sequence[str]:
        """Returns GLUE's labels in GLUE's order, or the sorted labels of `train` for other data."""
        names = [name for _, name in self.table.labels]
        names = names or _sorted_labels({each.label or "" for each in _one_spelling(train)})
        if len(names) < 2:
            raise UserError(
                "Classification requires at least two labels. "
                f"Received: {len(train)} examples, all with the label {short_repr(names[0])}."
            )
        return names

    def keys(self, examples: Sequence[Example]) -> Keys:
        return super().keys(_one_spelling(examples))

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

    def grade(self, predicted: Predicted[Example, np.ndarray]) -> list[Graded]:
        config = predicted.config
        targets = self.targets(predicted.examples, config)
        return [
            grade_class(self.text(example), config.labels, target, probabilities)
            for (example, probabilities), target in zip(predicted.pairs, targets, strict=True)
        ]

    def confusions(self, predicted: Predicted[Example, np.ndarray]) -> list[tuple[str, str]]:
        return [(each.expected, each.predicted) for each in self.grade(predicted)]

    def write_part(self, predicted: Predicted[Example, np.ndarray], stem: Path) -> None:
        """Writes a TSV file of indices and labels, spelled as in the task's files."""
        labels = {number: label for label, number in self.numbers(predicted.config).items()}
        chosen = [labels[int(prediction.argmax())] for prediction in predicted.predictions]
        write_tsv(stem, predicted.examples, chosen)

    def numbers(self, config: AlbertConfig) -> Mapping[str, int]:
        """Returns the class id of each label in the files, in GLUE's order.

        A model's labels can also be spelled as in GLUE's files, or be LABEL_0, LABEL_1, … in GLUE's
        order. For other data, the result also contains other spellings of each label; the model's
        own labels come last.
        """
        if not self.table.labels:
            ids = dict(config.label2id)
            others = ((text, ids[name]) for name in ids for text in _spellings(name))
            return {text: number for text, number in others if text not in ids} | ids
        names = config.labels
        written, named = zip(*self.table.labels, strict=True)
        known = [named, written, tuple(f"LABEL_{number}" for number in range(len(written)))]
        lowered = [name.lower() for name in names]
        for spelled in known:
            expected = [name.lower() for name in spelled]
            if sorted(expected) == sorted(lowered):
                pairs = zip(written, expected, strict=True)
                return {label: lowered.index(name) for label, name in pairs}
        raise _label_error(self.options.task, listed(known[0]), names)


class Regression(Classification):
    """A number. A prediction is float `[1]`."""

    problem_type = "regression"
    metrics = ("pearson", "spearman")

    def model_labels(self, train: Sequence[Example]) -> Sequence[str]:
        return (SCORE,)

    def check(self, examples: Sequence[Example], config: AlbertConfig) -> None:
        if len(config.labels) != 1:
            raise _label_error(self.options.task, SCORE, config.labels)
        for example in (each for each in examples if each.label is not None):
            read_score(example.label, _where(example))

    def targets(self, examples: Sequence[Example], config: AlbertConfig) -> list[float]:
        return [float(example.label) for example in examples]

    def decode(self, logits: np.ndarray, config: AlbertConfig) -> np.ndarray:
        return logits

    def decide(self, predictions: Sequence[np.ndarray], config: AlbertConfig) -> np.ndarray:
        return np.stack(predictions)[:, 0]

    def keys(self, examples: Sequence[Example]) -> Keys:
        return Keys(groups=super().keys(examples).groups)

    def grade(self, predicted: Predicted[Example, np.ndarray]) -> list[Graded]:
        return [
            grade_number(self.text(example), float(example.label), float(prediction[0]))
            for example, prediction in predicted.pairs
        ]

    def write_part(self, predicted: Predicted[Example, np.ndarray], stem: Path) -> None:
        """Writes a TSV file of indices and numbers."""
        numbers = [prediction[0] for prediction in predicted.predictions]
        if self.options.task in GLUE:  # the website rejects scores outside [0, 5]
            numbers = list(np.clip(numbers, 0, 5))
        write_tsv(stem, predicted.examples, [f"{number:.4f}" for number in numbers])


class MultiLabel(Classification):
    """Any number of labels per text.

    The label of an example is a tuple of names. A prediction is float `[C]`, the probability of
    each label. A label is predicted if its probability reaches its threshold.
    """

    problem_type = MULTI_LABEL

    def read_label(self, row: Row, column: str | int) -> tuple[str, ...]:
        """Returns the labels in a list or in a delimited string.

        In a table, the string can also contain a list in Python or JSON syntax.
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
                    f"--multi-label splits labels at {self.options.label_separator!r}, but no row "
                    f"has several labels. Received: {len(several)} of {len(names)} labels with "
                    f"{separator!r}, such as {short_repr(several[0])}. Pass --label-separator "
                    f"{shlex.quote(separator)}, or omit --multi-label if each is a single label."
                )

    def check(self, examples: Sequence[Example], config: AlbertConfig) -> None:
        for example in examples:
            for label in example.label or ():
                _check_label(label, example, config.label2id)

    def targets(self, examples: Sequence[Example], config: AlbertConfig) -> list[np.ndarray]:
        """Returns a float32 multi-hot array `[C]` for each example."""
        targets = np.zeros((len(examples), len(config.label2id)), "float32")
        for row, example in enumerate(examples):
            targets[row, [config.label2id[label] for label in example.label]] = 1
        return list(targets)

    def decode(self, logits: np.ndarray, config: AlbertConfig) -> np.ndarray:
        return sigmoid(logits).astype("float64")

    def decide(self, predictions: Sequence[np.ndarray], config: AlbertConfig) -> np.ndarray:
        return np.stack(predictions) >= np.array(config.label_thresholds)

    def score(
        self,
        metrics: Sequence[str],
        targets: np.ndarray,
        decisions: np.ndarray,
        predictions: Sequence[np.ndarray],
    ) -> dict[str, float]:
        """Returns micro F1, macro F1, and the mean average precision."""
        from albert_tf.evaluation.metrics import evaluate_labels

        return evaluate_labels(targets, np.stack(predictions), decisions)

    def fit_thresholds(self, predicted: Predicted[Example, np.ndarray]) -> dict[str, Any]:
        from albert_tf.evaluation.metrics import best_thresholds  # imports scikit-learn

        labels = np.array(self.targets(predicted.examples, predicted.config))
        return {"thresholds": tuple(best_thresholds(labels, np.stack(predicted.predictions)))}

    def grade(self, predicted: Predicted[Example, np.ndarray]) -> list[Graded]:
        """Compares each predicted set of labels with the expected set."""
        graded, config = [], predicted.config
        for example, probabilities in predicted.pairs:
            chosen = chosen_labels(probabilities, config)
            confidence = min(
                value if name in chosen else 1 - value
                for name, value in zip(config.labels, probabilities.tolist(), strict=True)
            )
            expected, found = (
                ", ".join(labels) or "no label" for labels in (sorted(example.label), chosen)
            )
            is_right = {*example.label} == {*chosen}
            graded.append(Graded(self.text(example), expected, found, confidence, is_right))
        return graded

    def write_part(self, predicted: Predicted[Example, np.ndarray], stem: Path) -> None:
        """Writes one JSON object per line, because a label may contain any character."""
        config = predicted.config
        rows = row_numbers(example.location for example in predicted.examples)
        with Path(f"{stem}.jsonl").open("w", encoding="utf-8", newline="\n") as file:
            for index, probabilities in zip(rows, predicted.predictions, strict=True):
                row = {
                    "index": index,
                    "labels": chosen_labels(probabilities, config),
                    "probabilities": dict(zip(config.labels, probabilities.tolist(), strict=True)),
                }
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _label_error(task: str, expected: str, names: Sequence[str]) -> UserError:
    return UserError(
        f"The model must have the labels of the task {task}: {expected}. Received: "
        f"{listed(names)}. Pass the --task that the model was trained on, or --task classify for "
        "your own data."
    )


def chosen_labels(probabilities: Iterable[float], config: AlbertConfig) -> list[str]:
    """Returns the labels whose probability reaches their threshold, in the model's order."""
    each = zip(config.labels, probabilities, config.label_thresholds, strict=True)
    return [name for name, value, threshold in each if value >= threshold]


def read_score(text: str, location: str, minimum: float = -math.inf) -> float:
    """Returns a finite number that is at least `minimum`."""
    score = math.nan
    with contextlib.suppress(ValueError):
        score = float(text)
    if math.isfinite(score) and score >= minimum:
        return score
    raise UserError(
        f"A score must be a {'non-negative ' * (minimum == 0)}number. Received: "
        f"{short_repr(text)} ({location})."
        + " Write a decimal point instead of the comma."
        * bool(_COMMA.fullmatch(text.strip()))
    )


def _spellings(name: str) -> Sequence[str]:
    """Returns the spellings of a boolean or a whole number in CSV, JSON, and Parquet files."""
    for spellings in (("true", "True", "TRUE"), ("false", "False", "FALSE")):
        if name in spellings:
            return spellings
    whole = name.removesuffix(".0")
    return (whole, f"{whole}.0") if whole.removeprefix("-").isdecimal() else ()


def _one_spelling(examples: Sequence[Example]) -> list[Example]:
    """Returns the examples with one spelling of each boolean and each whole number."""
    labels = {example.label or "" for example in examples}
    names = {name: next(filter(labels.__contains__, _spellings(name)), name) for name in labels}
    return [each._replace(label=names.get(each.label, each.label)) for each in examples]


def _sorted_labels(labels: set[str]) -> list[str]:
    """Sorts labels by value if all are finite numbers ("2" before "10"), or else as text."""
    try:
        values = {label: float(label) for label in labels}
    except ValueError:
        return sorted(labels)
    if not all(map(math.isfinite, values.values())):
        return sorted(labels)
    return sorted(labels, key=lambda label: (values[label], label))


def _check_label(label: str | None, example: Example, known: Mapping[str, int]) -> None:
    if label is not None and label not in known:
        names = {number: name for name, number in known.items()}.values()  # one spelling of each
        raise UserError(
            f"A label must be one of {listed(names)}. Received: {short_repr(label)} "
            f"({_where(example)})."
        )


def _where(example: Example) -> str:
    return example.location or f"for the text {example.text[:60]!r}"


def write_tsv(stem: Path, examples: Sequence[Any], predictions: Sequence[str]) -> None:
    """Writes each example's 0-based index in its file, and its prediction, to `stem.tsv`."""
    rows = row_numbers(example.location for example in examples)
    with Path(f"{stem}.tsv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(("index", "prediction"))
        writer.writerows(zip(rows, predictions, strict=True))


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

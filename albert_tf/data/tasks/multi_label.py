"""Several labels for a text or a pair of texts, or none."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.special import expit

from albert_tf.data.readers import Example, Row
from albert_tf.data.tasks.base import ByThreshold, GradedPrediction, Outputs, Task
from albert_tf.data.tasks.classification import Classification, one_class, sorted_labels
from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError, listed, short_repr

TYPE: Final = "multi_label_classification"


class MultiLabel(Classification):
    """Any number of several labels.

    An example's label is a tuple of names. A prediction is the probability of each label by name,
    in the model's order; dev chooses the thresholds above which labels hold.
    """

    def read_label(self, row: Row, name: str | int) -> tuple[str, ...]:
        """Returns the labels in a list of JSON, or those that the separator parts in a text."""
        value = row.get(name)
        if isinstance(value, list) and all(isinstance(label, str) for label in value):
            labels = value
        elif isinstance(value, str) or (value is None and name not in row.fields):
            text = row.text(name, may_be_empty=True)
            labels = text.split(self.options.label_separator) if text.strip() else []
        else:
            labels = [""]
        labels = [label.strip() for label in labels]
        if not all(labels):
            raise UserError(
                "Labels must be a list of texts, or one text with "
                f"{self.options.label_separator!r} between labels; an empty one for no label. "
                f"Received: {short_repr(value)}, {row.place}."
            )
        return tuple(dict.fromkeys(labels))

    def labels(self, example: Example) -> Sequence[str]:
        return example.label or ()

    def baseline(
        self, train: Sequence[Example], dev: Sequence[Example], config: Any
    ) -> dict[str, float]:
        return Task.baseline(self, train, dev, config)

    def config_fields(self, train: Sequence[Example]) -> dict[str, Any]:
        names = sorted_labels({label for example in train for label in example.label or ()})
        if not names:
            raise UserError(
                "Several labels need a row with a label. "
                f"Received: {len(train)} examples, all without one."
            )
        return {"id2label": dict(enumerate(names)), "problem_type": TYPE, "thresholds": None}

    def predictions(
        self, examples: Sequence[Example], rows: Rows, outputs: Sequence[Outputs], config: Any
    ) -> list[dict[str, float]]:
        probabilities = [expit(row["logits"]).tolist() for row in outputs]
        return [dict(zip(config.labels, each, strict=True)) for each in probabilities]

    def scores(
        self, examples: Sequence[Example], predictions: Sequence[Any], config: Any
    ) -> dict[str, float]:
        """Returns F1 of all decisions, its mean over labels, and the mean average precision."""
        from albert_tf.evaluation import metrics

        labels = np.array(self._labels(examples, config))
        probabilities = _array(predictions)
        chosen = probabilities >= np.array(config.label_thresholds)
        scores = metrics.evaluate_labels(labels, probabilities, chosen)
        return scores | one_class(list(map(tuple, chosen)), list(map(tuple, labels)))

    def fit_thresholds(
        self, examples: Sequence[Example], predictions: Sequence[Any]
    ) -> dict[str, Any]:
        """Returns the threshold of each label with the best F1; 0.5 for labels not in dev."""
        curves = _curves(examples, predictions)
        return {"thresholds": tuple(_best(*curve) for curve in curves.values())}

    def by_threshold(
        self, examples: Sequence[Example], predictions: Sequence[Any], config: Any
    ) -> list[ByThreshold]:
        curves = _curves(examples, predictions)
        return [
            ByThreshold(f"F1 of {name}", thresholds.tolist(), scores.tolist(), chosen)
            for (name, (thresholds, scores)), chosen in zip(
                curves.items(), config.label_thresholds, strict=True
            )
            if len(thresholds)
        ]

    def grade(
        self, examples: Sequence[Example], predictions: Sequence[Any], config: Any
    ) -> list[GradedPrediction]:
        return [
            self._grade(example, probabilities, config)
            for example, probabilities in zip(examples, predictions, strict=True)
        ]

    def _grade(
        self, example: Example, probabilities: Mapping[str, float], config: Any
    ) -> GradedPrediction:
        found, expected = chosen_labels(probabilities, config), sorted(example.label or ())
        sure = min(value if name in found else 1 - value for name, value in probabilities.items())
        written = [", ".join(names) or "no label" for names in (expected, found)]
        is_right = set(expected) == set(found)
        return GradedPrediction(
            "\n".join(self.texts(example)), written[0], written[1], sure, is_right
        )

    def classes(self, config: Any) -> Sequence[str]:
        return ()

    def write(
        self,
        folder: Path,
        examples: Sequence[Example],
        predictions: Sequence[Any],
        config: Any,
    ) -> None:
        """Writes a line of JSON for each example, since a label may have any character."""
        with (folder / "predictions.jsonl").open("w", encoding="utf-8") as file:
            for index, probabilities in enumerate(predictions):
                labels = chosen_labels(probabilities, config)
                row = {"index": index, "labels": labels, "probabilities": probabilities}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def has_accuracy(self, config: Any) -> bool:
        return False

    def _labels(self, examples: Sequence[Example], config: Any) -> list[np.ndarray]:
        """Returns float32 `[C]` for each labelled example: 1 for its labels."""
        if config.problem_type != TYPE:
            raise UserError(
                "With --multi-label the model must have been trained with it. Received: a model "
                f"for {config.problem_type or 'one label'}. Leave --multi-label out."
            )
        return [_several(each, config.label2id) for each in examples if each.label is not None]


def chosen_labels(probabilities: Mapping[str, float], config: Any) -> list[str]:
    """Returns the labels whose probability reaches their threshold, in the model's order."""
    pairs = zip(probabilities.items(), config.label_thresholds, strict=True)
    return [name for (name, value), threshold in pairs if value >= threshold]


def _several(example: Example, ids: Mapping[str, int]) -> np.ndarray:
    row = np.zeros(len(ids), "float32")
    for label in example.label or ():
        if label not in ids:
            place = example.place or f"for the text {example.text[:60]!r}"
            raise UserError(
                f"A label must be one of {listed(ids)}. Received: {short_repr(label)}, {place}."
            )
        row[ids[label]] = 1
    return row


def _array(predictions: Sequence[Any]) -> np.ndarray:
    return np.array([list(probabilities.values()) for probabilities in predictions])


def _curves(
    examples: Sequence[Example], predictions: Sequence[Any]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns for each label the thresholds that part its probabilities, and F1 at each.

    Labels that no example has are left with no thresholds.
    """
    from sklearn import metrics

    curves = {}
    for name, probabilities in zip(predictions[0], _array(predictions).T, strict=True):
        truths = np.array([name in (example.label or ()) for example in examples])
        if not truths.any():
            curves[name] = (np.array([]), np.array([]))
            continue
        precision, recall, found = metrics.precision_recall_curve(truths, probabilities)
        total = np.maximum(precision + recall, 1e-12)
        between = (found + np.concatenate(([0.0], found[:-1]))) / 2
        curves[name] = (between, (2 * precision * recall / total)[:-1])
    return curves


def _best(thresholds: np.ndarray, scores: np.ndarray) -> float:
    return float(thresholds[scores.argmax()]) if len(thresholds) else 0.5

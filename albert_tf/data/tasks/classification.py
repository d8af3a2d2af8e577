"""Classes or a number for a text or a pair of texts: GLUE, and files of your own."""

import csv
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.special import softmax

from albert_tf.data import hub
from albert_tf.data.options import LabelledData
from albert_tf.data.readers import Example, Row, read_examples
from albert_tf.data.tasks.base import GradedPrediction, Outputs, Task, find_file
from albert_tf.data.tasks.glue import GLUE, GlueTask, Part
from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError, listed, short_repr

# A key of scores: NEARLY_ALL of the predictions are one class, while the labels are not.
ONE_CLASS: Final = "one_class"
NEARLY_ALL: Final = 0.99
SCORE: Final = "score"  # the label of a regressor
_CLASS_METRICS: Final = ("accuracy", "macro_f1")
_REGRESSION_METRICS: Final = ("pearson", "spearman")


def one_class(predictions: Sequence[Hashable], labels: Sequence[Hashable]) -> dict[str, float]:
    """Returns `{ONE_CLASS: 1.0}` for a model that answers alike to `NEARLY_ALL` examples or more.

    Returns `{}` for other models, and where as many labels are alike.
    """
    found, expected = (max(Counter(each).values()) / len(each) for each in (predictions, labels))
    return {ONE_CLASS: 1.0} if found >= NEARLY_ALL and found > expected else {}


class Classification(Task[Example, Any]):
    """One of several classes, or a number.

    A prediction is float `[C]`: the classes' probabilities, or the number.

    Attributes:
        table: the task's row of GLUE's table, or one for data of one's own, without known labels.
        is_glue: whether it is GLUE's.
    """

    model = "AlbertForSequenceClassification"

    def __init__(self, options: LabelledData):
        super().__init__(options)
        self.is_glue = options.task in GLUE
        metrics = _REGRESSION_METRICS if options.regression else _CLASS_METRICS
        own = GlueTask(options.columns, (), metrics, (Part("predictions"),))
        self.table = GLUE.get(options.task, own)
        self.is_regression = options.regression or (self.is_glue and not self.table.labels)

    def files(self, part: str) -> list[Path]:
        data = self.options.data
        if not self.is_glue or data.is_file():
            return super().files(part)
        if hub.is_hub(data):
            return [hub.split(data, name) for name in self.table.splits(part)]
        places = [each.dev if part == "dev" else each.test for each in self.table.parts]
        if part == "train":
            places = [("train.tsv",)]
        found = [_glue_file(data, each) for each in places]
        return [found[0] or find_file(data, places[0][0]), *filter(None, found[1:])]

    def read(self, path: Path, labelled: bool = True) -> list[Example]:
        part, on_hub = self.table.part(path), hub.is_hub(path) or path.suffix == hub.PARQUET
        columns = self.table.columns_of(part, labelled, on_hub)
        read_label = self._hub_label if self.is_glue and on_hub else self.read_label
        skip = labelled and self.options.skip_bad_rows
        return read_examples(path, columns, skip, part.name, read_label, self.options.dialect)

    def read_label(self, row: Row, name: str | int) -> Any:
        """Returns the label in a row."""
        return row.text(name)

    def _hub_label(self, row: Row, name: str | int) -> str:
        """Returns a label as GLUE's files spell it; the hub has its name, or its number."""
        label, labels = row.text(name), self.table.labels
        spelled = {str(number): written for number, (written, _) in enumerate(labels)}
        return {**spelled, **{named: written for written, named in labels}}.get(label, label)

    def config_fields(self, train: Sequence[Example]) -> dict[str, Any]:
        """Returns GLUE's labels in GLUE's order; for other data the labels of `train`, sorted."""
        if self.is_regression:
            return {"id2label": {0: SCORE}, "problem_type": "regression", "thresholds": None}
        names = [name for _, name in self.table.labels]
        names = names or sorted_labels({example.label or "" for example in train})
        if len(names) < 2:
            raise UserError(
                "Classification needs at least two labels. "
                f"Received: {len(train)} examples, all with the label {short_repr(names[0])}."
            )
        return {
            "id2label": dict(enumerate(names)),
            "problem_type": "single_label_classification",
            "thresholds": None,  # a model of another task may have some
        }

    def check(self, examples: Sequence[Example], config: Any) -> None:
        self._labels(examples, config)

    def encode(
        self, examples: Sequence[Example], tokenizer: Any, config: Any, max_length: int
    ) -> Rows:
        labels = self._labels(examples, config)  # first, since it also compares the model's
        return encode_texts(
            [example.text for example in examples],
            None if examples[0].text_pair is None else [each.text_pair or "" for each in examples],
            labels if examples[0].label is not None else None,
            tokenizer,
            max_length,
        )

    def predictions(
        self, examples: Sequence[Example], rows: Rows, outputs: Sequence[Outputs], config: Any
    ) -> list[Any]:
        logits = [row["logits"] for row in outputs]
        return logits if self.is_regression else [softmax(row) for row in logits]

    def scores(
        self, examples: Sequence[Example], predictions: Sequence[np.ndarray], config: Any
    ) -> dict[str, float]:
        """Returns each metric, and what `one_class` does."""
        from albert_tf.evaluation import metrics  # Imports scikit-learn, which takes seconds.

        labels, found = np.array(self._labels(examples, config)), np.stack(predictions)
        chosen = found[:, 0] if self.is_regression else found.argmax(axis=-1)
        own_metrics = {part.name: part.metrics for part in self.table.parts}
        scores: dict[str, float] = {}
        for part, rows in _parts(examples).items():
            names = own_metrics.get(part) or self.table.metrics
            prefix = f"{part}_" if part else ""
            values = metrics.evaluate(names, labels[rows], chosen[rows])
            scores |= {f"{prefix}{name}": value for name, value in values.items()}
        if self.is_regression:
            return scores
        return scores | one_class(chosen.tolist(), labels.tolist())

    def grade(
        self, examples: Sequence[Example], predictions: Sequence[np.ndarray], config: Any
    ) -> list[GradedPrediction]:
        labels = self._labels(examples, config)
        texts = ["\n".join(self.texts(example)) for example in examples]
        judge = _grade_number if self.is_regression else partial(_grade_class, config.labels)
        return list(map(judge, texts, labels, predictions))

    def classes(self, config: Any) -> Sequence[str]:
        return () if self.is_regression else config.labels

    def write(
        self,
        folder: Path,
        examples: Sequence[Example],
        predictions: Sequence[np.ndarray],
        config: Any,
    ) -> None:
        """Writes a TSV of index and prediction; for GLUE those that its site takes."""
        numbers = self._numbers(config.labels)
        labels = {number: label for label, number in (numbers or {}).items()}
        names = {part.name: part.submission for part in self.table.parts}
        for part, rows in _parts(examples).items():
            path = folder / f"{names.get(part, 'predictions')}.tsv"
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, delimiter="\t", lineterminator="\n")
                writer.writerow(("index", "prediction"))
                for index, row in enumerate(rows):
                    predicted = predictions[row]
                    if labels:
                        label = labels[int(predicted.argmax())]
                    else:  # STS-B's site refuses scores beyond 0 and 5
                        score = np.clip(predicted[0], 0, 5) if self.is_glue else predicted[0]
                        label = f"{score:.4f}"
                    writer.writerow((index, label))

    def texts(self, example: Example) -> Iterable[str]:
        return (text for text in (example.text, example.text_pair) if text)

    def has_accuracy(self, config: Any) -> bool:
        return not self.is_regression

    def labels(self, example: Example) -> Sequence[str]:
        return () if self.is_regression or example.label is None else (example.label,)

    def columns(self) -> dict[str, str]:
        if self.is_glue:
            return {}
        named = self.options.columns._asdict().items()
        return {name: str(column) for name, column in named if column is not None}

    def baseline(
        self, train: Sequence[Example], dev: Sequence[Example], config: Any
    ) -> dict[str, float]:
        if self.is_regression:
            return super().baseline(train, dev, config)
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression

        words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        learned, asked = (["\n".join(self.texts(each)) for each in part] for part in (train, dev))
        try:
            known = words.fit_transform(learned)
        except ValueError as error:  # no words
            raise UserError(f"A baseline needs words. Received: {error}.") from error
        model = LogisticRegression(C=10, max_iter=1000).fit(known, self._labels(train, config))
        probabilities = np.zeros((len(dev), len(config.labels)))
        probabilities[:, model.classes_] = model.predict_proba(words.transform(asked))
        return self.scores(dev, list(probabilities), config)

    def strata(self, examples: Sequence[Example]) -> Sequence[Any] | None:
        labels = [example.label for example in examples]
        is_rare = min(Counter(labels).values()) < 2
        return None if self.is_regression or is_rare else labels

    def _labels(self, examples: Sequence[Example], config: Any) -> list[Any]:
        """Returns the classes or scores of labelled examples; errors are those of `check`."""
        if config.problem_type == "multi_label_classification":
            raise UserError(
                f"The model must give one label for --task {self.options.task}. Received: a model "
                "for several. Add --multi-label to --task classify."
            )
        numbers = self._numbers(config.labels)
        return [_number(example, numbers) for example in examples if example.label is not None]

    def _numbers(self, names: tuple[str, ...]) -> Mapping[str, int] | None:
        """Returns the class of each label in the files, for a model's labels; None for scores.

        A model of a GLUE task may name them as GLUE's files do, or LABEL_0, LABEL_1, … in GLUE's
        order.
        """
        if self.is_regression:
            known: list[tuple[str, ...]] = [names[:1]]
            written: tuple[str, ...] = ()
        elif self.table.labels:
            written, named = zip(*self.table.labels, strict=True)
            known = [named, written, tuple(f"LABEL_{number}" for number in range(len(written)))]
        else:
            written, known = names, [names]
        lowered = [name.lower() for name in names]
        for spelled in known:
            expected = [name.lower() for name in spelled]
            if sorted(expected) == sorted(lowered):
                pairs = zip(written, expected, strict=bool(written))
                return {label: lowered.index(name) for label, name in pairs} or None
        wanted = SCORE if self.is_regression else listed(known[0])
        raise UserError(
            f"The model's labels must be those of the task {self.options.task}: {wanted}. "
            f"Received: {listed(names)}. Give the task that the model was trained on, or for data "
            "of your own --task classify."
        )


def _grade_class(
    names: Sequence[str], text: str, label: float, probabilities: np.ndarray
) -> GradedPrediction:
    best = int(probabilities.argmax())
    confidence = float(probabilities[best])
    return GradedPrediction(text, names[int(label)], names[best], confidence, best == label)


def _grade_number(text: str, label: float, prediction: np.ndarray) -> GradedPrediction:
    distance = abs(float(prediction[0]) - label)
    return GradedPrediction(text, f"{label:g}", f"{prediction[0]:.3g}", distance, distance == 0)


def encode_texts(
    texts: Sequence[str],
    text_pairs: Sequence[str] | None,
    labels: Sequence[Any] | None,
    tokenizer: Any,
    max_length: int,
) -> Rows:
    """Returns the rows of texts or pairs, with a number or an array as each one's label."""
    encoded = tokenizer(
        texts, text_pairs, truncation=True, max_length=max_length, split_special_tokens=True
    )
    arrays = {name: encoded[name] for name in ("input_ids", "token_type_ids")}
    rows = Rows(arrays, {} if labels is None else {"labels": labels}, tokenizer.pad_token_id)
    full = [row for row, ids in enumerate(encoded["input_ids"]) if len(ids) == max_length]
    if full:
        given = [[each[row] for row in full] for each in (texts, text_pairs) if each is not None]
        whole = tokenizer(*given, split_special_tokens=True, verbose=False)
        rows.cut = sum(len(ids) > max_length for ids in whole["input_ids"])
    return rows


def _glue_file(data: Path, places: Sequence[str]) -> Path | None:
    """Returns the first file that there is; each may be compressed, or be Parquet."""
    stems = [place.removesuffix(".tsv") for place in places]
    found = (data / f"{stem}{end}" for stem in stems for end in (".tsv", ".tsv.gz", hub.PARQUET))
    return next(filter(Path.is_file, found), None)


def _parts(examples: Sequence[Example]) -> dict[str, list[int]]:
    """Returns the rows of each part, in the order of the first ones."""
    rows: dict[str, list[int]] = {}
    for row, example in enumerate(examples):
        rows.setdefault(example.part, []).append(row)
    return rows


def sorted_labels(labels: set[str]) -> list[str]:
    """Sorts by value if all are numbers: "2" before "10"."""
    try:
        return sorted(labels, key=float)
    except ValueError:
        return sorted(labels)


def _number(example: Example, numbers: Mapping[str, int] | None) -> float:
    """Returns an example's class, or its score if there are no classes."""
    label, place = example.label or "", example.place or f"for the text {example.text[:60]!r}"
    if numbers is not None:
        if label not in numbers:
            raise UserError(
                f"A label must be one of {listed(numbers)}. Received: {short_repr(label)}, {place}."
            )
        return numbers[label]
    try:
        score = float(label)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise UserError(f"A score must be a number. Received: {short_repr(label)}, {place}.")
    return score

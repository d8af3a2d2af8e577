"""Classification or regression of texts and text pairs: GLUE, and your own files."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.data import hub
from albert_tf.data.options import LabelledData, TaskData
from albert_tf.data.readers import Example, Row, read_examples, row_numbers
from albert_tf.data.tasks.base import Keys, Outputs, Predicted, Task, find_file
from albert_tf.data.tasks.glue import GLUE, GlueTask, ScoredSet
from albert_tf.data.tasks.labels import MULTI_LABEL, LabelType, MultiLabel, Regression, SingleLabel
from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError

# Flags a model that predicts one class for almost all examples.
ONE_CLASS: Final = "one_class"
NEARLY_ALL: Final = 0.99


def one_class(predictions: Sequence[Hashable], labels: Sequence[Hashable]) -> dict[str, float]:
    """Returns `{ONE_CLASS: 1.0}` if at least `NEARLY_ALL` of the predictions are the same.

    Returns {} otherwise, or if the most frequent label makes up at least the same share of the
    labels.
    """
    predicted, expected = (
        max(Counter(values).values()) / len(values) for values in (predictions, labels)
    )
    return {ONE_CLASS: 1.0} if predicted >= NEARLY_ALL and predicted > expected else {}


class Classification(Task[Example, Any]):
    """Predicts one class, several classes, or a number for a text or a text pair.

    Attributes:
        label_type: the type of labels and predictions.
        table: the task's entry in `GLUE`, or an entry without labels for your own data.
        is_glue: whether it is a GLUE task.
    """

    model = "AlbertForSequenceClassification"

    def __init__(self, options: TaskData, config: AlbertConfig | None = None):
        super().__init__(options, config)
        self.is_glue = options.task in GLUE
        label_type = _label_type(options, config)
        own = GlueTask(options.columns, (), label_type.metrics, (ScoredSet("predictions"),))
        self.table = GLUE.get(options.task, own)
        self.label_type = label_type(options, self.table.labels)
        if not self.is_glue:
            named = options.columns._asdict().items()
            self.columns = {name: str(column) for name, column in named if column is not None}

    def files(self, split: str) -> list[Path]:
        data = self.options.data
        if not self.is_glue or data.is_file():
            return super().files(split)
        if hub.is_hub(data):
            return [hub.split(data, name) for name in self.table.splits(split)]
        names: list[Sequence[str]] = [("train.tsv",)]
        if split != "train":
            names = [glue.dev if split == "dev" else glue.test for glue in self.table.parts]
        paths = [_glue_file(data, alternatives) for alternatives in names]
        return [paths[0] or find_file(data, names[0][0]), *filter(None, paths[1:])]

    def read(self, path: Path, labelled: bool = True) -> list[Example]:
        part, on_hub = self.table.part(path), hub.is_hub(path) or path.suffix == hub.PARQUET
        columns = self.table.columns_of(part, labelled, on_hub)
        read_label = self._hub_label if self.table.labels and on_hub else self.label_type.read
        skip = self.options.skip_bad_rows if labelled else None
        return read_examples(path, columns, skip, part.name, read_label, self.options.encoding)

    def _hub_label(self, row: Row, name: str | int) -> str:
        """Maps a label name or class id from the hub to the spelling in GLUE's files."""
        label, labels = row.text(name), self.table.labels
        spelled = {str(number): written for number, (written, _) in enumerate(labels)}
        return {**spelled, **{named: written for written, named in labels}}.get(label, label)

    def config_fields(self, train: Sequence[Example]) -> dict[str, Any]:
        return {
            "id2label": dict(enumerate(self.label_type.model_labels(train))),
            "problem_type": self.label_type.problem_type,
            "thresholds": None,  # removes the thresholds of a previous task
        }

    def check(self, examples: Sequence[Example], config: AlbertConfig) -> None:
        labelled = [example for example in examples if example.label is not None]
        self.label_type.check(labelled, config)

    def encode(
        self, examples: Sequence[Example], tokenizer: Any, config: AlbertConfig, max_length: int
    ) -> Rows:
        first = examples[0]
        return encode_texts(
            [example.text for example in examples],
            None if first.text_pair is None else [each.text_pair or "" for each in examples],
            None if first.label is None else self.label_type.targets(examples, config),
            tokenizer,
            max_length,
        )

    def predictions(
        self, examples: Sequence[Example], rows: Rows, outputs: Outputs, config: AlbertConfig
    ) -> list[Any]:
        return [self.label_type.decode(row["logits"], config) for row in outputs]

    def scores(self, predicted: Predicted[Example, Any]) -> dict[str, float]:
        """Returns the metrics of each part, and the result of `one_class`."""
        predictions, config = predicted.predictions, predicted.config
        targets = np.array(self.label_type.targets(predicted.examples, config))
        decisions = self.label_type.decide(predictions, config)
        if isinstance(self.label_type, SingleLabel):
            # F1 is computed for GLUE's second class, which may have any class id in the model.
            in_order = np.argsort(list(self.label_type.numbers(config).values()))
            targets, decisions = in_order[targets], in_order[decisions]
        own_metrics = {part.name: part.metrics for part in self.table.parts}
        scores: dict[str, float] = {}
        for part, rows in _parts(predicted.examples).items():
            names = own_metrics.get(part) or self.table.metrics
            chosen = [predictions[row] for row in rows]
            values = self.label_type.score(names, targets[rows], decisions[rows], chosen)
            prefix = f"{part}_" if part else ""
            scores |= {f"{prefix}{name}": value for name, value in values.items()}
        if isinstance(self.label_type, Regression):
            return scores
        classes = ([tuple(np.ravel(row)) for row in rows] for rows in (decisions, targets))
        return scores | one_class(*classes)

    def write(self, predicted: Predicted[Example, Any], folder: Path) -> None:
        """Writes a file for each part. The files have the format of GLUE's website."""
        names = {part.name: part.submission for part in self.table.parts}
        for part, rows in _parts(predicted.examples).items():
            stem = folder / names.get(part, "predictions")
            numbers = row_numbers(predicted.examples[row].location for row in rows)
            predictions = [predicted.predictions[row] for row in rows]
            self.label_type.write(stem, numbers, predictions, predicted.config)

    def texts(self, example: Example) -> Iterable[str]:
        return (text for text in (example.text, example.text_pair) if text)

    def keys(self, examples: Sequence[Example]) -> Keys:
        if isinstance(self.label_type, Regression):
            return Keys()
        labels: list[Any] = [example.label for example in examples]
        is_single = isinstance(self.label_type, SingleLabel)
        return Keys(labels=[(label,) for label in labels] if is_single else labels, strata=labels)


def baseline_scores(
    task: "Classification", train: Sequence[Any], dev: Sequence[Any], config: AlbertConfig
) -> dict[str, float]:
    """Returns the dev scores of a logistic regression on TF-IDF features.

    Raises:
        UserError: if the texts contain no words.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    train_texts, dev_texts = (
        ["\n".join(task.texts(example)) for example in examples] for examples in (train, dev)
    )
    try:
        vectors = words.fit_transform(train_texts)
    except ValueError as error:  # no words
        raise UserError(f"--baseline requires texts with words: {error}.") from error
    targets = task.label_type.targets(train, config)
    model = LogisticRegression(C=10, max_iter=1000).fit(vectors, targets)
    probabilities = np.zeros((len(dev), len(config.labels)))
    probabilities[:, model.classes_] = model.predict_proba(words.transform(dev_texts))
    return task.scores(Predicted(dev, list(probabilities), config))


def _label_type(options: TaskData, config: AlbertConfig | None) -> type[LabelType]:
    if options.task in GLUE:
        return SingleLabel if GLUE[options.task].labels else Regression
    several, numbers = False, False
    if config is not None:
        several, numbers = config.problem_type == MULTI_LABEL, len(config.labels) == 1
    elif isinstance(options, LabelledData):
        several, numbers = options.multi_label, options.regression
    if several:
        return MultiLabel
    is_known = config is not None or isinstance(options, LabelledData)
    if is_known and options.label_separator != TaskData.label_separator:
        raise UserError(
            "--label-separator requires --multi-label, or a model trained with it. "
            f"Received: {options.label_separator!r}."
        )
    return Regression if numbers else SingleLabel


def encode_texts(
    texts: Sequence[str],
    text_pairs: Sequence[str] | None,
    labels: Sequence[Any] | None,
    tokenizer: Any,
    max_length: int,
) -> Rows:
    """Returns the rows of texts or pairs; each label is a number or an array."""
    encoded = tokenizer(
        texts, text_pairs, truncation=True, max_length=max_length, split_special_tokens=True
    )
    arrays = {name: encoded[name] for name in ("input_ids", "token_type_ids")}
    rows = Rows(arrays, {} if labels is None else {"labels": labels}, tokenizer.pad_token_id)
    full = [row for row, ids in enumerate(encoded["input_ids"]) if len(ids) == max_length]
    if full:
        columns = [column for column in (texts, text_pairs) if column is not None]
        given = [[column[row] for row in full] for column in columns]
        whole = tokenizer(*given, split_special_tokens=True, verbose=False)
        rows.cut = sum(len(ids) > max_length for ids in whole["input_ids"])
    return rows


def _glue_file(data: Path, names: Sequence[str]) -> Path | None:
    """Returns the first file that exists, trying `.tsv`, `.tsv.gz`, and Parquet."""
    stems = [name.removesuffix(".tsv") for name in names]
    paths = (data / f"{stem}{end}" for stem in stems for end in (".tsv", ".tsv.gz", hub.PARQUET))
    return next(filter(Path.is_file, paths), None)


def _parts(examples: Sequence[Example]) -> dict[str, list[int]]:
    """Returns the rows of each part. Parts are ordered by their first rows."""
    rows: dict[str, list[int]] = {}
    for row, example in enumerate(examples):
        rows.setdefault(example.part, []).append(row)
    return rows

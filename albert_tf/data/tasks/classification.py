"""Classification or regression of texts and text pairs: GLUE, and your own files."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.data import hub
from albert_tf.data.options import TaskData
from albert_tf.data.readers import Example, Row, read_examples
from albert_tf.data.tasks.base import Keys, Outputs, Predicted, Task, find_split_file
from albert_tf.data.tasks.columns import columns
from albert_tf.data.tasks.glue import GLUE, GlueTask, ScoredSet
from albert_tf.data.tasks.rows import Rows, features_of
from albert_tf.errors import UserError, short_repr
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.sequences import EncodedSequence
from albert_tf.text.windows import Truncation, make_sequences, text_room

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


class Classification(Task[Example, np.ndarray]):
    """Labels texts or text pairs. A subclass defines the type of labels and predictions.

    Attributes:
        problem_type: `problem_type` of the configuration.
        metrics: names of the metrics for your own data.
        table: the task's entry in `GLUE`, or an entry without labels for your own data.
        is_glue: whether the task is a GLUE task.
    """

    model = "AlbertForSequenceClassification"
    problem_type: ClassVar[str]
    metrics: ClassVar[Sequence[str]] = ()

    def __init__(self, options: TaskData):
        super().__init__(options)
        self.is_glue = options.task in GLUE
        own = GlueTask(options.columns, (), self.metrics, (ScoredSet("predictions"),))
        self.table = GLUE.get(options.task, own)
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
        return [paths[0] or find_split_file(data, names[0][:1]), *filter(None, paths[1:])]

    def read(self, path: Path, labelled: bool = True) -> list[Example]:
        part, on_hub = self.table.part(path), hub.is_hub(path) or path.suffix == hub.PARQUET
        columns = self.table.columns_of(part, labelled, on_hub)
        read_label = self._hub_label if self.table.labels and on_hub else self.read_label
        skip = self.options.skip_bad_rows if labelled else None
        return read_examples(path, columns, skip, part.name, read_label, self.options.encoding)

    def _hub_label(self, row: Row, name: str | int) -> str:
        """Maps a label name or class id from the Hub to the spelling in GLUE's files."""
        label, labels = row.text(name), self.table.labels
        spelled = {str(number): written for number, (written, _) in enumerate(labels)}
        return {**spelled, **{named: written for written, named in labels}}.get(label, label)

    def read_label(self, row: Row, column: str | int) -> Any:
        """Returns a row's label.

        Raises:
            UserError: if the label is missing or invalid.
        """
        return row.text(column)

    @abstractmethod
    def model_labels(self, train: Sequence[Example]) -> Sequence[str]:
        """Returns the labels of a new model.

        Raises:
            UserError: if nothing can be learned from the examples.
        """

    def config_fields(self, train: Sequence[Example]) -> dict[str, Any]:
        return {
            "id2label": dict(enumerate(self.model_labels(train))),
            "problem_type": self.problem_type,
        }

    @abstractmethod
    def targets(self, examples: Sequence[Example], config: AlbertConfig) -> list[Any]:
        """Returns the target of each example: a class id, a float, or a multi-hot array."""

    def numbers(self, config: AlbertConfig) -> Mapping[str, int]:
        """Returns the model's class id for each label."""
        return dict(config.label2id)

    @abstractmethod
    def decode(self, logits: np.ndarray, config: AlbertConfig) -> np.ndarray:
        """Returns an example's prediction, given its logits."""

    @abstractmethod
    def decide(self, predictions: Sequence[np.ndarray], config: AlbertConfig) -> np.ndarray:
        """Converts predictions to the same format as targets, `[N]` or `[N, C]`."""

    def score(
        self,
        metrics: Sequence[str],
        targets: np.ndarray,
        decisions: np.ndarray,
        predictions: Sequence[np.ndarray],
    ) -> dict[str, float]:
        """Returns the named metrics."""
        from albert_tf.evaluation.metrics import evaluate  # imports scikit-learn, which is slow

        return evaluate(metrics, targets, decisions)

    @abstractmethod
    def write_part(self, predicted: Predicted[Example, np.ndarray], stem: Path) -> None:
        """Writes the predictions for one part to `stem` plus a suffix."""

    def encode(
        self,
        examples: Sequence[Example],
        tokenizer: BaseTokenizer,
        config: AlbertConfig,
        max_length: int,
    ) -> Rows:
        first = examples[0]
        return text_rows(
            tokenizer,
            [example.text for example in examples],
            None if first.label is None else self.targets(examples, config),
            None if first.text_pair is None else [each.text_pair or "" for each in examples],
            max_length=max_length,
        )

    def predictions(
        self, examples: Sequence[Example], rows: Rows, outputs: Outputs, config: AlbertConfig
    ) -> list[np.ndarray]:
        return [self.decode(row["logits"], config) for row in outputs]

    def scores(self, predicted: Predicted[Example, np.ndarray]) -> dict[str, float]:
        """Returns the metrics of each part and, for classes, the result of `one_class`."""
        predictions, config = predicted.predictions, predicted.config
        targets = np.array(self.targets(predicted.examples, config))
        decisions = self.decide(predictions, config)
        if self.table.labels:
            # F1 is computed for GLUE's second class, which may have any class id in the model.
            in_order = np.argsort(list(self.numbers(config).values()))
            targets, decisions = in_order[targets], in_order[decisions]
        own_metrics = {part.name: part.metrics for part in self.table.parts}
        scores: dict[str, float] = {}
        for part, rows in _parts(predicted.examples).items():
            names = own_metrics.get(part) or self.table.metrics
            chosen = [predictions[row] for row in rows]
            values = self.score(names, targets[rows], decisions[rows], chosen)
            prefix = f"{part}_" if part else ""
            scores |= {f"{prefix}{name}": value for name, value in values.items()}
        if self.problem_type == "regression":
            return scores
        classes = ([tuple(np.ravel(row)) for row in rows] for rows in (decisions, targets))
        return scores | one_class(*classes)

    def by_class(self, predicted: Predicted[Example, np.ndarray]) -> dict[str, dict[str, float]]:
        if self.problem_type == "regression":
            return {}
        from albert_tf.evaluation.metrics import by_class  # imports scikit-learn, which is slow

        targets = np.array(self.targets(predicted.examples, predicted.config))
        decisions = self.decide(predicted.predictions, predicted.config)
        return by_class(predicted.config.labels, targets, decisions)

    def write(self, predicted: Predicted[Example, np.ndarray], folder: Path) -> None:
        """Writes a file for each part, in the format that GLUE's website expects."""
        names = {part.name: part.submission for part in self.table.parts}
        for part, rows in _parts(predicted.examples).items():
            self.write_part(predicted.of(rows), folder / names.get(part, "predictions"))

    def texts(self, example: Example) -> Iterable[str]:
        return (text for text in (example.text, example.text_pair) if text)

    def keys(self, examples: Sequence[Example]) -> Keys:
        labels = [example.label for example in examples]
        names = [(label,) if isinstance(label, str) else label for label in labels]
        groups = [example.group for example in examples] if examples[0].group else None
        return Keys(labels=names, strata=labels, groups=groups)


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
        [task.text(example) for example in examples] for examples in (train, dev)
    )
    try:
        vectors = words.fit_transform(train_texts)
    except ValueError as error:  # no words
        raise UserError(f"--baseline requires texts with words: {error}.") from error
    targets = task.targets(train, config)
    model = LogisticRegression(C=10, max_iter=1000).fit(vectors, targets)
    probabilities = np.zeros((len(dev), len(config.labels)))
    probabilities[:, model.classes_] = model.predict_proba(words.transform(dev_texts))
    return task.scores(Predicted(dev, list(probabilities), config))


def text_rows(
    tokenizer: BaseTokenizer,
    texts: Sequence[str],
    labels: Sequence[Any] | None = None,
    text_pairs: Sequence[str] | None = None,
    sample_weight: Sequence[float] | None = None,
    *,
    max_length: int | None = None,
) -> Rows:
    """Returns the rows of texts or pairs; see `data.classification_dataset`.

    `Rows.cut` is the number of truncated texts.
    """
    texts, labels, text_pairs, sample_weight = columns(
        texts=texts, labels=labels, text_pairs=text_pairs, sample_weight=sample_weight
    )
    if labels is not None and np.asarray(labels).dtype.kind not in "iufb":
        raise UserError(
            "labels must be class ids, scores, or lists of 0s and 1s. Received: "
            f"{short_repr(labels[0])}. Map label names to class ids with config.label2id."
        )
    if labels is None and sample_weight is not None:
        raise UserError("sample_weight requires labels.")
    length = max_length or tokenizer.model_max_length
    sequences, cut = text_sequences(tokenizer, texts, text_pairs, length)
    targets = {} if labels is None else {"labels": labels}
    rows = Rows(features_of(sequences), targets, tokenizer.pad_token_id)
    rows.max_length, rows.cut = length, cut
    if sample_weight is not None:
        rows.weights = [np.float32(weight) for weight in sample_weight]
    return rows


def text_sequences(
    tokenizer: BaseTokenizer,
    texts: Sequence[str],
    text_pairs: Sequence[str] | None,
    max_length: int,
) -> tuple[list[EncodedSequence], int]:
    """Returns the sequences of texts or pairs, and how many of them were truncated."""
    first = tokenizer.tokens_of(texts)
    second = None if text_pairs is None else tokenizer.tokens_of(text_pairs)
    truncation = Truncation(max_length, side=tokenizer.truncation_side)
    sequences = make_sequences(first, second, tokenizer.special, truncation)
    room = text_room(max_length, tokenizer.special, second is not None)
    batch = zip(first) if second is None else zip(first, second, strict=True)
    return sequences, sum(sum(len(text.ids) for text in sample) > room for sample in batch)


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

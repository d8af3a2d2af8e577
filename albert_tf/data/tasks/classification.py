"""Classes or a number for a text or a pair of texts: GLUE, and files of your own."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.data import hub
from albert_tf.data.options import LabelledData, TaskData
from albert_tf.data.readers import Example, Row, read_examples, row_numbers
from albert_tf.data.tasks.base import Keys, Outputs, Task, find_file
from albert_tf.data.tasks.glue import GLUE, GlueTask, ScoredSet
from albert_tf.data.tasks.labels import MULTI_LABEL, LabelType, MultiLabel, Regression, SingleLabel
from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError

# A key of scores: NEARLY_ALL of the predictions are one class, while the labels are not.
ONE_CLASS: Final = "one_class"
NEARLY_ALL: Final = 0.99


def one_class(predictions: Sequence[Hashable], labels: Sequence[Hashable]) -> dict[str, float]:
    """Returns `{ONE_CLASS: 1.0}` for a model that answers alike to `NEARLY_ALL` examples or more.

    Returns `{}` for other models, and where as many labels are alike.
    """
    predicted, expected = (
        max(Counter(values).values()) / len(values) for values in (predictions, labels)
    )
    return {ONE_CLASS: 1.0} if predicted >= NEARLY_ALL and predicted > expected else {}


class Classification(Task[Example, Any]):
    """One or several classes, or a number, for a text or a pair.

    Attributes:
        label_type: what labels and predictions are.
        table: the task's row of GLUE's table, or one for data of one's own, without known labels.
        is_glue: whether it is GLUE's.
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
        """Returns a label as GLUE's files spell it; the hub has its name, or its number."""
        label, labels = row.text(name), self.table.labels
        spelled = {str(number): written for number, (written, _) in enumerate(labels)}
        return {**spelled, **{named: written for written, named in labels}}.get(label, label)

    def config_fields(self, train: Sequence[Example]) -> dict[str, Any]:
        return {
            "id2label": dict(enumerate(self.label_type.model_labels(train))),
            "problem_type": self.label_type.problem_type,
            "thresholds": None,  # a model of another task may have some
        }

    def check(self, examples: Sequence[Example], config: AlbertConfig) -> None:
        self.targets(examples, config)

    def targets(self, examples: Sequence[Example], config: AlbertConfig) -> list[Any]:
        """Returns the targets of labelled examples; errors are those of `check`."""
        labelled = [example for example in examples if example.label is not None]
        return self.label_type.targets(labelled, config)

    def encode(
        self, examples: Sequence[Example], tokenizer: Any, config: AlbertConfig, max_length: int
    ) -> Rows:
        targets = self.targets(examples, config)  # first, since it also compares the model's labels
        return encode_texts(
            [example.text for example in examples],
            None if examples[0].text_pair is None else [each.text_pair or "" for each in examples],
            targets if examples[0].label is not None else None,
            tokenizer,
            max_length,
        )

    def predictions(
        self,
        examples: Sequence[Example],
        rows: Rows,
        outputs: Sequence[Outputs],
        config: AlbertConfig,
    ) -> list[Any]:
        return [self.label_type.decode(row["logits"], config) for row in outputs]

    def scores(
        self, examples: Sequence[Example], predictions: Sequence[Any], config: AlbertConfig
    ) -> dict[str, float]:
        """Returns each metric, and what `one_class` does."""
        targets = np.array(self.targets(examples, config))
        decisions = self.label_type.decide(predictions, config)
        if isinstance(self.label_type, SingleLabel):
            # F1 is that of GLUE's second class, whatever number the model has for it.
            in_order = np.argsort(list(self.label_type.numbers(config).values()))
            targets, decisions = in_order[targets], in_order[decisions]
        own_metrics = {part.name: part.metrics for part in self.table.parts}
        scores: dict[str, float] = {}
        for part, rows in _parts(examples).items():
            names = own_metrics.get(part) or self.table.metrics
            chosen = [predictions[row] for row in rows]
            values = self.label_type.score(names, targets[rows], decisions[rows], chosen)
            prefix = f"{part}_" if part else ""
            scores |= {f"{prefix}{name}": value for name, value in values.items()}
        if isinstance(self.label_type, Regression):
            return scores
        classes = ([tuple(np.ravel(row)) for row in rows] for rows in (decisions, targets))
        return scores | one_class(*classes)

    def write(
        self,
        folder: Path,
        examples: Sequence[Example],
        predictions: Sequence[Any],
        config: AlbertConfig,
    ) -> None:
        """Writes a file for each part; for GLUE those that its site takes."""
        names = {part.name: part.submission for part in self.table.parts}
        for part, rows in _parts(examples).items():
            stem = folder / names.get(part, "predictions")
            numbers = row_numbers(examples[row].location for row in rows)
            self.label_type.write(stem, numbers, [predictions[row] for row in rows], config)

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
    """Returns the scores on dev of TF-IDF with logistic regression.

    Raises:
        UserError: the texts have no words.
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
        raise UserError(f"A baseline needs words. Received: {error}.") from error
    model = LogisticRegression(C=10, max_iter=1000).fit(vectors, task.targets(train, config))
    probabilities = np.zeros((len(dev), len(config.labels)))
    probabilities[:, model.classes_] = model.predict_proba(words.transform(dev_texts))
    return task.scores(dev, list(probabilities), config)


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
            "--label-separator needs several labels for a text: --multi-label, or a model that was "
            f"trained with it. Received: {options.label_separator!r}."
        )
    return Regression if numbers else SingleLabel


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
        columns = [column for column in (texts, text_pairs) if column is not None]
        given = [[column[row] for row in full] for column in columns]
        whole = tokenizer(*given, split_special_tokens=True, verbose=False)
        rows.cut = sum(len(ids) > max_length for ids in whole["input_ids"])
    return rows


def _glue_file(data: Path, names: Sequence[str]) -> Path | None:
    """Returns the first file that there is; each may be compressed, or be Parquet."""
    stems = [name.removesuffix(".tsv") for name in names]
    paths = (data / f"{stem}{end}" for stem in stems for end in (".tsv", ".tsv.gz", hub.PARQUET))
    return next(filter(Path.is_file, paths), None)


def _parts(examples: Sequence[Example]) -> dict[str, list[int]]:
    """Returns the rows of each part, in the order of the first ones."""
    rows: dict[str, list[int]] = {}
    for row, example in enumerate(examples):
        rows.setdefault(example.part, []).append(row)
    return rows

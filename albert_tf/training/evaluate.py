"""Scores fine-tuned models on labeled examples and returns their label probabilities."""

import os
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from albert_tf import models
from albert_tf.checkpoints import finder, weights
from albert_tf.data.options import EvaluationOptions
from albert_tf.data.tasks.base import Outputs, Predicted, Task
from albert_tf.data.tasks.classification import text_rows
from albert_tf.data.tasks.outputs import PREDICTED, model_outputs
from albert_tf.data.tasks.registry import read_split, task_of
from albert_tf.data.tasks.rows import Rows, evaluation_order, in_batches
from albert_tf.files import is_exported, locked
from albert_tf.models.base import PreTrainedModel
from albert_tf.options import COUNT, POSITIVE, accepts_keywords, checks_numbers
from albert_tf.probabilities import sigmoid, softmax
from albert_tf.progress import Progress
from albert_tf.runtimes.exported import ExportedModel, ExportedSimilarity
from albert_tf.tasks import SIMILARITY
from albert_tf.text.tokenizer import AlbertTokenizer, check_fit, longest_sequence
from albert_tf.training.mistakes import write_mistakes
from albert_tf.training.reports import CLASSES, LOSS, TEST, write_finetuning


@accepts_keywords(EvaluationOptions)
def evaluate(options: EvaluationOptions) -> dict[str, Any]:
    """Scores a model on the labeled data of its task.

    Returns:
        the task's metrics; `one_class` if at least 99% of the predictions are the same and the
        labels vary more; `examples`, the number of examples; and `classes`, the precision, recall,
        F1, and number of examples (`support`) of each class or entity type, if the task has any,
        in the layout of scikit-learn's `classification_report`.
    Raises:
        UserError: if the model or the data doesn't exist, or the model lacks one of the labels.
    """
    return evaluate_on(options)


def evaluate_on(
    options: EvaluationOptions, examples: Sequence[Any] | None = None
) -> dict[str, Any]:
    """Does the same as `evaluate`, but uses `examples` unless it is None."""
    task, predicted = _predict(options, "dev", examples)
    if options.predictions is not None:
        _write(task, predicted, options.predictions)
    if options.report is not None:
        write_mistakes(task, predicted, options.report)
    return _scores(task, predicted)


def _scores(task: Task[Any, Any], predicted: Predicted[Any, Any]) -> dict[str, Any]:
    """Returns the result of `evaluate`."""
    by_class = task.by_class(predicted)
    classes = {CLASSES: by_class} if by_class else {}
    return {**task.scores(predicted), "examples": len(predicted.examples), **classes}


def predict_test_files(
    options: EvaluationOptions, folder: Path, examples: Sequence[Any] | None = None
) -> list[Path]:
    """Predicts a task's unlabeled test files and returns the paths of the prediction files.

    Args:
        options: options of `evaluate`.
        folder: folder for the prediction files.
        examples: the examples of the test files, or None to read them.
    Raises:
        UserError: if the model or the data doesn't exist, or the model is for a different task.
    """
    return _write(*_predict(options, "test", examples), folder)


def _predict(
    options: EvaluationOptions, split: str, examples: Sequence[Any] | None
) -> tuple[Task[Any, Any], Predicted[Any, Any]]:
    """Returns the task and the model's predictions for a split; "test" has no labels."""
    name, task = options.model, task_of(options)
    model: PreTrainedModel | ExportedModel
    if is_exported(name):
        is_similarity = task.model == SIMILARITY.model
        model = ExportedSimilarity(name) if is_similarity else ExportedModel(name)
    else:
        model = getattr(models, task.model).from_pretrained(name)
    tokenizer = model.tokenizer or AlbertTokenizer.from_pretrained(name)  # raises if none exists
    longest = longest_sequence(tokenizer, model.config)
    check_fit(tokenizer, model.config, longest)
    task = task_of(options, model.config)
    if examples is None:
        examples = read_split(task, split, labelled=split != "test")
        task.check(examples, model.config)
    rows = task.encode(examples, tokenizer, model.config, longest)
    rows.warn_of_cut()
    with Progress() as progress:
        progress.start("predicting", len(rows), unit="row")
        outputs = model_outputs(rows, model, options.batch_size, progress.update_to)
    found = task.predictions(examples, rows, outputs, model.config)
    return task, Predicted(examples, found, model.config)


def _write(task: Task[Any, Any], predicted: Predicted[Any, Any], folder: Path) -> list[Path]:
    """Writes predictions to a folder, replaces existing ones, and returns their paths.

    Other files in the folder are kept, because a submission may contain several tasks.
    """
    with locked(folder), tempfile.TemporaryDirectory(prefix=".", dir=folder) as temporary:
        task.write(predicted, Path(temporary))
        written = [folder / path.name for path in sorted(Path(temporary).iterdir())]
        for path in written:
            (Path(temporary) / path.name).replace(path)
    return written


class HeldOut:
    """The dev examples, which each host predicts on one device during training.

    Args:
        model: the model being trained. On multiple devices, a copy of the model predicts.
        replicas: number of devices.
        batch_size: number of examples that a loss compares with each other, as in training.
    """

    def __init__(
        self,
        task: Task[Any, Any],
        examples: Sequence[Any],
        model: PreTrainedModel,
        replicas: int,
        batch_size: int,
    ):
        self.task, self.examples, self.model = task, examples, model
        self.rows = self._encode(examples)
        self.batch_size = batch_size
        self.on_one = model if replicas == 1 else type(model).from_config(model.get_config())

    def _predicted(
        self, examples: Sequence[Any], rows: Rows, outputs: Outputs
    ) -> Predicted[Any, Any]:
        config = self.on_one.config
        return Predicted(examples, self.task.predictions(examples, rows, outputs, config), config)

    def _encode(self, examples: Sequence[Any]) -> Rows:
        tokenizer = self.model.tokenizer
        length = tokenizer.model_max_length
        return self.task.encode(examples, tokenizer, self.model.config, length)

    def scores(self) -> dict[str, float]:
        """Sets the model's thresholds to the best ones on dev.

        Returns:
            The scores with these thresholds, and the `loss`.
        """
        if self.on_one is not self.model:
            self.on_one.set_weights(self.model.get_weights())
        outputs = model_outputs(self.rows, self.on_one, PREDICTED)
        predicted = self._predicted(self.examples, self.rows, outputs)
        config = predicted.config.replace(**self.task.fit_thresholds(predicted))
        self.model.config = self.on_one.config = config
        scores = self.task.scores(replace(predicted, config=config))
        return {**scores, LOSS: self._loss(outputs)}

    def _loss(self, outputs: Outputs) -> float:
        """Returns the mean loss, without class weights, as `fit` computes `val_loss`."""
        rows, model = self.rows, self.on_one
        # Token outputs of rows predicted in one batch have the same length.
        order = evaluation_order(rows.lengths, PREDICTED)
        if "groups" in rows.labels:  # the loss compares the texts of a batch
            order = in_batches(np.arange(len(rows)), self.batch_size)
        sums: defaultdict[int, np.ndarray] = defaultdict(lambda: np.zeros(2))
        for batch in order:
            features, labels, _ = rows.batch(batch, model.jit_compile)
            if rows.label_inputs:  # the head's outputs depend on these labels
                found = dict(model.predict_on_batch(features))
            else:
                names = outputs[batch[0]]
                found = {name: np.stack([outputs[row][name] for row in batch]) for name in names}
            tensors = keras.tree.map_structure(
                keras.ops.convert_to_tensor, (labels, found, features)
            )
            for number, term in enumerate(model.loss_terms(*tensors)):
                total = term.weight * float(keras.ops.sum(term.values * term.weights))
                sums[number] += total, float(keras.ops.sum(term.weights))
        return float(sum(total / max(count, 1) for total, count in sums.values()))

    def write_reports(
        self, folder: Path, output: Path, report: dict[str, Any], test: Sequence[Any]
    ) -> None:
        """Writes the reports on the best version into its model directory, `folder`.

        Adds the scores of each class to `report`. If there are test examples, adds their scores to
        `report["test"]`.
        """
        best = finder.find(folder).read()
        weights.assign(self.on_one, best.tensors, best.origin)
        self.on_one.config = best.config
        predicted = self._best(self.examples, self.rows)
        if by_class := self.task.by_class(predicted):
            report[CLASSES] = by_class
        if test:
            report[TEST] |= _scores(self.task, self._best(test, self._encode(test)))
        write_mistakes(self.task, predicted, folder)
        write_finetuning(output, folder, report, self.on_one)

    def _best(self, examples: Sequence[Any], rows: Rows) -> Predicted[Any, Any]:
        """Returns the predictions of the best version, once its weights have been assigned."""
        return self._predicted(examples, rows, model_outputs(rows, self.on_one, PREDICTED))


@checks_numbers(temperature=POSITIVE, batch_size=COUNT)
def soft_labels(
    teacher: str | os.PathLike[str],
    texts: Sequence[str],
    text_pairs: Sequence[str] | None = None,
    *,
    temperature: float = 1.0,
    batch_size: int = 32,
) -> np.ndarray:
    """Returns a teacher's label probabilities, to train a smaller model on.

    Source: Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network", arXiv
    1503.02531.

    Args:
        teacher: directory or Hub model ID of a model fine-tuned for classification.
        texts: texts of the kind that the teacher was fine-tuned on.
        text_pairs: second texts, for text pairs.
        temperature: number by which the logits are divided before the softmax or sigmoid.
        batch_size: number of texts in a batch.
    Returns:
        float32 `[N, C]` in the order of the teacher's `config.labels`; for a regression model, its
        outputs.
    Raises:
        UserError: if the teacher doesn't exist or isn't a classification model.

    Example:
        >>> import albert_tf
        >>> from albert_tf import AlbertForSequenceClassification
        >>> texts = ["A quiet delight.", "Broken on arrival."]
        >>> soft = albert_tf.soft_labels("small", texts, temperature=2.0)  # not fine-tuned
        >>> student = AlbertForSequenceClassification.from_pretrained("small", num_labels=2)
        >>> student.compile()
        >>> history = student.fit(texts, soft, verbose=0)
    """
    model = models.AlbertForSequenceClassification.from_pretrained(teacher)
    tokenizer = AlbertTokenizer.from_pretrained(teacher)
    longest = longest_sequence(tokenizer, model.config)
    rows = text_rows(tokenizer, texts, text_pairs=text_pairs, max_length=longest)
    rows.warn_of_cut()
    logits = np.stack([row["logits"] for row in model_outputs(rows, model, batch_size)])
    kind = model.config.problem_type
    if kind == "regression":
        return logits
    if kind == "multi_label_classification":
        return sigmoid(logits / temperature)
    return softmax(logits / temperature, axis=-1)

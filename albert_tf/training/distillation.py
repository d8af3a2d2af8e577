"""Distillation: a teacher predicts the training set once, and a student learns its outputs, too.

The teacher's outputs become soft labels beside the labels of the files, so that training is
ordinary fine-tuning: no teacher is in its steps. Teacher and student may differ in size and, but
for spans, in vocabulary.

Source: Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network", arXiv 1503.02531.
"""

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from keras import ops
from scipy.special import expit, softmax

from albert_tf import models, tasks
from albert_tf.checkpoints.weight_files import read_tensors, write_tensors
from albert_tf.config import AlbertConfig
from albert_tf.data.tasks.base import Task
from albert_tf.data.tasks.classification import encode_texts
from albert_tf.data.tasks.rows import IGNORED, Rows
from albert_tf.data.tasks.tagging import NO_WORD
from albert_tf.errors import UserError, listed
from albert_tf.files import written_atomically
from albert_tf.models.base import PreTrainedModel
from albert_tf.progress import Progress
from albert_tf.recipes import Recipe
from albert_tf.text.tokenizer import AlbertTokenizer, check_fit
from albert_tf.training.checkpoints import digest
from albert_tf.training.evaluate import model_outputs
from albert_tf.training.options import CHECKPOINTS, FinetuningOptions

OUTPUTS: Final = "teacher-{}.safetensors"  # within the folder of checkpoints, by digest
_DIGEST: Final = "digest"
logger = logging.getLogger(__name__)
_SPANS: Final = ("start_positions", "end_positions")


def soft_labels(
    teacher: str | os.PathLike[str],
    texts: Sequence[str],
    text_pairs: Sequence[str] | None = None,
    *,
    temperature: float = 1.0,
    batch_size: int = 32,
) -> np.ndarray:
    """Returns a teacher's probabilities of its labels, for `fit`.

    Args:
        teacher: directory or hub name of a model fine-tuned for classification.
        texts: as the teacher was fine-tuned on.
        text_pairs: second texts of pairs.
        temperature: divides logits before they become probabilities.
        batch_size: texts predicted at once.
    Returns:
        float32 `[N, C]` in the order of the teacher's `config.labels`; the numbers of a model for
        regression.
    Raises:
        UserError: there is no such teacher, or it isn't for classification.

    Example:
        >>> import albert_tf
        >>> from albert_tf import AlbertForSequenceClassification
        >>> texts = ["A quiet delight.", "Broken on arrival."]
        >>> soft = albert_tf.soft_labels("small", texts, temperature=2.0)  # not fine-tuned
        >>> student = AlbertForSequenceClassification.from_pretrained("small", num_labels=2)
        >>> student.compile()
        >>> history = student.fit(texts, soft, verbose=0)
    """
    if not (isinstance(temperature, int | float) and 0 < temperature < float("inf")):
        raise UserError(f"temperature must be a number above 0. Received: {temperature!r}.")
    model = models.AlbertForSequenceClassification.from_pretrained(teacher)
    tokenizer = AlbertTokenizer.from_pretrained(teacher)
    longest = min(tokenizer.model_max_length, model.config.max_position_embeddings)
    rows = encode_texts(list(texts), text_pairs, None, tokenizer, longest)
    rows.warn_of_cut(longest)
    logits = np.stack([row["logits"] for row in model_outputs(rows, model, batch_size)])
    return _probabilities(logits, model.config, temperature)


class Teacher:
    """A teacher's outputs for the examples that a student is trained on.

    Args:
        options: name the teacher, its precision, and texts without labels.
        recipe: names the maximum tokens of an example.
        task: of the student.
        training: the labelled examples.
    Attributes:
        digest: SHA-256 of the teacher, the examples and the precision.
        unlabelled: examples that the teacher alone labels.
    Raises:
        UserError: there is no such teacher, or its task or head is another.
    """

    def __init__(
        self,
        options: FinetuningOptions,
        recipe: Recipe,
        task: Task[Any, Any],
        training: Sequence[Any],
    ):
        assert options.teacher is not None
        self.options, self.task = options, task
        self.unlabelled = _read_unlabelled(options, task)
        model = _load(options, task)
        self.config: AlbertConfig = model.config
        self.targets: Mapping[str, str] = dict(model.targets)
        self._order = self._order_of_classes(AlbertConfig(**task.config_fields(training)))
        tokenizer = AlbertTokenizer.from_pretrained(options.teacher)
        longest = min(recipe.max_length, model.config.max_position_embeddings)
        check_fit(tokenizer, model.config, longest)
        self.rows = task.encode(training, tokenizer, model.config, longest)
        if self.unlabelled and self.rows.label_inputs:
            raise UserError(
                "unlabelled questions need --head transformers: the original's head finds the end "
                "of an answer from its true start. Received: the original's head. Leave one out."
            )
        if self.unlabelled:
            others = task.encode(self.unlabelled, tokenizer, model.config, longest)
            others.labels = _placeholders(self.rows, len(others))
            self.rows.append(others)
        examples = [example[:-1] for example in [*training, *self.unlabelled]]
        self.digest = digest([_digest_of(model, tokenizer), longest, examples])
        self.outputs = self._read_or_predict(model)

    def _read_or_predict(self, model: PreTrainedModel) -> dict[str, list[np.ndarray]]:
        """Returns the output of each target, by row; from a file if the run was interrupted."""
        path = self.options.output / CHECKPOINTS / OUTPUTS.format(self.digest[:12])
        stored = _read(path, self.digest) if path.is_file() else None
        if stored is not None:
            return {
                name: np.split(stored[output], np.cumsum(stored[f"{output}.sizes"])[:-1])
                for name, output in self.targets.items()
            }
        with Progress() as progress:
            progress.start("teacher", len(self.rows), unit="row")
            predicted = model_outputs(
                self.rows, model, at=progress.update_to, with_label_inputs=True
            )
        outputs, tensors = {}, {}
        for name, output in self.targets.items():
            outputs[name] = [
                np.atleast_1d(np.asarray(row[output], "float32"))[: self._size(number, name)]
                for number, row in enumerate(predicted)
            ]
            tensors[output] = np.concatenate(outputs[name])
            tensors[f"{output}.sizes"] = np.array([len(row) for row in outputs[name]], "int64")
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_atomically(path, force=True) as made:
            write_tensors(made, tensors, {_DIGEST: self.digest})
        return outputs

    def _size(self, row: int, name: str) -> int | None:
        """Returns the length of an output without the padding of its batch."""
        choices = self.rows.arrays["input_ids"][row].shape
        if self._is_by_token(name):
            return choices[-1]
        return choices[0] if len(choices) == 2 else None

    def _is_by_token(self, name: str) -> bool:
        return name in _SPANS or bool(self.rows.details and name == "labels")

    def add_soft_labels(self, rows: Rows, unlabelled: Rows | None, temperature: float) -> None:
        """Adds the teacher's outputs to a student's rows, which the unlabelled ones extend.

        Args:
            rows: of the labelled examples, with labels.
            unlabelled: of `self.unlabelled`.
            temperature: divides logits before they become probabilities.
        Raises:
            UserError: the student's head or windows aren't the teacher's.
        """
        if unlabelled is not None:
            unlabelled.labels = _placeholders(rows, len(unlabelled))
            rows.append(unlabelled)
        hard = len(rows) - (0 if unlabelled is None else len(unlabelled))
        if set(rows.labels) != set(self.targets):
            raise self._unlike("head", listed(rows.labels), listed(self.targets))
        for name, logits in self.outputs.items():
            by_token = self._is_by_token(name)
            if by_token and name not in _SPANS:
                values = self._by_word(rows, logits)
            else:
                self._require_same_rows(rows, by_token)
                values = list(logits)
            soft = [self._softened(name, value, temperature) for value in values]
            rows.add_soft_labels(name, soft, by_token)
            if rows.labels[name][0].dtype.kind == "f":  # numbers, where none means "no label"
                rows.labels[name][hard:] = [
                    value.reshape(rows.labels[name][0].shape).astype("float32")
                    for value in (self._softened(name, each, 1.0) for each in values[hard:])
                ]

    def _softened(self, name: str, logits: np.ndarray, temperature: float) -> np.ndarray:
        """Returns a target's probabilities, or its number, with the student's classes."""
        if name == "is_impossible":
            return expit(logits / temperature).reshape(())
        if self._order is not None:
            logits = logits[..., self._order]
        probabilities = _probabilities(logits, self.config, temperature)
        if self.config.problem_type == "regression":
            return probabilities.reshape(())
        if logits.ndim == 2:
            probabilities[logits[:, 0] == IGNORED] = IGNORED
        return probabilities

    def _by_word(self, rows: Rows, logits: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns logits at the student's tokens from those at the teacher's, by their words.

        Words without a token of the teacher's, and all other positions, have `IGNORED`.
        """
        of_word = {
            (example, word): logits[row][position]
            for row, (example, words) in enumerate(
                zip(self.rows.examples, self.rows.details, strict=True)
            )
            for position, word in enumerate(words)
            if word != NO_WORD
        }
        none = np.full(self.config.num_labels, IGNORED, "float32")
        return [
            np.stack([of_word.get((example, word), none) for word in words])
            for example, words in zip(rows.examples, rows.details, strict=True)
        ]

    def _require_same_rows(self, rows: Rows, by_token: bool) -> None:
        same = len(rows) == len(self.rows)
        if same and by_token:
            pairs = zip(rows.arrays["input_ids"], self.rows.arrays["input_ids"], strict=True)
            same = all(np.array_equal(*pair) for pair in pairs)
        if not same:
            raise self._unlike(
                "vocabulary and --max-length, because spans are positions of tokens",
                f"{len(rows)} windows",
                f"{len(self.rows)} others",
            )

    def _order_of_classes(self, config: AlbertConfig) -> list[int] | None:
        """Returns the teacher's number of each class of the student's."""
        if not tasks.BY_MODEL[self.task.model].has_classes or config.problem_type == "regression":
            return None
        own, teachers = map(self.task.label_numbers, (config, self.config))
        if own.keys() != teachers.keys():
            raise self._unlike("labels", listed(own), listed(teachers))
        return [teachers[label] for label in sorted(own, key=own.__getitem__)]

    def _unlike(self, facts: str, own: str, teachers: str) -> UserError:
        return UserError(
            f"A teacher must have the student's {facts}. Received: {own}, and {teachers} of the "
            f"teacher {self.options.teacher}. Fine-tune the teacher on this task first."
        )


def _probabilities(logits: np.ndarray, config: AlbertConfig, temperature: float) -> np.ndarray:
    """Returns probabilities of classes or positions, the last axis; numbers as they are."""
    if config.problem_type == "regression":
        return logits
    if config.problem_type == "multi_label_classification":
        return expit(logits / temperature)
    return softmax(logits / temperature, axis=-1)


def _load(options: FinetuningOptions, task: Task[Any, Any]) -> PreTrainedModel:
    model = getattr(models, task.model).from_pretrained(
        options.teacher, dtype=options.teacher_dtype_policy
    )
    if model.newly_initialized:
        raise UserError(
            f"A teacher must be fine-tuned for --task {options.task}. Received: "
            f"{options.teacher}, which lacks {', '.join(model.newly_initialized)}. "
            "Fine-tune it first, with the same --task."
        )
    task.check((), model.config)
    return model


def _read(path: Path, digest: str) -> dict[str, np.ndarray] | None:
    """Returns a teacher's stored outputs; None if they are damaged or another's."""
    try:
        tensors, saved = read_tensors(path)
    except UserError as error:
        logger.warning("The teacher predicts again, because its outputs are damaged. %s", error)
        return None
    return tensors if saved.get(_DIGEST) == digest else None


def _read_unlabelled(options: FinetuningOptions, task: Task[Any, Any]) -> list[Any]:
    if options.unlabelled is None:
        return []
    if not options.unlabelled.is_file():
        raise UserError(f"unlabelled must be a file. Received: {options.unlabelled}.")
    examples = task.read(Path(options.unlabelled), labelled=False)
    if not examples:
        raise UserError(
            f"unlabelled must have an example or more. Received: {options.unlabelled}, an empty "
            "file."
        )
    return examples


def _placeholders(rows: Rows, count: int) -> dict[str, list[np.ndarray]]:
    """Returns for each of `count` rows labels that don't count; tags are padded with such."""
    shapes = {
        name: (0,) if labels[0].ndim and labels[0].dtype.kind == "i" else labels[0].shape
        for name, labels in rows.labels.items()
    }
    return {
        name: [np.full(shapes[name], IGNORED, labels[0].dtype)] * count
        for name, labels in rows.labels.items()
    }


def _digest_of(model: PreTrainedModel, tokenizer: Any) -> str:
    found = hashlib.sha256(tokenizer.model_bytes)
    found.update(json.dumps([model.config.to_dict(), model.dtype_policy.name]).encode())
    for weight in model.weights:
        found.update(np.ascontiguousarray(ops.convert_to_numpy(weight)).tobytes())
    return found.hexdigest()

"""ALBERT with a classifier, or a regressor, on the pooled output."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import keras
import numpy as np

from albert_tf import tasks
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError, short_repr
from albert_tf.layers import ClassificationHead
from albert_tf.layers.common import Tensor
from albert_tf.layers.embedding import known_values
from albert_tf.models import losses
from albert_tf.models.calls import (
    ModelOutput,
    arguments,
    as_arrays,
    holds_texts,
    text_columns,
)
from albert_tf.models.task import Inputs, TaskModel

_LOSSES: Final[Mapping[str, Callable[[Tensor, Tensor], losses.Term]]] = {
    "regression": losses.squared_error,
    "multi_label_classification": losses.sigmoid_cross_entropy,
    "single_label_classification": losses.cross_entropy,
}


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForSequenceClassification(TaskModel):
    """Gives a sequence one label, several labels, or a number, as `config.problem_type` says.

    A model with one label and no `problem_type` is for regression, and its configuration says so.

    `compile()` is enough to `fit`: the loss is cross-entropy (int labels `[B]`), sigmoid
    cross-entropy (several labels, 0 or 1, `[B, num_labels]`), or the squared error (regression,
    float `[B]`).

    `fit`, `evaluate` and `predict` take ids, or texts: a list of them, or for pairs a list of
    tuples or a tuple of two columns. The model's `tokenizer` encodes and truncates them; in `fit`
    and `evaluate` texts of similar length share a batch. Labels may be names in `config.label2id`.

    Args:
        config: sizes, probabilities and labels.
        **kwargs: `dtype` and `name`, as in `keras.Model`.
    Call arguments: those of `AlbertModel`, and
        labels: as above.
    Returns:
        `ModelOutput` with `loss` (given labels), `logits` `[B, num_labels]`, and on request
        `hidden_states` and `attentions`.

    Example:
        >>> from albert_tf import AlbertForSequenceClassification
        >>> texts = ["Great.", "Boring."]
        >>> model = AlbertForSequenceClassification.from_pretrained("small", num_labels=2)
        >>> model.compile()
        >>> history = model.fit(texts, [1, 0], verbose=0)
        >>> model.probabilities(model.predict(texts, verbose=0)["logits"]).shape
        TensorShape([2, 2])
    """

    task = tasks.SEQUENCE_CLASSIFICATION
    targets = {"labels": "logits"}
    pooled = pooled_only = True

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        if isinstance(config, AlbertConfig) and config.num_labels == 1:
            config = _with_problem_type(config)
        super().__init__(config, **kwargs)
        self.classifier = self._add(ClassificationHead, "classifier", units=config.num_labels)

    def head_outputs(self, encoded: ModelOutput, inputs: Inputs, training: bool | None) -> Inputs:
        logits = self.classifier(encoded["pooler_output"], training=training)
        return {"logits": logits}

    def fit(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        options = arguments(keras.Model.fit, self, x, y, *args, **kwargs)
        size, held_out = options.get("batch_size"), options.get("validation_data")
        begin = options.get("initial_epoch", 0)
        if (columns := text_columns(x)) is not None:
            rows: list[Any] = [y, options.pop("sample_weight", None), *columns]
            share = options.pop("validation_split", 0.0)
            if share and held_out is None:  # the last ones, as in Keras
                count = int(len(columns[0]) * (1 - share))
                rows, after = (
                    [None if values is None else list(values)[part] for values in rows]
                    for part in (slice(count), slice(count, None))
                )
                held_out = self._text_batches(*after, batch_size=size)
            shuffle = bool(options.get("shuffle", True))
            batches = self._text_batches(
                *rows, batch_size=size, shuffle=shuffle, initial_epoch=begin
            )
            options |= {"x": batches, "y": None, "batch_size": None, "shuffle": False}
        if isinstance(held_out, tuple | list) and (columns := text_columns(held_out[0])):
            _, labels, weights = (*held_out, None)[:3]
            size = options.get("validation_batch_size") or size
            held_out = self._text_batches(labels, weights, *columns, batch_size=size)
        return super().fit(**options | {"validation_data": held_out})

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        options = arguments(keras.Model.evaluate, self, x, y, *args, **kwargs)
        if (columns := text_columns(x)) is not None:
            weights, size = (options.pop(name, None) for name in ("sample_weight", "batch_size"))
            batches = self._text_batches(y, weights, *columns, batch_size=size)
            options |= {"x": batches, "y": None}
        return super().evaluate(**options)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        if (columns := text_columns(x)) is None:
            return super().predict(x, *args, **kwargs)
        options = arguments(keras.Model.predict, self, x, *args, **kwargs)
        # Texts of similar length share a batch.
        order = np.argsort([sum(map(len, texts)) for texts in zip(*columns, strict=True)])
        columns = [[column[row] for row in order] for column in columns]
        size = options.pop("batch_size", None)
        options["x"] = self._text_batches(None, None, *columns, batch_size=size)
        outputs = super().predict(**options)
        return {name: values[np.argsort(order)] for name, values in outputs.items()}

    def _text_batches(
        self,
        labels: Any,
        weights: Any,
        texts: Any,
        pairs: Any = None,
        *,
        batch_size: int | None,
        shuffle: bool = True,
        initial_epoch: int = 0,
    ) -> Any:
        """Returns the batches of texts, in an order of Keras' global seed."""
        from albert_tf.data.datasets import classification_dataset
        from albert_tf.text.tokenizer import check_fit

        if self.tokenizer is None:
            raise UserError(
                "Texts need the model's tokenizer. Received: texts, and a model without one beside "
                "its weights. Set model.tokenizer = AlbertTokenizer.from_pretrained(directory)."
            )
        labels = as_arrays(self._label_numbers(labels), "labels")
        if labels is not None and self._compares_classes:
            self._check_labels({"labels": np.asarray(labels)}, {})
        length = min(self.tokenizer.model_max_length, self.config.max_position_embeddings)
        check_fit(self.tokenizer, self.config, length)
        return classification_dataset(
            self.tokenizer,
            texts,
            labels,
            pairs,
            sample_weight=weights,
            max_length=length,
            batch_size=batch_size or 32,  # Keras' default
            shuffle=shuffle,
            seed=np.random.randint(2**31),
            initial_epoch=initial_epoch,
        )

    def _label_arrays(self, y: Any, x: Any) -> Any:
        return super()._label_arrays(self._label_numbers(y), x)

    def _label_numbers(self, labels: Any) -> Any:
        """Returns the numbers of names of labels; other labels stay as they are."""
        labels = labels.to_numpy() if hasattr(labels, "to_numpy") else labels  # of pandas
        if not holds_texts(labels):
            return labels
        labels = labels.tolist() if isinstance(labels, np.ndarray) else labels
        numbers = self.config.label2id
        for row, name in enumerate(labels):
            if not isinstance(name, str) or name not in numbers:
                raise UserError(
                    f"Labels must be numbers, or names in label2id: {', '.join(numbers)}. "
                    f"Received: {short_repr(name)} in row {row}. Give the names to "
                    "from_pretrained: id2label={0: …, 1: …}."
                )
        return np.array([numbers[name] for name in labels], "int32")

    def _class_counts(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        single = self.problem_type == "single_label_classification"
        return {"labels": self.config.num_labels} if single else {}

    def _check_labels(self, labels: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
        super()._check_labels(labels, inputs)
        known = known_values(labels.get("labels"))
        if known is not None and known.dtype.kind == "f" and not np.isfinite(known).all():
            raise ValueError(
                "labels must be finite numbers. Received: "
                f"{known[~np.isfinite(known)][0]} among {known.size}."
            )
        if known is not None and self.problem_type == "multi_label_classification":
            outside = known[(known < 0) | (known > 1)]
            if outside.size:
                raise ValueError(
                    "labels of several classes must be 0 or 1, or between. Received: "
                    f"{outside[0]}, the first of {outside.size} that are not."
                )

    def _probability_function(self, output: str | None) -> str | None:
        functions = {"regression": None, "multi_label_classification": "sigmoid"}
        return functions.get(self.problem_type, "softmax")

    def loss_terms(
        self,
        labels: Mapping[str, Tensor],
        outputs: Mapping[str, Tensor],
        inputs: Mapping[str, Tensor],
    ) -> list[losses.Term]:
        return [_LOSSES[self.problem_type](labels["labels"], outputs["logits"])]

    @property
    def problem_type(self) -> str:
        """`config.problem_type`; if unset, "single_label_classification"."""
        return self.config.problem_type or "single_label_classification"


def _with_problem_type(config: AlbertConfig) -> AlbertConfig:
    """Returns the configuration of a model with one label: regression, unless it says otherwise."""
    if config.problem_type == "single_label_classification":
        raise UserError(
            "A model with one label has problem_type 'regression', or "
            "'multi_label_classification' if the label may be absent. Received: "
            "'single_label_classification', by which its probability would always be 1. "
            "Give problem_type or num_labels to from_pretrained."
        )
    return config.replace(problem_type=config.problem_type or "regression")

"""ALBERT with a classifier or regressor on the pooled output."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import keras
import numpy as np

from albert_tf import tasks
from albert_tf.config import AlbertConfig
from albert_tf.data.tasks.classification import text_rows
from albert_tf.errors import UserError
from albert_tf.layers import ClassificationHead
from albert_tf.layers.common import Tensor
from albert_tf.layers.embedding import known_values, reject_fractions
from albert_tf.layers.encoder import Unroll
from albert_tf.models import losses
from albert_tf.models.examples import (
    Kind,
    Target,
    check_labels,
    check_types,
    holds_strings,
    label_arrays,
    text_columns,
)
from albert_tf.models.fitting import encoded, in_order
from albert_tf.models.outputs import ModelOutput
from albert_tf.models.task import Inputs, TaskModel
from albert_tf.options import COUNT, checks_numbers
from albert_tf.probabilities import reject_nan, sigmoid
from albert_tf.text.base_tokenizer import BaseTokenizer

_KINDS: Final[Mapping[str, Kind]] = {
    "regression": "number",
    "multi_label_classification": "multi_label",
    "single_label_classification": "class",
}
_LOSSES: Final[Mapping[Kind, Callable[[Tensor, Tensor], losses.Term]]] = {
    "number": losses.squared_error,
    "multi_label": losses.sigmoid_cross_entropy,
    "class": losses.cross_entropy,
}


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForSequenceClassification(TaskModel):
    """ALBERT with a classification or regression head on the pooled output.

    `config.problem_type` determines the labels and the default loss:

    - "single_label_classification": class ids `[B]`, cross-entropy.
    - "multi_label_classification": 0 or 1, `[B, num_labels]`, sigmoid cross-entropy.
    - "regression" (the default if there is only one label): float `[B]`, squared error.

    `fit`, `evaluate`, and `predict` also accept texts: a list of texts; or for text pairs, a list
    of tuples or a tuple of two columns. The model's `tokenizer` encodes and truncates them. Labels
    can also be names in `config.label2id`, or lists of names for multi-label classification.

    Args:
        config: an `AlbertConfig`.
        **kwargs: `dtype` and `name`, as in `keras.Model`.
    Call arguments: the same as for `AlbertModel`, plus
        labels: see above.
    Returns:
        A `ModelOutput` with `loss` (if labels are passed), `logits` `[B, num_labels]`, and on
        request `hidden_states` and `attentions`.

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
    targets = {"labels": Target("logits", classes="num_labels")}
    pooled = pooled_only = True

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        if isinstance(config, AlbertConfig) and config.num_labels == 1:
            config = _with_problem_type(config)
        super().__init__(config, **kwargs)
        kind = _KINDS[self.problem_type]
        self.targets = {"labels": Target("logits", kind, config.num_labels)}
        self.classifier = self._add(ClassificationHead, "classifier", units=config.num_labels)

    def call(
        self,
        input_ids: Tensor = None,
        attention_mask: Tensor = None,
        token_type_ids: Tensor = None,
        position_ids: Tensor = None,
        inputs_embeds: Tensor = None,
        labels: Tensor = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        unroll: Unroll = True,
        training: bool | None = None,
    ) -> ModelOutput:
        return self.compute_outputs(locals())

    def head_outputs(self, encoded: ModelOutput, inputs: Inputs, training: bool | None) -> Inputs:
        logits = self.classifier(encoded["pooler_output"], training=training)
        return {"logits": logits}

    def encode_examples(self, x: Any, y: Any, tokenizer: BaseTokenizer, max_length: int) -> Any:
        labels = label_arrays(self, y, x)
        if labels is not None:
            check_types({"labels": labels})
            check_labels(self, {"labels": labels}, {}, self.loss)
        texts, *pairs = text_columns(x)
        columns: dict[str, Any] = {"text_pairs": pairs[0] if pairs else None}
        return text_rows(tokenizer, texts, labels, **columns, max_length=max_length)

    @checks_numbers(batch_size=COUNT, steps=COUNT)
    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """Returns the outputs, like `keras.Model.predict`. `x` can also be texts."""
        if not holds_strings(x):
            return super().predict(x, batch_size, verbose, steps, callbacks)
        dataset, order = in_order(self, encoded(self, x), batch_size, steps)
        outputs = super().predict(dataset, None, verbose, steps, callbacks)
        return {name: values[np.argsort(order)] for name, values in outputs.items()}

    def fit_thresholds(self, x: Any, y: Any) -> tuple[float, ...]:
        """Sets the thresholds of a multi-label model to the values with the best F1 for each label.

        The thresholds are stored in `config.thresholds`, and `save_pretrained` saves them.
        `albert-tf predict` and `albert-tf evaluate` then predict the labels whose probabilities
        reach their thresholds; pipelines and exported models return all probabilities. `albert-tf
        finetune` also sets the thresholds after each epoch. The threshold of a label that doesn't
        occur in `y` is 0.5, the default.

        Args:
            x: texts or arrays of examples that the model wasn't trained on, as in `predict`.
            y: their labels, as in `fit`.
        Returns:
            The threshold of each label, in the order of `config.labels`.
        Raises:
            UserError: if the model isn't for multi-label classification, or a label isn't 0 or 1.
        """
        from albert_tf.evaluation.metrics import best_thresholds  # imports scikit-learn

        kind = self.targets["labels"].kind
        if kind != "multi_label":
            raise UserError(
                "Thresholds require problem_type='multi_label_classification'. "
                f"Received: {self.problem_type!r}."
            )
        given = {"labels": label_arrays(self, y, x)}
        check_types(given)
        check_labels(self, given, {})
        labels = np.asarray(known_values(given["labels"]))
        reject_fractions("labels", labels)
        logits = self.predict(x, verbose=0)["logits"]
        reject_nan({"logits": logits})
        if labels.ndim == 1 == logits.shape[1]:  # a single label
            labels = labels[:, None]
        if labels.shape != logits.shape:
            raise UserError(
                "labels must be 0 or 1 for each example and label, in an array of shape "
                f"{logits.shape}. Received shape {labels.shape}."
            )
        thresholds = tuple(best_thresholds(labels, sigmoid(logits).astype("float64")))
        self.config = self.config.replace(thresholds=thresholds)
        return thresholds

    def loss_terms(self, labels: Inputs, outputs: Inputs, inputs: Inputs) -> list[losses.Term]:
        return [_LOSSES[self.targets["labels"].kind](labels["labels"], outputs["logits"])]

    @property
    def problem_type(self) -> str:
        """`config.problem_type`, or "single_label_classification" if it isn't set."""
        return self.config.problem_type or "single_label_classification"


def _with_problem_type(config: AlbertConfig) -> AlbertConfig:
    """Returns a one-label configuration with its problem type set. Default: "regression"."""
    if config.problem_type == "single_label_classification":
        raise UserError(
            "problem_type='single_label_classification' requires at least two labels. Pass a "
            "larger num_labels to from_pretrained, or problem_type='regression' or "
            "'multi_label_classification' (if the label can be absent)."
        )
    return config.replace(problem_type=config.problem_type or "regression")

"""ALBERT with a classifier, or a regressor, on the pooled output."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import keras
from keras import ops

from albert_tf import tasks
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.layers import ClassificationHead
from albert_tf.layers.common import Tensor
from albert_tf.layers.encoder import Unroll
from albert_tf.models import losses
from albert_tf.models.outputs import ModelOutput
from albert_tf.models.task import TaskModel

_LOSSES: Final[Mapping[str, Callable[[Tensor, Tensor], losses.Term]]] = {
    "regression": losses.squared_error,
    "multi_label_classification": losses.sigmoid_cross_entropy,
    "single_label_classification": losses.cross_entropy,
}


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForSequenceClassification(TaskModel):
    """Gives a sequence one label, several labels, or a number, as `config.problem_type` says.

    A model with one label and no `problem_type` is for regression, and its configuration says so.

    `compile(optimizer)` is enough to `fit`: the loss is cross-entropy (int labels `[B]`), sigmoid
    cross-entropy (several labels, 0 or 1, `[B, num_labels]`), or the squared error (regression,
    float `[B]`).

    Args:
        config: sizes, probabilities and labels.
        **kwargs: `dtype` and `name`, as in `keras.Model`.
    Call arguments: those of `AlbertModel`, and
        labels: as above.
    Returns:
        `ModelOutput` with `loss` (given labels), `logits` `[B, num_labels]`, and on request
        `hidden_states` and `attentions`.

    Example:
        >>> import numpy as np
        >>> from albert_tf import AlbertForSequenceClassification, AlbertTokenizer
        >>> tokenizer = AlbertTokenizer.from_pretrained("small")
        >>> model = AlbertForSequenceClassification.from_pretrained("small", num_labels=2)
        >>> features = tokenizer(["Great.", "Boring."], padding=True, return_tensors="np")
        >>> model.compile("adam")
        >>> history = model.fit(dict(features), np.array([1, 0]), verbose=0)
        >>> probabilities = model.probabilities(model(features).logits)
    """

    task = tasks.SEQUENCE_CLASSIFICATION
    targets = {"labels": "logits"}
    pooled = pooled_only = True

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        if isinstance(config, AlbertConfig) and config.num_labels == 1:
            config = _with_problem_type(config)
        super().__init__(config, **kwargs)
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
        inputs, encoded = self._encode(locals())
        logits = self.classifier(encoded["pooler_output"], training=training)
        return self._output({"logits": logits}, inputs, encoded)

    def _class_counts(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        single = self.problem_type == "single_label_classification"
        return {"labels": self.config.num_labels} if single else {}

    def _loss_of_logits(self, loss: Any) -> Any:
        loss_object = super()._loss_of_logits(loss)
        if (
            self.problem_type == "regression"
            and "from_logits" in getattr(loss_object, "get_config", dict)()
        ):
            raise UserError(
                "A model for regression can't be trained with a loss of classes. Received: "
                f"{type(loss_object).__name__}. A model with one label is for regression, unless "
                "it is made with problem_type='multi_label_classification'."
            )
        return loss_object

    def _probability_function(self, output: str | None) -> str | None:
        functions = {"regression": None, "multi_label_classification": "sigmoid"}
        return functions.get(self.problem_type, "softmax")

    def loss_terms(
        self, labels: Mapping[str, Tensor], outputs: Mapping[str, Tensor]
    ) -> list[losses.Term]:
        return [_LOSSES[self.problem_type](labels["labels"], outputs["logits"])]

    def probabilities(self, logits: Tensor) -> Tensor:
        """Turns logits `[B, C]` into probabilities; for regression returns them unchanged."""
        if self.problem_type == "regression":
            return logits
        if self.problem_type == "multi_label_classification":
            return ops.sigmoid(logits)
        return ops.softmax(logits)

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

"""ALBERT with a classifier, or a regressor, on the pooled output."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers import ClassificationHead
from albert_tf.models import losses
from albert_tf.models.albert import AlbertModel
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.outputs import ModelOutput

_LOSSES: Final[Mapping[str, Callable[[Any, Any], losses.Term]]] = {
    "regression": losses.squared_error,
    "multi_label_classification": losses.sigmoid_cross_entropy,
    "single_label_classification": losses.cross_entropy,
}


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForSequenceClassification(PreTrainedModel):
    """One label, several labels, or one number for a whole sequence, as `config.problem_type` says.

    `compile(optimizer)` is enough to `fit`: the loss is then cross-entropy from logits (int labels
    `[B]`), sigmoid cross-entropy (several labels, 0 or 1, `[B, num_labels]`) or the squared error
    (regression, float `[B]`).

    Args:
        config: sizes and labels.
        dtype, name: as in `keras.Model`.

    Call arguments: those of `AlbertModel`, and
        labels: as above.
    Returns:
        `ModelOutput` with `loss` (given labels), `logits` `[B, num_labels]`, and on request
        `hidden_states` and `attentions`.
    """

    targets = {"labels": "logits"}

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.albert = AlbertModel(config, name="albert", dtype=self.dtype_policy)
        self.classifier = ClassificationHead(
            config, config.num_labels, name="classifier", dtype=self.dtype_policy
        )
        self.classifier.build()
        self.built = True

    def answer(
        self, encoded: ModelOutput, inputs: Mapping[str, Any], training: bool | None
    ) -> dict[str, Any]:
        return {"logits": self.classifier(encoded["pooler_output"], training=training)}

    def loss_terms(
        self, labels: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> list[losses.Term]:
        return [_LOSSES[self.problem_type](labels["labels"], outputs["logits"])]

    def probabilities(self, logits: Any) -> Any:
        """What the logits `[B, C]` mean: softmax, sigmoid for several labels, the score itself."""
        if self.problem_type == "regression":
            return logits
        if self.problem_type == "multi_label_classification":
            return ops.sigmoid(logits)
        return ops.softmax(logits)

    @property
    def problem_type(self) -> str:
        """`config.problem_type`, or what it means where it isn't set: regression for one label."""
        return self.config.problem_type or (
            "regression" if self.config.num_labels == 1 else "single_label_classification"
        )

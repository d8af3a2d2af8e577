"""ALBERT with a classifier at every position, for tags and named entities."""

from collections.abc import Mapping
from typing import Any

import keras

from albert_tf.config import AlbertConfig
from albert_tf.layers import ClassificationHead
from albert_tf.models import losses
from albert_tf.models.albert import AlbertModel
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.outputs import ModelOutput


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForTokenClassification(PreTrainedModel):
    """A label for every piece; the loss is the mean cross-entropy of the pieces that count.

    Args:
        config: sizes and labels.
        dtype, name: as in `keras.Model`.

    Call arguments: those of `AlbertModel`, and
        labels: int `[B, T]`; -100 where a piece doesn't count.
    Returns:
        `ModelOutput` with `loss` (given labels), `logits` `[B, T, num_labels]`, and on request
        `hidden_states` and `attentions`.
    """

    targets = {"labels": "logits"}

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.albert = AlbertModel(
            config, add_pooling_layer=False, name="albert", dtype=self.dtype_policy
        )
        self.classifier = ClassificationHead(
            config, config.num_labels, name="classifier", dtype=self.dtype_policy
        )
        self.classifier.build()
        self.built = True

    def answer(
        self, encoded: ModelOutput, inputs: Mapping[str, Any], training: bool | None
    ) -> dict[str, Any]:
        return {"logits": self.classifier(encoded["last_hidden_state"], training=training)}

    def loss_terms(
        self, labels: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> list[losses.Term]:
        return [losses.cross_entropy(labels["labels"], outputs["logits"])]

"""ALBERT that chooses among several continuations, as in RACE and SWAG."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers import ClassificationHead
from albert_tf.models import losses
from albert_tf.models.albert import AlbertModel
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.outputs import ModelOutput


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForMultipleChoice(PreTrainedModel):
    """A score for each of C sequences of an example; the loss is the choice's cross-entropy.

    Args:
        config: sizes.
        dtype, name: as in `keras.Model`.

    Call arguments: those of `AlbertModel` with one more axis, `input_ids` `[B, C, T]` and so on,
        and
        labels: int `[B]`, the right choice.
    Returns:
        `ModelOutput` with `loss` (given labels), `logits` `[B, C]`, and on request `hidden_states`
        and `attentions` of the `B·C` sequences.
    Source: ALBERT, arXiv 1909.11942, section 4.3 (RACE).
    """

    targets = {"labels": "logits"}

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.albert = AlbertModel(config, name="albert", dtype=self.dtype_policy)
        self.classifier = ClassificationHead(config, 1, name="classifier", dtype=self.dtype_policy)
        self.classifier.build()
        self.built = True

    def encode(self, inputs: Mapping[str, Any], **options: Any) -> ModelOutput:
        return super().encode({name: _merged(name, inputs[name]) for name in inputs}, **options)

    def answer(
        self, encoded: ModelOutput, inputs: Mapping[str, Any], training: bool | None
    ) -> dict[str, Any]:
        scores = self.classifier(encoded["pooler_output"], training=training)
        given = inputs["inputs_embeds" if inputs["input_ids"] is None else "input_ids"]
        return {"logits": ops.reshape(scores, ops.shape(given)[:2])}

    def loss_terms(
        self, labels: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> list[losses.Term]:
        return [losses.cross_entropy(labels["labels"], outputs["logits"])]


def _merged(name: str, values: Any) -> Any:
    """`[B, C, …]` to `[B·C, …]`."""
    if values is None:
        return None
    if len(values.shape) < 3:
        raise ValueError(
            f"{name} must have shape [batch, choices, length]. Received shape "
            f"{tuple(values.shape)}."
        )
    batch, choices, *rest = ops.shape(values)
    return ops.reshape(values, (batch * choices, *rest))

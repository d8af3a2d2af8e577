"""ALBERT that fills in masked pieces."""

from collections.abc import Mapping
from typing import Any

import keras

from albert_tf.config import AlbertConfig
from albert_tf.layers import MaskedLMHead
from albert_tf.models import losses
from albert_tf.models.albert import AlbertModel
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.outputs import ModelOutput


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForMaskedLM(PreTrainedModel):
    """Logits over the vocabulary; the loss is the mean cross-entropy of the pieces that count.

    Args:
        config: sizes.
        dtype, name: as in `keras.Model`.

    Call arguments: those of `AlbertModel`, and
        masked_lm_positions: int `[B, P]`: logits for these positions only, which takes a fraction
            of the memory.
        labels: int `[B, T]`, or `[B, P]` given positions; -100 where a piece doesn't count.
    Returns:
        `ModelOutput` with `loss` (given labels), `logits` `[B, T, V]` or `[B, P, V]`, and on
        request `hidden_states` and `attentions`.
    """

    targets = {"labels": "logits"}
    task_inputs = ("masked_lm_positions",)

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.albert = AlbertModel(
            config, add_pooling_layer=False, name="albert", dtype=self.dtype_policy
        )
        self.predictions = MaskedLMHead(config, name="predictions", dtype=self.dtype_policy)
        self.predictions.build()
        self.built = True

    def answer(
        self, encoded: ModelOutput, inputs: Mapping[str, Any], training: bool | None
    ) -> dict[str, Any]:
        return {
            "logits": self.predictions(
                encoded["last_hidden_state"],
                self.albert.embedding.tied_table(),
                inputs["masked_lm_positions"],
            )
        }

    def loss_terms(
        self, labels: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> list[losses.Term]:
        return [losses.cross_entropy(labels["labels"], outputs["logits"])]

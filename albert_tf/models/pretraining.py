"""ALBERT with the two heads it is pretrained with."""

from collections.abc import Mapping
from typing import Any

import keras

from albert_tf.config import AlbertConfig
from albert_tf.layers import MaskedLMHead
from albert_tf.layers.common import dense
from albert_tf.layers.heads import in_float32
from albert_tf.models import losses
from albert_tf.models.albert import AlbertModel
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.outputs import ModelOutput


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForPreTraining(PreTrainedModel):
    """Masked LM and sentence order prediction; the loss is the sum of both.

    Args:
        config: sizes; its labels are left out.
        dtype, name: as in `keras.Model`.

    Call arguments: those of `AlbertModel`, and
        masked_lm_positions: int `[B, P]`: logits for these positions only.
        labels: int `[B, T]`, or `[B, P]` given positions; -100 where a piece doesn't count.
        sentence_order_label: int `[B]`: 0 in order, 1 swapped.
    Returns:
        `ModelOutput` with `loss` (given either label, of those given), `prediction_logits`
        `[B, T, V]` or `[B, P, V]`, `sop_logits` `[B, 2]`, and on request `hidden_states` and
        `attentions`.
    Source: ALBERT, arXiv 1909.11942, section 3.1; google-research/albert, run_pretraining.py.
    """

    targets = {"labels": "prediction_logits", "sentence_order_label": "sop_logits"}
    task_inputs = ("masked_lm_positions",)
    labels_named = False

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.albert = AlbertModel(config, name="albert", dtype=self.dtype_policy)
        self.predictions = MaskedLMHead(config, name="predictions", dtype=self.dtype_policy)
        self.predictions.build()
        self.sop_classifier = dense(2, config, "sop_classifier", self.dtype_policy)
        self.sop_classifier.build((None, config.hidden_size))
        self.built = True

    def answer(
        self, encoded: ModelOutput, inputs: Mapping[str, Any], training: bool | None
    ) -> dict[str, Any]:
        return {
            "prediction_logits": self.predictions(
                encoded["last_hidden_state"],
                self.albert.embedding.tied_table(),
                inputs["masked_lm_positions"],
            ),
            "sop_logits": in_float32(self.sop_classifier(encoded["pooler_output"])),
        }

    def loss_terms(
        self, labels: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> list[losses.Term]:
        return [
            losses.cross_entropy(label, outputs[self.targets[name]])
            for name, label in labels.items()
        ]

"""ALBERT with its two pretraining heads."""

from functools import partial
from typing import Any

import keras

from albert_tf import tasks
from albert_tf.config import AlbertConfig
from albert_tf.layers import MaskedLMHead
from albert_tf.layers.common import Tensor, dense
from albert_tf.layers.encoder import Unroll
from albert_tf.layers.heads import in_float32
from albert_tf.models.examples import Target
from albert_tf.models.outputs import ModelOutput
from albert_tf.models.task import Inputs, TaskModel


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForPreTraining(TaskModel):
    """ALBERT with both pretraining heads: masked language modeling and sentence order prediction.

    The loss is the sum of both cross-entropies, or only one of them if the other label is missing.

    Args:
        config: an `AlbertConfig`. The label names in it are dropped.
        **kwargs: `dtype` and `name`, as in `keras.Model`.
    Call arguments: the same as for `AlbertModel`, plus
        masked_lm_positions: int `[B, P]`, the positions to score. Default: all positions.
        labels: int `[B, T]`, or `[B, P]` with `masked_lm_positions`. Labels of -100 are ignored.
        sentence_order_label: int `[B]`, 0 if the two segments are in order, 1 if they are swapped.
    Returns:
        A `ModelOutput` with `loss` (if a label is passed), `prediction_logits` `[B, T, V]` or
        `[B, P, V]`, `sop_logits` `[B, 2]`, and on request `hidden_states` and `attentions`.
    Source: ALBERT, arXiv 1909.11942, section 3.1; google-research/albert, run_pretraining.py.

    Example:
        >>> from albert_tf import AlbertForPreTraining, AlbertTokenizer
        >>> tokenizer = AlbertTokenizer.from_pretrained("small")
        >>> model = AlbertForPreTraining.from_pretrained("small")
        >>> features = tokenizer(["It rained."], ["We stayed in."], return_tensors="np")
        >>> model(features).sop_logits.shape
        TensorShape([1, 2])
    """

    task = tasks.PRETRAINING
    targets = {
        "labels": Target("prediction_logits", classes="vocab_size", by_token=True),
        "sentence_order_label": Target("sop_logits", classes=2),
    }
    task_inputs = ("masked_lm_positions",)
    pooled = True
    keeps_labels = False

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.predictions = self._add(MaskedLMHead, "predictions")
        self.sop_classifier = self._add(
            partial(dense, 2), "sop_classifier", (None, config.hidden_size)
        )

    def call(
        self,
        input_ids: Tensor = None,
        attention_mask: Tensor = None,
        token_type_ids: Tensor = None,
        position_ids: Tensor = None,
        inputs_embeds: Tensor = None,
        masked_lm_positions: Tensor = None,
        labels: Tensor = None,
        sentence_order_label: Tensor = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        unroll: Unroll = True,
        training: bool | None = None,
    ) -> ModelOutput:
        return self.compute_outputs(locals())

    def head_outputs(self, encoded: ModelOutput, inputs: Inputs, training: bool | None) -> Inputs:
        return {
            "prediction_logits": self.predictions(
                encoded["last_hidden_state"],
                self.albert.embedding.tied_table(),
                inputs["masked_lm_positions"],
            ),
            "sop_logits": in_float32(self.sop_classifier(encoded["pooler_output"])),
        }

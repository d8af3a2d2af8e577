"""ALBERT that finds an answer in a text, as in SQuAD 1.1 and 2.0."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers import AnswerSpans, SpanHead
from albert_tf.models import losses
from albert_tf.models.albert import AlbertModel
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.outputs import ModelOutput


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForQuestionAnswering(PreTrainedModel):
    """Where an answer starts and ends; with `answerability`, also whether there is one.

    The loss is the mean of the start's and the end's cross-entropy, and with `answerability` half
    the sigmoid cross-entropy of `is_impossible` more. The end then depends on the true start, so
    training needs the labels among the features: `fit({**features, "start_positions": …, …})`.

    Args:
        config: sizes; its labels are left out.
        answerability: the original's head for SQuAD 2.0. Default: `config.answerability`.
        dtype, name: as in `keras.Model`.

    Call arguments: those of `AlbertModel`, and
        start_positions, end_positions: int `[B]`; a position outside `[0, T)` doesn't count.
        is_impossible: `[B]`, 1 for a question without an answer; with `answerability`.
        p_mask: `[B, T]`, 1 where no answer can be; with `answerability`. None leaves `[CLS]` and
            the second segment without its `[SEP]`.
    Returns:
        `ModelOutput` with `loss` (given labels), `start_logits` and `end_logits` `[B, T]`, or with
        `answerability` the outputs of `layers.AnswerSpans`; on request `hidden_states` and
        `attentions`.
    Source: ALBERT, arXiv 1909.11942, appendix; google-research/albert, run_squad_v1.py and
        run_squad_v2.py.
    """

    targets = {"start_positions": "start_logits", "end_positions": "end_logits"}
    labels_named = False

    def __init__(self, config: AlbertConfig, answerability: bool | None = None, **kwargs: Any):
        if isinstance(config, AlbertConfig):
            if answerability is None:
                answerability = config.answerability
            # transformers gives the head as many outputs as there are labels.
            config = dataclasses.replace(config, id2label=None, answerability=answerability)
        super().__init__(config, **kwargs)
        self.albert = AlbertModel(
            config, add_pooling_layer=False, name="albert", dtype=self.dtype_policy
        )
        if config.answerability:
            self.targets = {
                "start_positions": "start_log_probs",
                "end_positions": "end_log_probs",
                "is_impossible": "cls_logits",
            }
            self.task_inputs = ("p_mask",)
            self.answer_spans = AnswerSpans(config, name="answer_spans", dtype=self.dtype_policy)
            self.answer_spans.build()
        else:
            self.qa_outputs = SpanHead(config, name="qa_outputs", dtype=self.dtype_policy)
            self.qa_outputs.build()
        self.built = True

    def answer(
        self, encoded: ModelOutput, inputs: Mapping[str, Any], training: bool | None
    ) -> dict[str, Any]:
        hidden = encoded["last_hidden_state"]
        if self.config.answerability:
            mask = inputs["p_mask"]
            mask = self._no_answer(inputs, ops.shape(hidden)) if mask is None else mask
            return self.answer_spans(hidden, mask, inputs["start_positions"], training=training)
        start_logits, end_logits = self.qa_outputs(hidden)
        return {"start_logits": start_logits, "end_logits": end_logits}

    def _no_answer(self, inputs: Mapping[str, Any], shape: Any) -> Any:
        """1 outside `[CLS]` and the second segment before its `[SEP]`, or the text if segments

        aren't told.
        """
        mask, types = inputs["attention_mask"], inputs["token_type_ids"]
        if mask is None or len(mask.shape) != 2:
            mask = ops.ones(shape[:2])
        attended = ops.cast(mask, "bool")
        followed = ops.pad(attended[:, 1:], ((0, 0), (0, 1)))  # not so the last [SEP]
        possible = ops.logical_and(attended, followed)
        if types is not None:
            possible = ops.logical_and(possible, ops.equal(types, 1))
        classify = ops.equal(ops.arange(shape[1]), 0)
        return ops.cast(ops.logical_not(ops.logical_or(possible, classify)), "float32")

    def loss_terms(
        self, labels: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> list[losses.Term]:
        if self.config.answerability and "start_log_probs" not in outputs:
            raise ValueError(
                "With answerability the end is scored given the true start, so labels must be "
                "among the features: fit({**features, 'start_positions': …, 'end_positions': …, "
                "'is_impossible': …}). Received labels as `y` alone."
            )
        terms = [
            losses.span_cross_entropy(labels[name], outputs[self.targets[name]], share=0.5)
            for name in ("start_positions", "end_positions")
            if name in labels
        ]
        if "is_impossible" in labels:
            terms.append(
                losses.sigmoid_cross_entropy(
                    labels["is_impossible"], outputs["cls_logits"], share=0.5
                )
            )
        return terms

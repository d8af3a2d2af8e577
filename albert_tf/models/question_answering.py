"""ALBERT that finds an answer in a text, as in SQuAD 1.1 and 2.0."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from albert_tf import tasks
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.layers import AnswerSpans, SpanHead
from albert_tf.layers.common import Tensor
from albert_tf.layers.embedding import known_values, refuse_fractions
from albert_tf.models import losses
from albert_tf.models.calls import ModelOutput
from albert_tf.models.task import Inputs, TaskModel


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForQuestionAnswering(TaskModel):
    """Scores where an answer starts and ends; with `answerability` also whether there is one.

    The loss is the mean of both positions' cross-entropies; `answerability` adds half the sigmoid
    cross-entropy of `is_impossible`. It also scores the end given the true start, which training
    needs among the features: `fit({**features, "start_positions": …}, labels)`.

    Metrics that `compile` receives as a list compare both positions at once, int `[B, 2]`, with
    logits `[B, 2, T]`: `metrics=[ExactMatch()]`. A dict has each position's own, by output.

    Args:
        config: sizes and probabilities; its labels are dropped.
        answerability: use the original's head for SQuAD 2.0. Default: `config.answerability`.
        **kwargs: `dtype` and `name`, as in `keras.Model`.
    Call arguments: those of `AlbertModel`, and
        p_mask: `[B, T]`, 1 where no answer may be; for `answerability`. Default: everywhere but
            `[CLS]` and the context.
        start_positions, end_positions: int `[B]`; a position outside `[0, T)` is ignored.
        is_impossible: `[B]`, 1 for a question without an answer; for `answerability`.
    Returns:
        `ModelOutput` with `loss` (given labels), `start_logits` and `end_logits` `[B, T]`, or with
        `answerability` the outputs of `layers.AnswerSpans`; on request `hidden_states` and
        `attentions`.
    Source: ALBERT, arXiv 1909.11942, appendix; google-research/albert, run_squad_v1.py and
        run_squad_v2.py.

    Example:
        >>> from albert_tf import AlbertForQuestionAnswering, AlbertTokenizer
        >>> tokenizer = AlbertTokenizer.from_pretrained("small")
        >>> model = AlbertForQuestionAnswering.from_pretrained("small")
        >>> features = tokenizer(["Where?"], ["She lives in Lisbon."], return_tensors="np")
        >>> outputs = model(features)
        >>> outputs.start_logits.shape == outputs.end_logits.shape == features["input_ids"].shape
        True
    """

    task = tasks.QUESTION_ANSWERING
    targets = {
        "start_positions": "start_log_probs",
        "end_positions": "end_log_probs",
        "is_impossible": "cls_logits",
    }
    task_inputs: tuple[str, ...] = ("p_mask", "start_positions")
    keeps_labels = False
    _both_at_once = False  # whether metrics compare both positions at once

    def __init__(self, config: AlbertConfig, answerability: bool | None = None, **kwargs: Any):
        if answerability is not None and isinstance(config, AlbertConfig):
            config = dataclasses.replace(config, answerability=answerability)
        super().__init__(config, **kwargs)
        if self.config.answerability:
            self.answer_spans = self._add(AnswerSpans, "answer_spans")
        else:
            self.targets = {"start_positions": "start_logits", "end_positions": "end_logits"}
            self.task_inputs = ()
            self.qa_outputs = self._add(SpanHead, "qa_outputs")

    def head_outputs(self, encoded: ModelOutput, inputs: Inputs, training: bool | None) -> Inputs:
        hidden = encoded["last_hidden_state"]
        if self.config.answerability:
            mask = inputs["p_mask"]
            mask = _no_answer(inputs, ops.shape(hidden)) if mask is None else mask
            starts = inputs["start_positions"]
            return self.answer_spans(hidden, mask, starts, training=training)
        start_logits, end_logits = self.qa_outputs(hidden)
        return {"start_logits": start_logits, "end_logits": end_logits}

    def compile(
        self,
        optimizer: Any = "auto",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        *args: Any,
        **options: Any,
    ) -> None:
        super().compile(optimizer, loss, loss_weights, metrics, weighted_metrics, *args, **options)
        given = [each for each in (metrics, weighted_metrics) if each is not None]
        self._both_at_once = bool(given) and all(map(_is_flat, given))

    def _metrics_by_output(self, metrics: Any) -> Any:
        return metrics if _is_flat(metrics) else super()._metrics_by_output(metrics)

    def _check_labels(self, labels: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
        for name in ("start_positions", "end_positions"):
            known = known_values(labels.get(name))
            if known is not None and known.ndim < 2:  # otherwise probabilities
                refuse_fractions(name, known)

    def _label_counts(self, x: Any, y: Any) -> Mapping[str, Any]:
        """Returns how many labels count: positions in `[0, T)`, or all probabilities."""
        given = x if isinstance(x, Mapping) else {"input_ids": x}
        ids = given.get("input_ids", given.get("inputs_embeds"))
        counts = {}
        for name, label in self._labels(x, y).items():
            are_positions = len(label.shape) < 2 or label.shape[-1] == 1
            if name == "is_impossible" or not are_positions:
                counts[name] = losses.count(label)
            else:
                inside = losses.are_inside(label, ops.shape(ids)[1])
                counts[name] = ops.sum(ops.cast(inside, "float32"))
        return counts

    def _probability_function(self, output: str | None) -> str | None:
        return "sigmoid" if output == "cls_logits" else "softmax"

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        if not self._both_at_once:
            return super().compute_metrics(x, y, y_pred, sample_weight)
        if isinstance(sample_weight, Mapping | tuple | list):
            raise UserError(
                "A list of metrics compares both positions at once, so that sample_weight must be "
                "one array. Received: one for each label. Give metrics as a dict by output, or one "
                "array."
            )
        names = ("start_positions", "end_positions")
        labels = self._labels(x, y)
        positions = [ops.reshape(ops.cast(labels[name], "int32"), (-1,)) for name in names]
        logits = [y_pred[self.targets[name]] for name in names]
        return keras.Model.compute_metrics(
            self, x, ops.stack(positions, axis=1), ops.stack(logits, axis=1), sample_weight
        )

    def loss_terms(
        self,
        labels: Mapping[str, Tensor],
        outputs: Mapping[str, Tensor],
        inputs: Mapping[str, Tensor],
    ) -> list[losses.Term]:
        if self.config.answerability and "start_log_probs" not in outputs:
            raise ValueError(
                "With answerability the end is scored given the true start, so that must be among "
                "the features: fit({**features, 'start_positions': …}, {'start_positions': …, "
                "'end_positions': …, 'is_impossible': …}). Received labels as `y` alone."
            )
        terms = [
            losses.span_cross_entropy(labels[name], outputs[self.targets[name]], weight=0.5)
            for name in ("start_positions", "end_positions")
            if name in labels
        ]
        if "is_impossible" in labels:
            terms.append(
                losses.sigmoid_cross_entropy(
                    labels["is_impossible"], outputs["cls_logits"], weight=0.5
                )
            )
        return terms


def _is_flat(metrics: Any) -> bool:
    """Whether metrics are a list of metrics, none of which is for one position."""
    return isinstance(metrics, list | tuple) and not any(
        isinstance(each, list | tuple) for each in metrics
    )


def _no_answer(inputs: Inputs, shape: Tensor) -> Tensor:
    """Returns 1 where no answer may be: everywhere but `[CLS]` and the context, `[B, T]`.

    The context is the second segment without its `[SEP]`, or without `token_type_ids` the text.
    """
    mask, types = inputs["attention_mask"], inputs["token_type_ids"]
    if mask is None or len(mask.shape) != 2:
        mask = ops.ones(shape[:2])
    attended = ops.cast(mask, "bool")
    followed = ops.pad(attended[:, 1:], ((0, 0), (0, 1)))  # false at the last [SEP]
    possible = ops.logical_and(attended, followed)
    if types is not None:
        possible = ops.logical_and(possible, ops.equal(types, 1))
    classify = ops.equal(ops.arange(shape[1]), 0)
    return ops.cast(ops.logical_not(ops.logical_or(possible, classify)), "float32")

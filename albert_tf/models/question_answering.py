"""ALBERT for extractive question answering, as in SQuAD 1.1 and 2.0."""

import dataclasses
from typing import Any

import keras
from keras import ops

from albert_tf import tasks
from albert_tf.config import AlbertConfig
from albert_tf.data.tasks.answers import best_threshold, decode
from albert_tf.data.tasks.base import Predicted
from albert_tf.data.tasks.outputs import model_outputs
from albert_tf.data.tasks.questions import question_rows, questions_of
from albert_tf.errors import UserError
from albert_tf.layers import AnswerSpans, SpanHead
from albert_tf.layers.common import Tensor
from albert_tf.layers.encoder import Unroll
from albert_tf.models import losses
from albert_tf.models.batch import Batch
from albert_tf.models.examples import Target, two_columns
from albert_tf.models.fitting import encoded
from albert_tf.models.outputs import ModelOutput
from albert_tf.models.task import Inputs, TaskModel
from albert_tf.text.base_tokenizer import BaseTokenizer


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForQuestionAnswering(TaskModel):
    """ALBERT with a span head, which scores where an answer starts and ends.

    The loss is the mean cross-entropy of the start and end positions.

    With `answerability`, the model has the original SQuAD 2.0 head, which also predicts whether
    there is an answer. The loss also includes half the sigmoid cross-entropy of `is_impossible`.
    The head scores end positions given a start position, so training requires the true start
    position as a feature: `fit({**features, "start_positions": …}, labels)`.

    A list of metrics, such as `metrics=[ExactMatch()]`, compares both positions jointly: labels are
    int `[B, 2]`, logits are `[B, 2, T]`, and the sample weights are those of `start_positions`. To
    compute metrics of a single output, pass a dict keyed by output.

    `fit` and `evaluate` also accept texts: a list of `(question, context)` tuples or a tuple of two
    columns. Answers are `(text, start)`, `{"text": [...], "answer_start": [...]}`, or None for an
    unanswerable question. A long context is split into windows that overlap by 128 tokens, or by
    half of a window's context if that is less. A question is truncated to 64 tokens, or to half a
    window if that is less. If a window doesn't contain the complete answer, its label is the
    position of `[CLS]`.

    Args:
        config: an `AlbertConfig`. The label names in it are dropped.
        answerability: whether to use the original SQuAD 2.0 head. Default: `config.answerability`.
        **kwargs: `dtype` and `name`, as in `keras.Model`.
    Call arguments: the same as for `AlbertModel`, plus
        p_mask: `[B, T]`, 1 where an answer can't start or end; requires `answerability`. By
            default, answers are limited to `[CLS]` and the context.
        start_positions, end_positions: int `[B]`. Positions outside `[0, T)` are ignored.
        is_impossible: `[B]`, 1 for unanswerable questions; requires `answerability`.
    Returns:
        A `ModelOutput` with `loss` (if labels are passed), `start_logits` and `end_logits` `[B,
        T]`, and on request `hidden_states` and `attentions`. With `answerability`, the outputs of
        `layers.AnswerSpans` replace the logits.
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
        "start_positions": Target("start_log_probs", "position"),
        "end_positions": Target("end_log_probs", "position"),
        "is_impossible": Target("cls_logits", "multi_label"),
    }
    task_inputs: tuple[str, ...] = ("p_mask", "start_positions")
    keeps_labels = False
    has_joint_metrics = True

    def __init__(self, config: AlbertConfig, answerability: bool | None = None, **kwargs: Any):
        if answerability is not None and isinstance(config, AlbertConfig):
            config = dataclasses.replace(config, answerability=answerability)
        super().__init__(config, **kwargs)
        if self.config.answerability:
            self.answer_spans = self._add(AnswerSpans, "answer_spans")
        else:
            self.targets = {
                "start_positions": Target("start_logits", "position"),
                "end_positions": Target("end_logits", "position"),
            }
            self.task_inputs = ()
            self.qa_outputs = self._add(SpanHead, "qa_outputs")

    def call(
        self,
        input_ids: Tensor = None,
        attention_mask: Tensor = None,
        token_type_ids: Tensor = None,
        position_ids: Tensor = None,
        inputs_embeds: Tensor = None,
        p_mask: Tensor = None,
        start_positions: Tensor = None,
        end_positions: Tensor = None,
        is_impossible: Tensor = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        unroll: Unroll = True,
        training: bool | None = None,
    ) -> ModelOutput:
        return self.compute_outputs(locals())

    def head_outputs(self, encoded: ModelOutput, inputs: Inputs, training: bool | None) -> Inputs:
        hidden = encoded["last_hidden_state"]
        if self.config.answerability:
            mask = inputs["p_mask"]
            mask = _default_p_mask(inputs, ops.shape(hidden)) if mask is None else mask
            starts = inputs["start_positions"]
            return self.answer_spans(hidden, mask, starts, training=training)
        start_logits, end_logits = self.qa_outputs(hidden)
        return {"start_logits": start_logits, "end_logits": end_logits}

    def encode_examples(self, x: Any, y: Any, tokenizer: BaseTokenizer, max_length: int) -> Any:
        questions, contexts = two_columns(x, "(question, context)")
        return question_rows(
            *(tokenizer, questions, contexts, y),
            answerability=self.config.answerability,
            max_length=max_length,
        )

    def fit_thresholds(self, x: Any, y: Any) -> tuple[float, ...]:
        """Sets the no-answer threshold to the value with the best F1.

        The threshold is stored in `config.thresholds`, and `save_pretrained` saves it. Pipelines,
        `albert-tf answer`, `albert-tf evaluate`, and exported models then return no answer if the
        null score is above the threshold. `albert-tf finetune` also sets it after each epoch.

        Args:
            x: texts that the model wasn't trained on: a list of `(question, context)` tuples, or a
                tuple of two columns.
            y: their answers, as in `fit`. Some must be unanswerable.
        Returns:
            The threshold, in a tuple.
        Raises:
            UserError: if every question has an answer, or an argument has another form.
        """
        examples = questions_of(*two_columns(x, "(question, context)"), y)
        if not any(example.is_impossible for example in examples):
            raise UserError(
                "A threshold requires questions without an answer (None). "
                f"Received: {len(examples)} questions that all have one."
            )
        rows = encoded(self, x)
        answers = decode(examples, rows, model_outputs(rows, self), self.config)
        thresholds = (best_threshold(Predicted(examples, answers, self.config)),)
        self.config = self.config.replace(thresholds=thresholds)
        return thresholds

    def _batch_metrics(self, batch: Batch, outputs: Inputs) -> dict[str, Any]:
        if not self._has_only_lists:
            return super()._batch_metrics(batch, outputs)
        names = ("start_positions", "end_positions")
        compared = [self.targets[name].output for name in names]
        self._require_labels_of(compared, batch)
        positions = [ops.reshape(ops.cast(batch.labels[name], "int32"), (-1,)) for name in names]
        logits = [outputs[name] for name in compared]
        return keras.Model.compute_metrics(
            *(self, batch.features, ops.stack(positions, axis=1), ops.stack(logits, axis=1)),
            batch.weights.get("start_positions"),
        )

    def loss_terms(self, labels: Inputs, outputs: Inputs, inputs: Inputs) -> list[losses.Term]:
        if self.config.answerability and "start_log_probs" not in outputs:
            raise ValueError(
                "With answerability, training requires start_positions among the features: "
                "fit({**features, 'start_positions': …}, {'start_positions': …, "
                "'end_positions': …, 'is_impossible': …})."
            )
        terms = [
            losses.span_cross_entropy(labels[name], outputs[self.targets[name].output], weight=0.5)
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


def _default_p_mask(inputs: Inputs, shape: Tensor) -> Tensor:
    """Returns the default `p_mask` `[B, T]`.

    The context is the second segment without its `[SEP]`. Without `token_type_ids`, or if all are
    0 (as for XLM-RoBERTa's vocabulary), the context is the whole text.
    """
    mask, types = inputs["attention_mask"], inputs["token_type_ids"]
    if mask is None or len(mask.shape) != 2:
        mask = ops.ones(shape[:2])
    attended = ops.cast(mask, "bool")
    followed = ops.pad(attended[:, 1:], ((0, 0), (0, 1)))  # False at the last [SEP]
    possible = ops.logical_and(attended, followed)
    if types is not None:
        second = ops.equal(types, 1)
        has_none = ops.logical_not(ops.any(second, axis=1, keepdims=True))
        possible = ops.logical_and(possible, ops.logical_or(second, has_none))
    classify = ops.equal(ops.arange(shape[1]), 0)
    return ops.cast(ops.logical_not(ops.logical_or(possible, classify)), "float32")

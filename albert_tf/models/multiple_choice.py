"""ALBERT for multiple choice, as in RACE and SWAG."""

from typing import Any, Final

import keras
from keras import ops

from albert_tf import tasks
from albert_tf.config import AlbertConfig
from albert_tf.data.tasks.choices import choice_rows
from albert_tf.layers import ClassificationHead
from albert_tf.layers.common import Tensor
from albert_tf.layers.encoder import Unroll
from albert_tf.models.examples import Target, two_columns
from albert_tf.models.outputs import ModelOutput
from albert_tf.models.task import Inputs, TaskModel
from albert_tf.text.base_tokenizer import BaseTokenizer

# Logit of a padding choice. It fits into float16, and its probability is 0 in float32.
NO_CHOICE: Final = -1e4


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForMultipleChoice(TaskModel):
    """ALBERT with a multiple choice head, which scores the C choices of each example.

    The loss is the cross-entropy of the correct choice.

    `fit` and `evaluate` also accept texts: a list of `(context, choices)` tuples or a tuple of two
    columns, where `choices` is a list of texts. Labels are the indices of the correct choices.

    The context is the first segment, and a choice is the second. Choices are truncated to their
    last 128 tokens, and the end of the context is truncated to fit. The number of truncated choices
    is logged.

    Args:
        config: an `AlbertConfig`.
        **kwargs: `dtype` and `name`, as in `keras.Model`.
    Call arguments: the same as for `AlbertModel`, with a choice axis (`input_ids` `[B, C, T]`),
    plus
        labels: int `[B]`, the index of the correct choice.
    Returns:
        A `ModelOutput` with `loss` (if labels are passed), `logits` `[B, C]`, and on request
        `hidden_states` and `attentions` of the `B·C` sequences. If examples differ in
        the number of choices, add choices whose `attention_mask` is all 0. Their logits are
        `NO_CHOICE`.
    Source: ALBERT, arXiv 1909.11942, section 4.3 (RACE).

    Example:
        >>> from albert_tf import AlbertForMultipleChoice, AlbertTokenizer
        >>> tokenizer = AlbertTokenizer.from_pretrained("small")
        >>> model = AlbertForMultipleChoice.from_pretrained("small")
        >>> question, answers = "Where does she live?", ["In Lisbon.", "At noon."]
        >>> pairs = tokenizer([question] * 2, answers, padding=True, return_tensors="np")
        >>> model({name: values[None] for name, values in pairs.items()}).logits.shape
        TensorShape([1, 2])
    """

    task = tasks.MULTIPLE_CHOICE
    targets = {"labels": Target("logits", classes="choices")}
    pooled = pooled_only = True

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.classifier = self._add(ClassificationHead, "classifier", units=1)

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
        return self.compute_outputs(locals())

    def encode_examples(self, x: Any, y: Any, tokenizer: BaseTokenizer, max_length: int) -> Any:
        contexts, choices = two_columns(x, "(context, choices)")
        return choice_rows(tokenizer, contexts, choices, y, max_length=max_length)

    def head_outputs(self, encoded: ModelOutput, inputs: Inputs, training: bool | None) -> Inputs:
        scores = self.classifier(encoded["pooler_output"], training=training)
        given = inputs["inputs_embeds" if inputs["input_ids"] is None else "input_ids"]
        logits = ops.reshape(scores, ops.shape(given)[:2])
        mask = inputs["attention_mask"]
        if mask is not None:
            positions = tuple(range(2, len(mask.shape)))
            attended = ops.max(ops.cast(mask, logits.dtype), axis=positions)
            logits = ops.where(attended > 0, logits, NO_CHOICE)
        return {"logits": logits}

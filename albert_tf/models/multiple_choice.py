"""ALBERT that chooses among several continuations, as in RACE and SWAG."""

from collections.abc import Mapping
from typing import Any, Final

import keras
from keras import ops

from albert_tf import tasks
from albert_tf.config import AlbertConfig
from albert_tf.layers import ClassificationHead
from albert_tf.models.calls import ModelOutput
from albert_tf.models.task import Inputs, TaskModel

# Logit of a choice that is padding. Its probability is 0 in float32, and it fits in float16.
NO_CHOICE: Final = -1e4


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForMultipleChoice(TaskModel):
    """Scores C sequences of an example; the loss is the cross-entropy of the right choice.

    Args:
        config: sizes and probabilities.
        **kwargs: `dtype` and `name`, as in `keras.Model`.
    Call arguments: those of `AlbertModel` with the axis of choices (`input_ids` `[B, C, T]`), and
        labels: int `[B]`, the right choice.
    Returns:
        `ModelOutput` with `loss` (given labels), `logits` `[B, C]`, and on request `hidden_states`
        and `attentions` of the `B·C` sequences. A choice whose `attention_mask` is 0 everywhere is
        padding, for examples with fewer choices than others: its logit is `NO_CHOICE`.
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
    targets = {"labels": "logits"}
    pooled = pooled_only = True

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.classifier = self._add(ClassificationHead, "classifier", units=1)

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

    def _class_counts(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        given = inputs.get("input_ids", inputs.get("inputs_embeds"))
        return {} if given is None else {"labels": given.shape[1]}

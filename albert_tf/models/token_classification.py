"""ALBERT with a classifier at every position, for tags and named entities."""

from collections.abc import Mapping
from typing import Any

import keras

from albert_tf import tasks
from albert_tf.config import AlbertConfig
from albert_tf.layers import ClassificationHead
from albert_tf.models.calls import ModelOutput
from albert_tf.models.task import Inputs, TaskModel


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForTokenClassification(TaskModel):
    """Labels every token.

    The loss is the mean cross-entropy of all labels but -100.

    Args:
        config: sizes, probabilities and labels.
        **kwargs: `dtype` and `name`, as in `keras.Model`.
    Call arguments: those of `AlbertModel`, and
        labels: int `[B, T]`; -100 is ignored.
    Returns:
        `ModelOutput` with `loss` (given labels), `logits` `[B, T, num_labels]`, and on request
        `hidden_states` and `attentions`.

    Example:
        >>> from albert_tf import AlbertForTokenClassification, AlbertTokenizer
        >>> tokenizer = AlbertTokenizer.from_pretrained("small")
        >>> names = {0: "O", 1: "PERSON", 2: "PLACE"}
        >>> model = AlbertForTokenClassification.from_pretrained("small", id2label=names)
        >>> model(tokenizer(["Anna lives in Lisbon."], return_tensors="np")).logits.shape[-1]
        3
    """

    task = tasks.TOKEN_CLASSIFICATION
    targets = {"labels": "logits"}

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.classifier = self._add(ClassificationHead, "classifier", units=config.num_labels)

    def head_outputs(self, encoded: ModelOutput, inputs: Inputs, training: bool | None) -> Inputs:
        logits = self.classifier(encoded["last_hidden_state"], training=training)
        return {"logits": logits}

    def _class_counts(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        return {"labels": self.config.num_labels}

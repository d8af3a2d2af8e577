"""ALBERT for token classification, such as part-of-speech tagging and named entity recognition."""

from typing import Any

import keras

from albert_tf import tasks
from albert_tf.config import AlbertConfig
from albert_tf.data.tasks.tagging import word_rows
from albert_tf.layers import ClassificationHead
from albert_tf.layers.common import Tensor
from albert_tf.layers.encoder import Unroll
from albert_tf.models.examples import Target, check_labels, class_ids, holds_strings
from albert_tf.models.outputs import ModelOutput
from albert_tf.models.task import Inputs, TaskModel
from albert_tf.text.base_tokenizer import BaseTokenizer


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForTokenClassification(TaskModel):
    """ALBERT with a token classification head, which predicts one label per token.

    The loss is the mean cross-entropy over all labels except -100.

    `fit` and `evaluate` also accept a list of words and a list of tags for each sentence. Tags are
    class ids or names in `config.label2id`. A word's tag is the label of its first token. Sentences
    longer than `max_position_embeddings` are split into windows.

    Args:
        config: an `AlbertConfig`.
        **kwargs: `dtype` and `name`, as in `keras.Model`.
    Call arguments: the same as for `AlbertModel`, plus
        labels: int `[B, T]`. Labels of -100 are ignored.
    Returns:
        A `ModelOutput` with `loss` (if labels are passed), `logits` `[B, T, num_labels]`, and on
        request `hidden_states` and `attentions`.

    Example:
        >>> from albert_tf import AlbertForTokenClassification, AlbertTokenizer
        >>> tokenizer = AlbertTokenizer.from_pretrained("small")
        >>> names = {0: "O", 1: "PERSON", 2: "PLACE"}
        >>> model = AlbertForTokenClassification.from_pretrained("small", id2label=names)
        >>> model(tokenizer(["Anna lives in Lisbon."], return_tensors="np")).logits.shape[-1]
        3
    """

    task = tasks.TOKEN_CLASSIFICATION
    targets = {"labels": Target("logits", classes="num_labels", by_token=True)}

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.classifier = self._add(ClassificationHead, "classifier", units=config.num_labels)

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
        if y is not None:
            y = [
                class_ids(tags, self.targets["labels"], self.config)
                if holds_strings(tags)
                else tags
                for tags in y
            ]
        rows = word_rows(tokenizer, x, y, max_length=max_length)
        for tags in rows.labels.get("labels", ()):
            check_labels(self, {"labels": tags}, {}, self.loss)
        return rows

    def head_outputs(self, encoded: ModelOutput, inputs: Inputs, training: bool | None) -> Inputs:
        logits = self.classifier(encoded["last_hidden_state"], training=training)
        return {"logits": logits}

"""ALBERT with a classifier, or a regressor, on the pooled output."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers import ClassificationHead
from albert_tf.models.albert import AlbertModel
from albert_tf.models.base import PreTrainedModel, features
from albert_tf.models.outputs import ModelOutput


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForSequenceClassification(PreTrainedModel):
    """One label, several labels, or one number for a whole sequence, as `config.problem_type` says.

    `compile(optimizer)` is enough to `fit`: the loss is then cross-entropy from logits (int labels
    `[B]`), sigmoid cross-entropy (several labels, 0 or 1, `[B, num_labels]`) or the squared error
    (regression, float `[B]`). A loss or metrics given to `compile` receive the logits.

    Args:
        config: sizes and labels.
        dtype, name: as in `keras.Model`.

    Call arguments: those of `AlbertModel`, and
        labels: as above; adds `loss`, a scalar, to the output.
    Returns:
        `ModelOutput` with `loss` (given labels), `logits` `[B, num_labels]`, and on request
        `hidden_states` and `attentions`.
    """

    main_output = "logits"

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.albert = AlbertModel(config, name="albert", dtype=self.dtype_policy)
        self.head = ClassificationHead(config, name="head", dtype=self.dtype_policy)
        self.build()

    def build(self, input_shape: Any = None) -> None:
        if self.built:
            return
        self.head.build(None)
        self.built = True

    def call(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        token_type_ids: Any = None,
        position_ids: Any = None,
        inputs_embeds: Any = None,
        labels: Any = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        unroll: bool = True,
        training: bool | None = None,
    ) -> ModelOutput:
        inputs = features(
            input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            labels=labels,
        )
        labels = inputs.pop("labels")
        encoded = self.albert(
            **inputs,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            unroll=unroll,
            training=training,
        )
        outputs = ModelOutput(logits=self.head(encoded["pooler_output"], training=training))
        if labels is not None:
            outputs = ModelOutput(loss=ops.mean(self.example_losses(labels, outputs)), **outputs)
        for name in ("hidden_states", "attentions"):
            if name in encoded:
                outputs[name] = encoded[name]
        return outputs

    def example_losses(self, labels: Any, outputs: Mapping[str, Any]) -> Any:
        if labels is None:
            raise ValueError(
                "The model's own loss needs labels, as `y` or among the features. Received none: "
                "fit(features, labels)."
            )
        logits = outputs["logits"]
        problem = self.problem_type
        if problem == "regression":
            targets = ops.reshape(ops.cast(labels, logits.dtype), ops.shape(logits))
            return ops.mean(ops.square(logits - targets), axis=-1)
        if problem == "multi_label_classification":
            losses = ops.binary_crossentropy(
                ops.cast(labels, logits.dtype), logits, from_logits=True
            )
            return ops.mean(losses, axis=-1)
        targets = ops.reshape(ops.cast(labels, "int32"), (-1,))
        return ops.sparse_categorical_crossentropy(targets, logits, from_logits=True)

    def probabilities(self, logits: Any) -> Any:
        """What the logits `[B, C]` mean: softmax, sigmoid for several labels, the score itself."""
        if self.problem_type == "regression":
            return logits
        if self.problem_type == "multi_label_classification":
            return ops.sigmoid(logits)
        return ops.softmax(logits)

    @property
    def problem_type(self) -> str:
        """`config.problem_type`, or what it means where it isn't set: regression for one label."""
        return self.config.problem_type or (
            "regression" if self.config.num_labels == 1 else "single_label_classification"
        )

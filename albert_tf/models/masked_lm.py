"""ALBERT with a masked-language-modeling head."""

from collections.abc import Mapping
from typing import Any

import keras

from albert_tf import tasks
from albert_tf.config import AlbertConfig
from albert_tf.layers import MaskedLMHead
from albert_tf.models.calls import ModelOutput
from albert_tf.models.task import Inputs, TaskModel


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForMaskedLM(TaskModel):
    """Predicts the tokens at masked positions.

    The loss is the mean cross-entropy of all labels but -100.

    Args:
        config: sizes and probabilities.
        **kwargs: `dtype` and `name`, as in `keras.Model`.
    Call arguments: those of `AlbertModel`, and
        masked_lm_positions: int `[B, P]`; scores only these positions, which takes a fraction of
            the memory.
        labels: int `[B, T]`, or `[B, P]` with positions; -100 is ignored.
    Returns:
        `ModelOutput` with `loss` (given labels), `logits` `[B, T, V]` or `[B, P, V]`, and on
        request `hidden_states` and `attentions`.

    Example:
        >>> from albert_tf import AlbertForMaskedLM, AlbertTokenizer
        >>> tokenizer = AlbertTokenizer.from_pretrained("small")
        >>> model = AlbertForMaskedLM.from_pretrained("small")
        >>> features = tokenizer(["A [MASK] film."], return_tensors="np")
        >>> model(features).logits.shape[-1] == len(tokenizer)
        True
    """

    task = tasks.MASKED_LM
    targets = {"labels": "logits"}
    task_inputs = ("masked_lm_positions",)

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.predictions = self._add(MaskedLMHead, "predictions")

    def head_outputs(self, encoded: ModelOutput, inputs: Inputs, training: bool | None) -> Inputs:
        logits = self.predictions(
            encoded["last_hidden_state"],
            self.albert.embedding.tied_table(),
            inputs["masked_lm_positions"],
        )
        return {"logits": logits}

    def _class_counts(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        return {"labels": self.config.vocab_size}

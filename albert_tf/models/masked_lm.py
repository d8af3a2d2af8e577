"""ALBERT for masked language modeling."""

from typing import Any

import keras

from albert_tf import tasks
from albert_tf.config import AlbertConfig
from albert_tf.data.pretraining.texts import MaskedTexts
from albert_tf.errors import UserError
from albert_tf.layers import MaskedLMHead
from albert_tf.layers.common import Tensor
from albert_tf.layers.encoder import Unroll
from albert_tf.models.examples import Target, text_columns
from albert_tf.models.outputs import ModelOutput
from albert_tf.models.task import Inputs, TaskModel
from albert_tf.text.base_tokenizer import BaseTokenizer


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForMaskedLM(TaskModel):
    """ALBERT with a masked language modeling head, which predicts the tokens at masked positions.

    The loss is the mean cross-entropy over all labels except -100.

    `fit` and `evaluate` also accept a list of texts without labels. Words are masked as in
    pretraining, with new masks in each epoch of training and the same masks in every evaluation.

    Args:
        config: an `AlbertConfig`.
        **kwargs: `dtype` and `name`, as in `keras.Model`.
    Call arguments: the same as for `AlbertModel`, plus
        masked_lm_positions: int `[B, P]`, the positions to score. Default: all positions, which
            takes much more memory.
        labels: int `[B, T]`, or `[B, P]` with `masked_lm_positions`. Labels of -100 are ignored.
    Returns:
        A `ModelOutput` with `loss` (if labels are passed), `logits` `[B, T, V]` or `[B, P, V]`, and
        on request `hidden_states` and `attentions`.

    Example:
        >>> from albert_tf import AlbertForMaskedLM, AlbertTokenizer
        >>> tokenizer = AlbertTokenizer.from_pretrained("small")
        >>> model = AlbertForMaskedLM.from_pretrained("small")
        >>> features = tokenizer(["A [MASK] film."], return_tensors="np")
        >>> model(features).logits.shape[-1] == len(tokenizer)
        True
    """

    task = tasks.MASKED_LM
    targets = {"labels": Target("logits", classes="vocab_size", by_token=True)}
    task_inputs = ("masked_lm_positions",)

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.predictions = self._add(MaskedLMHead, "predictions")

    def call(
        self,
        input_ids: Tensor = None,
        attention_mask: Tensor = None,
        token_type_ids: Tensor = None,
        position_ids: Tensor = None,
        inputs_embeds: Tensor = None,
        masked_lm_positions: Tensor = None,
        labels: Tensor = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        unroll: Unroll = True,
        training: bool | None = None,
    ) -> ModelOutput:
        return self.compute_outputs(locals())

    def encode_examples(self, x: Any, y: Any, tokenizer: BaseTokenizer, max_length: int) -> Any:
        if y is not None:
            raise UserError("Labels can't be passed with texts. Drop y, or pass ids and labels.")
        (texts,) = text_columns(x, 1)
        return MaskedTexts(tokenizer, texts, max_length)

    def head_outputs(self, encoded: ModelOutput, inputs: Inputs, training: bool | None) -> Inputs:
        logits = self.predictions(
            encoded["last_hidden_state"],
            self.albert.embedding.tied_table(),
            inputs["masked_lm_positions"],
        )
        return {"logits": logits}

"""The ALBERT encoder with its pooler."""

from typing import Any

import keras

from albert_tf import tasks
from albert_tf.config import AlbertConfig
from albert_tf.layers import AlbertEncoder, FactorizedEmbedding, pooler
from albert_tf.layers.common import Tensor
from albert_tf.layers.encoder import Unroll
from albert_tf.models.base import PreTrainedModel, in_predict
from albert_tf.models.batch import check_shapes, named_inputs
from albert_tf.models.examples import ENCODER_INPUTS
from albert_tf.models.outputs import ModelOutput


@keras.saving.register_keras_serializable("albert_tf")
class AlbertModel(PreTrainedModel):
    """The ALBERT encoder: a factorized embedding, blocks that share their weights, and a pooler.

    Args:
        config: an `AlbertConfig`.
        add_pooling_layer: whether to add a pooler and return `pooler_output`.
        **kwargs: `dtype` and `name`, as in `keras.Model`.
    Call arguments:
        input_ids: int `[B, T]`, or a dict of these arguments.
        attention_mask: `[B, T]` or `[B, T, T]`: 1 for positions to attend to, 0 for masked ones.
            Default: all positions are attended to.
        token_type_ids: int `[B, T]`. Default: all 0.
        position_ids: int `[B, T]`. Default: 0, 1, ….
        inputs_embeds: float `[B, T, E]`, word embeddings to pass instead of `input_ids`.
            To look them up, call `get_input_embeddings()(input_ids)`.
        output_attentions, output_hidden_states: whether to also return the attention probabilities
            or the hidden states of every block.
        unroll: whether to unroll the layers. If False, they run in a graph loop, which returns only
            the last hidden state. "last" runs the last layer outside the loop if `pooled_only` is
            set; see `AlbertEncoder`.
        pooled_only: whether to omit `last_hidden_state`. This saves most of the last layer's work.
    Returns:
        A `ModelOutput` with `last_hidden_state` `[B, T, H]` and `pooler_output` `[B, H]`. On
        request, it also contains `hidden_states` (L + 1 tensors `[B, T, H]`, starting with the
        projected embedding) and `attentions` (L tensors `[B, A, T, T]`). Here, L is the number of
        inner blocks.
    Raises:
        ValueError: if an id is out of range (in eager calls), an input has the wrong rank, or a
            sequence is too long.
    Source: ALBERT, arXiv 1909.11942.

    Example:
        >>> from albert_tf import AlbertModel, AlbertTokenizer
        >>> tokenizer = AlbertTokenizer.from_pretrained("small")
        >>> model = AlbertModel.from_pretrained("small")
        >>> features = tokenizer(["A quiet film."], return_tensors="np")
        >>> outputs = model(features, output_hidden_states=True)
        >>> len(outputs.hidden_states) == model.config.num_hidden_layers + 1
        True
    """

    task = tasks.ENCODER
    form_options = ("add_pooling_layer",)
    add_pooling_layer: bool

    def __init__(self, config: AlbertConfig, add_pooling_layer: bool = True, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.add_pooling_layer = add_pooling_layer
        policy = self.dtype_policy
        self.embedding = FactorizedEmbedding(config, name="embedding", dtype=policy)
        self.encoder = AlbertEncoder(config, name="encoder", dtype=policy)
        self.pooler = pooler(config, policy) if add_pooling_layer else None
        self.build(None)
        self._tracker.unlock()  # so that subclasses can add layers

    def build(self, input_shape: Any = None) -> None:
        if self.built:
            return
        for layer, shape in (
            (self.embedding, None),
            (self.encoder, None),
            (self.pooler, (None, self.config.hidden_size)),
        ):
            if layer is not None and not layer.built:
                layer.build(shape)
        self.built = True

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        """The shape of `last_hidden_state`, which `summary()` displays."""
        return None, None, self.config.hidden_size

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "add_pooling_layer": self.add_pooling_layer}

    def call(
        self,
        input_ids: Tensor = None,
        attention_mask: Tensor = None,
        token_type_ids: Tensor = None,
        position_ids: Tensor = None,
        inputs_embeds: Tensor = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        unroll: Unroll = True,
        pooled_only: bool = False,
        training: bool | None = None,
    ) -> ModelOutput:
        arguments = locals()
        inputs = named_inputs({name: arguments[name] for name in ENCODER_INPUTS}, ENCODER_INPUTS)
        all_results = output_attentions or output_hidden_states
        if unroll in (False, "last") and all_results:
            raise ValueError(
                "output_attentions and output_hidden_states require unroll=True, because a graph "
                f"loop doesn't return the results of each layer. Received: unroll={unroll!r}."
            )
        if unroll is True and not all_results and in_predict.get():
            unroll = "last"  # equally fast, but traced in a third of the time
        check_shapes(inputs, self.config.max_position_embeddings)
        mask = inputs.pop("attention_mask")
        hidden = self.embedding(**inputs, training=training)
        cls_only = pooled_only and not all_results
        hidden_states, attentions = self.encoder(
            hidden, mask, unroll=unroll, cls_only=cls_only, training=training
        )
        last = hidden_states[-1]
        outputs = ModelOutput({} if pooled_only else {"last_hidden_state": last})
        if self.pooler is not None:
            outputs["pooler_output"] = self.pooler(last[:, 0])
        if output_hidden_states:
            outputs["hidden_states"] = tuple(hidden_states)
        if output_attentions:
            outputs["attentions"] = tuple(attentions)
        return outputs

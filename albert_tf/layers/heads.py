"""The pooler and the tasks' heads, on top of the encoder."""

from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.common import ConfiguredLayer, Dropout, Tensor, dense
from albert_tf.layers.functions import activation, layer_norm
from albert_tf.layers.ids import checked_ids, rows_at


def pooler(config: AlbertConfig, dtype: Any) -> keras.layers.Dense:
    """BERT's pooler: tanh of an affine map of the first token's `[B, H]`."""
    return dense(config.hidden_size, config, "pooler", dtype, ops.tanh)


def in_float32(logits: Tensor) -> Tensor:
    """Casts logits to float32; wider ones stay as they are."""
    return ops.cast(logits, keras.backend.result_type(logits.dtype, "float32"))


def at_positions(hidden: Tensor, positions: Tensor) -> Tensor:
    """Returns the states `[B, P, H]` of `hidden` `[B, T, H]` at int `positions` `[B, P]`."""
    return rows_at(hidden, ops.cast(positions, "int32"), batch_dims=1)


@keras.saving.register_keras_serializable("albert_tf")
class ClassificationHead(ConfiguredLayer):
    """Applies dropout, then an affine map of the last axis to one logit for each class.

    Args:
        config: sizes and dropout rate.
        units: C, number of classes.
    Call arguments:
        hidden: `[B, H]`, or `[B, T, H]` for a label at every position.
    Returns:
        `[B, C]` or `[B, T, C]`, float32 under half precision.
    """

    def __init__(self, config: AlbertConfig, units: int, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.units = units
        self.dropout = Dropout(config.classifier_dropout_prob, dtype=self.dtype_policy)
        self.dense = dense(units, config, "dense", self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.dense.build((None, self.config.hidden_size))

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        return None, self.units

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}

    def call(self, hidden: Tensor, training: bool | None = None) -> Tensor:
        return in_float32(self.dense(self.dropout(hidden, training=training)))


@keras.saving.register_keras_serializable("albert_tf")
class MaskedLMHead(ConfiguredLayer):
    """Maps back to E dimensions, then scores every word with the word table.

    Call arguments:
        hidden: `[B, T, H]`.
        word_embeddings: `[V, E]`, the embedding's own table: the weights are tied.
        positions: int `[B, P]`, the positions to score; None scores all of them.
    Returns:
        `[B, P, V]` or `[B, T, V]`, float32 under half precision.
    Source: BERT, arXiv 1810.04805, section 3.1; google-research/albert, run_pretraining.py.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        function = activation(config, self.dtype_policy)
        self.dense = dense(config.embedding_size, config, "dense", self.dtype_policy, function)
        self.layer_norm = layer_norm(config, "layer_norm", self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.dense.build((None, None, self.config.hidden_size))
        self.layer_norm.build((None, None, self.config.embedding_size))
        self.add_variables()

    def add_variables(self) -> None:
        """Makes the bias of every word."""
        self.bias = self.add_weight(
            name="bias", shape=(self.config.vocab_size,), initializer="zeros"
        )

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        return None, None, self.config.vocab_size

    def __call__(
        self, hidden: Tensor, word_embeddings: Tensor, positions: Tensor = None, **kwargs: Any
    ) -> Tensor:
        with checked_ids(self.config, {"masked_lm_positions": positions}, hidden.shape[1]):
            return super().__call__(hidden, word_embeddings, positions, **kwargs)

    def call(self, hidden: Tensor, word_embeddings: Tensor, positions: Tensor = None) -> Tensor:
        if positions is not None:
            hidden = at_positions(hidden, positions)
        transformed = self.layer_norm(self.dense(hidden))
        logits = ops.matmul(transformed, ops.transpose(word_embeddings))
        return in_float32(logits) + in_float32(self.bias)


@keras.saving.register_keras_serializable("albert_tf")
class SpanHead(ConfiguredLayer):
    """Maps each position to two logits: the answer starts there, and ends there.

    Call arguments:
        hidden: `[B, T, H]`.
    Returns:
        `(start_logits, end_logits)`, each `[B, T]`, float32 under half precision.
    Source: BERT, arXiv 1810.04805, section 4.2.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.dense = dense(2, config, "dense", self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.dense.build((None, None, self.config.hidden_size))

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        return None, None

    def call(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        logits = in_float32(self.dense(hidden))
        return logits[..., 0], logits[..., 1]

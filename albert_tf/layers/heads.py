"""What stands on the encoder: the pooler and the heads of the tasks."""

from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.common import (
    ACTIVATION_FUNCTIONS,
    Dropout,
    check_range,
    dense,
    layer_norm,
)


def pooler(config: AlbertConfig, dtype: Any) -> keras.layers.Dense:
    """Tanh of an affine map of the first token's `[B, H]`, as BERT's."""
    layer = dense(config.hidden_size, config, "pooler", dtype)
    layer.activation = ops.tanh
    return layer


def in_float32(logits: Any) -> Any:
    """Logits in float32 at least, whatever the head computed in."""
    return ops.cast(logits, keras.backend.result_type(logits.dtype, "float32"))


def at_positions(hidden: Any, positions: Any) -> Any:
    """The states `[B, P, H]` of `hidden` `[B, T, H]` at int `positions` `[B, P]`."""
    return ops.take_along_axis(hidden, ops.expand_dims(ops.cast(positions, "int32"), -1), axis=1)


class ClassificationHead(keras.layers.Layer):
    """Dropout, then an affine map of the last axis to one logit a class.

    Args:
        config: sizes and the dropout's rate.
        units: C, number of classes.
    Call arguments:
        hidden: `[B, H]`, or `[B, T, H]` for a label at every position.
    Returns:
        `[B, C]` or `[B, T, C]`, float32 under half precision.
    """

    def __init__(self, config: AlbertConfig, units: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = config
        self.dropout = Dropout(config.classifier_dropout_prob, dtype=self.dtype_policy)
        self.dense = dense(units, config, "dense", self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.dense.build((None, self.config.hidden_size))

    def call(self, hidden: Any, training: bool | None = None) -> Any:
        return in_float32(self.dense(self.dropout(hidden, training=training)))


class MaskedLMHead(keras.layers.Layer):
    """Back to E dimensions, activation, layer norm, then a product with the word table.

    Call arguments:
        hidden: `[B, T, H]`.
        word_embeddings: `[V, E]`, the embedding's own table: the weights are tied.
        positions: int `[B, P]`, the positions to compute logits for; None means every one.
    Returns:
        `[B, P, V]` or `[B, T, V]`, float32 under half precision.
    Source: BERT, arXiv 1810.04805, section 3.1; google-research/albert, run_pretraining.py.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = config
        self.activation = ACTIVATION_FUNCTIONS[config.hidden_act]
        self.dense = dense(config.embedding_size, config, "dense", self.dtype_policy)
        self.layer_norm = layer_norm(config, "layer_norm", self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.dense.build((None, None, self.config.hidden_size))
        self.layer_norm.build((None, None, self.config.embedding_size))
        self.bias = self.add_weight(
            name="bias", shape=(self.config.vocab_size,), initializer="zeros"
        )

    def call(self, hidden: Any, word_embeddings: Any, positions: Any = None) -> Any:
        if positions is not None:
            length = hidden.shape[1]
            if isinstance(length, int):
                check_range(positions, length, "masked_lm_positions", "length", "Pad them with 0.")
            hidden = at_positions(hidden, positions)
        transformed = self.layer_norm(self.activation(self.dense(hidden)))
        logits = ops.matmul(transformed, ops.transpose(word_embeddings))
        return in_float32(logits) + in_float32(self.bias)


class SpanHead(keras.layers.Layer):
    """An affine map of each position to the logits that an answer starts, and ends, there.

    Call arguments:
        hidden: `[B, T, H]`.
    Returns:
        `(start_logits, end_logits)`, each `[B, T]`, float32 under half precision.
    Source: BERT, arXiv 1810.04805, section 4.2.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = config
        self.dense = dense(2, config, "dense", self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.dense.build((None, None, self.config.hidden_size))

    def call(self, hidden: Any) -> tuple[Any, Any]:
        logits = in_float32(self.dense(hidden))
        return logits[..., 0], logits[..., 1]

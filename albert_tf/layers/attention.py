"""Multi-head self-attention with its residual connection and layer norm."""

from typing import Any, Final

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.common import ConfiguredLayer, Dropout, Tensor, as_rows, dense
from albert_tf.layers.functions import layer_norm

# google-research/albert's value; float16 can represent it, and its exponential is 0 in float32.
MASKED: Final = -10000.0


def attention_bias(attention_mask: Tensor, dtype: str) -> Tensor:
    """Returns the term that masks attention scores: 0 where attended, `MASKED` where not.

    Args:
        attention_mask: `[B, T]` over keys, or `[B, T, T]` over queries and keys; 1 attended, 0 not.
        dtype: the result's; float32 or wider.
    Returns:
        `[B, 1, 1, T]` or `[B, 1, T, T]`.
    """
    mask = ops.expand_dims(ops.cast(attention_mask, dtype), 1)
    if len(attention_mask.shape) == 2:
        mask = ops.expand_dims(mask, 1)
    elif len(attention_mask.shape) != 3:
        raise ValueError(
            "attention_mask must have shape [batch, length] or [batch, length, length]. "
            f"Received shape {tuple(attention_mask.shape)}."
        )
    return (1.0 - mask) * MASKED


@keras.saving.register_keras_serializable("albert_tf")
class SelfAttention(ConfiguredLayer):
    """Attention over the sequence, projected, added to its input and normalised.

    The products are written out: on CPU `benchmarks/attention.py` measures this form faster than
    `keras.ops.dot_product_attention` and three products for query, key and value faster than a
    joint one.

    Call arguments:
        hidden: `[B, T, H]`.
        bias: float `[B, 1, 1 or T, T]`, see `attention_bias`.
        rows: number of positions to compute, from the first on: R; None computes all T.
    Returns:
        `(hidden, probabilities)`: `[B, R, H]` and `[B, A, R, T]`.
    Source: ALBERT, arXiv 1909.11942, section 3.1; google-research/albert, modeling.py.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.head_size = config.hidden_size // config.num_attention_heads
        self.query, self.key, self.value, self.dense = (
            dense(config.hidden_size, config, name, self.dtype_policy)
            for name in ("query", "key", "value", "dense")
        )
        self.layer_norm = layer_norm(config, "layer_norm", self.dtype_policy)
        self.attention_dropout = Dropout(
            config.attention_probs_dropout_prob, dtype=self.dtype_policy
        )
        self.output_dropout = Dropout(config.hidden_dropout_prob, dtype=self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        for layer in (self.query, self.key, self.value, self.dense):
            layer.build((None, self.config.hidden_size))
        self.layer_norm.build((None, None, self.config.hidden_size))

    def call(
        self,
        hidden: Tensor,
        bias: Tensor,
        rows: int | None = None,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        key, value = (self._heads(layer, hidden) for layer in (self.key, self.value))
        if rows is not None:
            hidden, bias = hidden[:, :rows], bias[:, :, :rows]
        query = self._heads(self.query, hidden)
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        # Scaled after the product: with the scale before it, oneDNN's fusion returns an empty
        # tensor inside a graph loop.
        scores = ops.cast(scores, bias.dtype) * self.head_size**-0.5 + bias
        probabilities = ops.cast(ops.softmax(scores, axis=-1), self.compute_dtype)
        attended = ops.matmul(self.attention_dropout(probabilities, training=training), value)
        joined = ops.transpose(attended, (0, 2, 1, 3))
        projected = self.dense(ops.reshape(joined, (-1, self.config.hidden_size)))
        projected = ops.reshape(projected, ops.shape(hidden))
        hidden = hidden + self.output_dropout(projected, training=training)
        return self.layer_norm(hidden), probabilities

    def _heads(self, projection: keras.layers.Dense, hidden: Tensor) -> Tensor:
        """Projects `[B, T, H]` to `[B, A, T, H/A]`."""
        batch, length = ops.shape(hidden)[:2]
        split = (batch, length, self.config.num_attention_heads, self.head_size)
        return ops.transpose(ops.reshape(projection(as_rows(hidden)), split), (0, 2, 1, 3))

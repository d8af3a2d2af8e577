"""The shared block, and the schedule by which the encoder applies it."""

import itertools
from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.attention import SelfAttention, attention_bias
from albert_tf.layers.common import ACTIVATION_FUNCTIONS, dense, layer_norm


def group_schedule(num_hidden_layers: int, num_hidden_groups: int) -> list[int]:
    """The group that each layer applies: `[0, 0, 1, 1]` for 4 layers in 2 groups.

    The formula is transformers', rounding included, because the format on disk is its. The
    original's `int(i / L * G)` gives the same list up to 17 layers and in every published model.
    """
    return [
        int(layer / (num_hidden_layers / num_hidden_groups)) for layer in range(num_hidden_layers)
    ]


class AlbertBlock(keras.layers.Layer):
    """Attention, then the feed-forward network, each with residual connection and layer norm.

    Call arguments:
        hidden: `[B, T, H]`.
        bias: float `[B, 1, 1 or T, T]`, see `attention_bias`.
    Returns:
        `(hidden, probabilities)`: `[B, T, H]` and `[B, A, T, T]`.
    Source: ALBERT, arXiv 1909.11942, section 3.1; google-research/albert, modeling.py.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = config
        self.activation = ACTIVATION_FUNCTIONS[config.hidden_act]
        self.attention = SelfAttention(config, name="attention", dtype=self.dtype_policy)
        self.ffn = dense(config.intermediate_size, config, "ffn", self.dtype_policy)
        self.ffn_output = dense(config.hidden_size, config, "ffn_output", self.dtype_policy)
        self.dropout = keras.layers.Dropout(config.hidden_dropout_prob, dtype=self.dtype_policy)
        self.layer_norm = layer_norm(config, "layer_norm", self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        hidden = (None, None, self.config.hidden_size)
        self.attention.build(hidden)
        self.ffn.build(hidden)
        self.ffn_output.build((None, None, self.config.intermediate_size))
        self.layer_norm.build(hidden)

    def call(self, hidden: Any, bias: Any, training: bool | None = None) -> tuple[Any, Any]:
        attended, probabilities = self.attention(hidden, bias, training=training)
        transformed = self.ffn_output(self.activation(self.ffn(attended)))
        hidden = attended + self.dropout(transformed, training=training)
        return self.layer_norm(hidden), probabilities


class AlbertEncoder(keras.layers.Layer):
    """Applies G groups of blocks L times: the weights of a group are the same at every visit.

    Call arguments:
        hidden: `[B, T, H]`.
        attention_mask: `[B, T]` or `[B, T, T]`, 1 attended, 0 not.
        unroll: False runs each group's visits as a loop of the graph: smaller to store and to load.
    Returns:
        `(hidden_states, attentions)`: every block's `[B, T, H]`, the input first, and every block's
        `[B, A, T, T]`; with `unroll=False` just the last hidden state, and no attentions.
    Source: ALBERT, arXiv 1909.11942, section 3.1 (cross-layer parameter sharing).
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = config
        self.schedule = group_schedule(config.num_hidden_layers, config.num_hidden_groups)
        # A flat list: Keras does not save what stands in a list of lists.
        self.blocks = [
            AlbertBlock(config, name=f"group_{group}_block_{inner}", dtype=self.dtype_policy)
            for group in range(config.num_hidden_groups)
            for inner in range(config.inner_group_num)
        ]

    def build(self, input_shape: Any = None) -> None:
        for block in self.blocks:
            block.build((None, None, self.config.hidden_size))

    def group(self, index: int) -> list[AlbertBlock]:
        """The blocks of one group, in the order in which they are applied."""
        inner = self.config.inner_group_num
        return list(self.blocks[index * inner : (index + 1) * inner])

    def call(
        self, hidden: Any, attention_mask: Any, unroll: bool = True, training: bool | None = None
    ) -> tuple[list[Any], list[Any]]:
        # Scores and softmax keep float32 under half precision.
        bias = attention_bias(
            attention_mask, keras.backend.result_type(self.compute_dtype, "float32")
        )
        if not unroll:
            return [self._looped(hidden, bias, training)], []
        hidden_states, attentions = [hidden], []
        for group in self.schedule:
            for block in self.group(group):  # the same weights at every visit
                hidden, probabilities = block(hidden, bias, training=training)
                hidden_states.append(hidden)
                attentions.append(probabilities)
        return hidden_states, attentions

    def _looped(self, hidden: Any, bias: Any, training: bool | None) -> Any:
        for group, visits in itertools.groupby(self.schedule):
            blocks = self.group(group)

            def visit(_: Any, hidden: Any, blocks: list[AlbertBlock] = blocks) -> Any:
                for block in blocks:
                    hidden, _ = block(hidden, bias, training=training)
                return hidden

            hidden = ops.fori_loop(0, len(list(visits)), visit, hidden)
        return hidden

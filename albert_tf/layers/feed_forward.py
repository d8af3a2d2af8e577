"""The feed-forward network with its residual connection and layer norm."""

from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.common import ConfiguredLayer, Dropout, Tensor, as_rows, dense
from albert_tf.layers.functions import activation, layer_norm


@keras.saving.register_keras_serializable("albert_tf")
class FeedForward(ConfiguredLayer):
    """Widens to I, applies the activation, narrows to H, adds its input and normalises.

    Call arguments:
        hidden: `[B, T, H]`.
    Returns:
        `[B, T, H]`.
    Source: ALBERT, arXiv 1909.11942, section 3.1; google-research/albert, modeling.py.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        policy = self.dtype_policy
        function = activation(config, policy)
        self.intermediate = dense(
            config.intermediate_size, config, "intermediate", policy, function
        )
        self.output_dense = dense(config.hidden_size, config, "output_dense", policy)
        self.dropout = Dropout(config.hidden_dropout_prob, dtype=policy)
        self.layer_norm = layer_norm(config, "layer_norm", policy)

    def build(self, input_shape: Any = None) -> None:
        self.intermediate.build((None, self.config.hidden_size))
        self.output_dense.build((None, self.config.intermediate_size))
        self.layer_norm.build((None, None, self.config.hidden_size))

    def call(self, hidden: Tensor, training: bool | None = None) -> Tensor:
        transformed = self.output_dense(self.intermediate(as_rows(hidden)))
        transformed = ops.reshape(transformed, ops.shape(hidden))
        return self.layer_norm(hidden + self.dropout(transformed, training=training))

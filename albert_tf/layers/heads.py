"""What stands on the encoder: the pooler and the task heads."""

from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.common import dense


def pooler(config: AlbertConfig, dtype: Any) -> keras.layers.Dense:
    """Tanh of an affine map of the first token's `[B, H]`, as BERT's."""
    layer = dense(config.hidden_size, config, "pooler", dtype)
    layer.activation = ops.tanh
    return layer


class ClassificationHead(keras.layers.Layer):
    """Dropout, then an affine map of the pooled output to one logit a class.

    Call arguments:
        pooled: `[B, H]`.
    Returns:
        `[B, num_labels]`, float32 under half precision.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = config
        self.dropout = keras.layers.Dropout(config.classifier_dropout_prob, dtype=self.dtype_policy)
        self.classifier = dense(config.num_labels, config, "classifier", self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.classifier.build((None, self.config.hidden_size))

    def call(self, pooled: Any, training: bool | None = None) -> Any:
        logits = self.classifier(self.dropout(pooled, training=training))
        return ops.cast(logits, keras.backend.result_type(logits.dtype, "float32"))

"""What every layer of the model shares: initializer, normalization, activations, dropout."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import keras
from keras import ops

from albert_tf.config import AlbertConfig

# Hugging Face's names: "gelu" is the exact form, "gelu_new" the tanh approximation.
ACTIVATION_FUNCTIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "gelu": lambda x: ops.gelu(x, approximate=False),
    "gelu_new": lambda x: ops.gelu(x, approximate=True),
    "relu": ops.relu,
    "silu": ops.silu,
    "swish": ops.silu,
    "tanh": ops.tanh,
}


def initializer(config: AlbertConfig) -> keras.initializers.Initializer:
    """Truncated normal with the configuration's standard deviation, as the original."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def dense(units: int, config: AlbertConfig, name: str, dtype: Any) -> keras.layers.Dense:
    """An affine map of the last axis to `units`."""
    return keras.layers.Dense(units, kernel_initializer=initializer(config), name=name, dtype=dtype)


def layer_norm(config: AlbertConfig, name: str, dtype: Any) -> keras.layers.LayerNormalization:
    """Layer norm of the last axis; Keras computes it in float32 under half precision."""
    return keras.layers.LayerNormalization(epsilon=config.layer_norm_eps, name=name, dtype=dtype)

"""Activations and layer norm that keep only their inputs for the backward pass, to save memory.

Automatic differentiation keeps every array that a gradient uses: five arrays for the tanh
approximation of GELU. In training, the custom gradients in this file store one array and recompute
the others.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.common import Tensor

Elementwise: TypeAlias = Callable[[Tensor], Tensor]

CUBIC: Final = 0.044715  # in the tanh approximation of GELU; Hendrycks and Gimpel, arXiv 1606.08415


def _from_input(function: Elementwise, derivative: Elementwise) -> Elementwise:
    """Returns `function` with a custom gradient, which applies `derivative` to the input.

    The two functions must not share operations, because TensorFlow would merge these and keep the
    results for the backward pass.
    """

    @ops.custom_gradient
    def call(x: Tensor) -> tuple[Tensor, Elementwise]:
        def gradient(upstream: Tensor) -> Tensor:
            return ops.cast(_wide(upstream) * derivative(_wide(x)), x.dtype)

        return function(x), gradient

    return call


def _wide(x: Tensor) -> Tensor:
    """Casts half-precision values to float32."""
    return ops.cast(x, keras.backend.result_type(x.dtype, "float32"))


def _gelu(x: Tensor) -> Tensor:
    """Computes x·Φ(x) without Erfc, which `ops.gelu` uses but tf2onnx doesn't support."""
    return 0.5 * x * (1.0 + ops.erf(x * 0.5**0.5))


def _gelu_derivative(x: Tensor) -> Tensor:
    """Computes Φ(x) + x·φ(x)."""
    density = ops.exp(-0.5 * ops.square(x)) / math.sqrt(2.0 * math.pi)
    return 0.5 * ops.erfc(x * -(0.5**0.5)) + x * density


def _gelu_new(x: Tensor) -> Tensor:
    return ops.gelu(x, approximate=True)


def _gelu_new_derivative(x: Tensor) -> Tensor:
    """Computes σ·(1 + x·(1-σ)·z'), the derivative of x·σ(z) with z = √(8/π)·(x + 0.044715·x³).

    Including the upstream gradient, this form takes 13 ops. A form with 15 ops takes 20% more time.
    """
    scale, square = math.sqrt(8.0 / math.pi), ops.square(x)
    gate = ops.sigmoid(x * (scale + scale * CUBIC * square))
    return gate * (1.0 + (1.0 - gate) * x * (scale + 3.0 * scale * CUBIC * square))


# Keyed by Hugging Face's names: "gelu" is exact, "gelu_new" is the tanh approximation.
ACTIVATION_FUNCTIONS: Final[Mapping[str, Elementwise]] = {
    "gelu": _gelu,
    "gelu_new": _gelu_new,
    "relu": ops.relu,
    "silu": ops.silu,
    "swish": ops.silu,
    "tanh": ops.tanh,
}
_IN_TRAINING: Final[Mapping[str, Elementwise]] = {
    "gelu": _from_input(_gelu, _gelu_derivative),
    "gelu_new": _from_input(_gelu_new, _gelu_new_derivative),
}


def _use_custom_gradient(training: bool | None) -> bool:
    """Returns whether to use the custom gradients. Torch's own kernels already save this memory."""
    return bool(training) and keras.backend.backend() != "torch"


class Activation(keras.layers.Layer):
    """An activation function with a custom gradient in training.

    Args:
        function: a key of `ACTIVATION_FUNCTIONS`.
    """

    def __init__(self, function: str, **kwargs: Any):
        super().__init__(**kwargs)
        self.function = function

    def call(self, x: Tensor, training: bool | None = None) -> Tensor:
        function = ACTIVATION_FUNCTIONS[self.function]
        if _use_custom_gradient(training):
            function = _IN_TRAINING.get(self.function, function)
        return function(x)


@keras.saving.register_keras_serializable("albert_tf")
class LayerNorm(keras.layers.LayerNormalization):
    """Layer norm over the last axis, with float32 statistics even in half precision.

    Source: arXiv 1607.06450.
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if not _use_custom_gradient(training):
            return inference_layer_norm(inputs, self.gamma, self.beta, self.epsilon)
        # Copies, because TensorFlow doesn't allow variables in functions with custom gradients.
        normalized = ops.custom_gradient(self._normalized)
        return normalized(inputs, ops.copy(self.gamma), ops.copy(self.beta))

    def _normalized(self, x: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Any]:
        """Returns the result and its gradient function."""

        def gradient(upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            upstream, wide = _wide(upstream), _wide(x)
            mean, variance = ops.moments(wide, -1, keepdims=True)
            inverse = ops.rsqrt(variance + self.epsilon)
            normalized = (wide - mean) * inverse
            scaled = upstream * _wide(gamma)
            of_mean = ops.mean(scaled, -1, keepdims=True)
            of_variance = normalized * ops.mean(scaled * normalized, -1, keepdims=True)
            rows = tuple(range(len(x.shape) - 1))
            return (
                ops.cast(inverse * (scaled - of_mean - of_variance), x.dtype),
                ops.cast(ops.sum(upstream * normalized, rows), gamma.dtype),
                ops.cast(ops.sum(upstream, rows), beta.dtype),
            )

        return ops.layer_normalization(x, gamma, beta, self.axis, self.epsilon), gradient


def inference_layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    """Normalizes the last axis with the ops that are fastest for inference.

    In TensorFlow graphs for CPUs, bfloat16 rows are normalized by a batch norm op that treats each
    row as a channel. If the number of rows is unknown, TensorFlow's graph optimizer replaces this
    pattern (`FindMklLayerNorm` in `remapper.cc`) with oneDNN's layer norm. The replacement also
    uses float32 statistics and takes a fifth of the time (benchmarks/NOTES.md).
    """
    is_static = None not in x.shape[:-1]
    if keras.backend.standardize_dtype(x.dtype) != "bfloat16" or is_static or not _uses_only_cpus():
        return ops.layer_normalization(x, gamma, beta, -1, epsilon)
    import tensorflow as tf

    width = x.shape[-1]
    rows = tf.reshape(tf.size(x) // width, (1,))
    empty = tf.constant([])
    normalized, *_ = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(x, (1, -1, width, 1)),
        scale=tf.fill(rows, 1.0),
        offset=tf.fill(rows, 0.0),
        mean=empty,
        variance=empty,
        epsilon=epsilon,
        data_format="NCHW",
        is_training=True,  # compute the statistics from `x`
    )
    # The graph optimizer sorts an op's inputs by name, and `Reshape` must come before `gamma`.
    gamma, beta = tf.cast(gamma, x.dtype, "gamma"), tf.cast(beta, x.dtype, "beta")
    return tf.reshape(normalized, tf.shape(x)) * gamma + beta


def _uses_only_cpus() -> bool:
    """Returns whether the backend is TensorFlow and all its devices are CPUs."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return all(device.device_type == "CPU" for device in tf.config.list_logical_devices())


def activation(config: AlbertConfig, dtype: Any) -> Elementwise:
    """Returns the model's activation function, for `keras.layers.Dense`."""
    # A method, because Keras doesn't quantize a `Dense` layer that contains another layer.
    return Activation(config.hidden_act, dtype=dtype).__call__


def layer_norm(config: AlbertConfig, name: str, dtype: Any) -> LayerNorm:
    """Returns a layer norm with the model's epsilon."""
    return LayerNorm(epsilon=config.layer_norm_eps, name=name, dtype=dtype)

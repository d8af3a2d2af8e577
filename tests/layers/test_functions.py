"""Gradients are compared with differences of NumPy's values in float64."""

import functools
import math

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.layers.functions import ACTIVATION_FUNCTIONS, Activation, layer_norm

STEP = 1e-5
POINTS = np.linspace(-9.0, 9.0, 361)
FORMULAS = {
    "gelu": lambda x: x * np.vectorize(math.erfc)(-x / 2**0.5) / 2,
    # Hendrycks and Gimpel, arXiv 1606.08415.
    "gelu_new": lambda x: x * (1 + np.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2,
    "silu": lambda x: x / (1 + np.exp(-x)),
}

of_ours = pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="on torch gradients are torch's own"
)


def gradients(function, *arrays):
    """Returns the gradients of the sum of `function(*arrays)`."""
    tensors = [ops.convert_to_tensor(array) for array in arrays]
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(tensors)
            total = ops.sum(function(*tensors))
        return tape.gradient(total, tensors)
    if keras.backend.backend() == "torch":
        tensors = [tensor.clone().requires_grad_() for tensor in tensors]
        ops.sum(function(*tensors)).backward()
        return [tensor.grad for tensor in tensors]
    import jax

    places = tuple(range(len(tensors)))
    return jax.grad(lambda *tensors: ops.sum(function(*tensors)), places)(*tensors)


def slopes(function, x):
    """Returns the derivative of an elementwise NumPy function at float64 `x`."""
    return (function(x + STEP) - function(x - STEP)) / (2 * STEP)


@pytest.mark.parametrize(
    ("name", "value"),
    [("gelu", 0.8413447), ("gelu_new", 0.8411920), ("relu", 1), ("silu", 0.7310586)],
)
def test_activations_at_one(name, value):
    """The exact gelu is the normal distribution's integral; BERT's is an approximation of it."""
    assert float(ACTIVATION_FUNCTIONS[name](ops.ones(()))) == pytest.approx(value, abs=2e-6)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", FORMULAS)
def test_gradients_of_activations(name, training):
    activation = functools.partial(Activation(name), training=training)
    (found,) = gradients(activation, POINTS.astype("float32"))
    expected = slopes(FORMULAS[name], POINTS)
    tolerance = 2e-6 if training else 5e-6  # automatic differentiation reads a saturated tanh
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected, atol=tolerance)


@of_ours
@pytest.mark.parametrize("name", ["gelu", "gelu_new"])
def test_gradients_of_gelu_are_rounded_once_to_half_precision(name):
    points = ops.convert_to_tensor(POINTS.astype("float32"), "bfloat16")
    activation = functools.partial(Activation(name, dtype="bfloat16"), training=True)
    (found,) = gradients(activation, points)
    assert keras.backend.standardize_dtype(found.dtype) == "bfloat16"
    points, found = (ops.convert_to_numpy(ops.cast(each, "float32")) for each in (points, found))
    expected = slopes(FORMULAS[name], points.astype("float64"))
    np.testing.assert_allclose(found, expected, rtol=2**-8, atol=1e-5)


@of_ours
@pytest.mark.parametrize("training", [False, True])
def test_gradients_of_layer_norm(small_config, training):
    generator, shape = np.random.default_rng(1), (2, 3, 5)
    weights = generator.standard_normal(shape).astype("float32")
    arrays = (generator.normal(2.0, 3.0, shape), *generator.normal(1.0, 0.5, (2, 5)))
    layer = layer_norm(small_config, "norm", "float32")
    layer.build(shape)

    def weighted(x, gamma, beta):
        return layer.stateless_call([gamma, beta], [], x, training=training)[0] * weights

    def total(x, gamma, beta):
        deviation = np.sqrt(x.var(-1, keepdims=True) + small_config.layer_norm_eps)
        return (weights * ((x - x.mean(-1, keepdims=True)) / deviation * gamma + beta)).sum()

    found = gradients(weighted, *(array.astype("float32") for array in arrays))
    for place, gradient in enumerate(found):
        for index in np.ndindex(arrays[place].shape):

            def moved(values, place=place, index=index):
                changed = [array.copy() for array in arrays]
                changed[place][index] = values
                return total(*changed)

            expected = slopes(moved, arrays[place][index])
            assert float(gradient[index]) == pytest.approx(expected, abs=1e-5)


@of_ours
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients_of_layer_norm_are_rounded_once_to_half_precision(small_config, dtype):
    """The weights have this type too, unlike in mixed precision."""
    generator, shape = np.random.default_rng(1), (2, 3, 5)
    arrays = [generator.normal(1.0, 2.0, each) for each in (shape, shape, (5,), (5,))]
    upstream, *given = (ops.cast(array.astype("float32"), dtype) for array in arrays)
    found = {}
    for kind in (dtype, "float32"):
        layer = layer_norm(small_config, "norm", kind)
        layer.build(shape)

        def weighted(x, gamma, beta, layer=layer, kind=kind):
            values = layer.stateless_call([gamma, beta], [], x, training=True)[0]
            return values * ops.cast(upstream, kind)

        found[kind] = gradients(weighted, *(ops.cast(each, kind) for each in given))
    for half, single in zip(found[dtype], found["float32"], strict=True):
        assert keras.backend.standardize_dtype(half.dtype) == dtype
        expected = ops.cast(ops.cast(single, dtype), "float32")
        half = ops.convert_to_numpy(ops.cast(half, "float32"))
        np.testing.assert_array_equal(half, ops.convert_to_numpy(expected))


@pytest.mark.tensorflow
@pytest.mark.parametrize("shape", [(7, 24), (2, 3, 24), (2, 3, 5, 24), (0, 3, 24)])
@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_layer_norm_of_bfloat16_in_graphs(small_config, shape, scale):
    """Statistics are computed in float32, with the configuration's epsilon."""
    import tensorflow as tf

    generator = np.random.default_rng(1)
    layer = layer_norm(small_config, "norm", "bfloat16")
    layer.build(shape)
    layer.set_weights(list(generator.normal(1.0, 0.5, (2, shape[-1]))))
    unknown = tf.TensorSpec([None] * (len(shape) - 1) + [shape[-1]], tf.bfloat16)
    graph = tf.function(layer, input_signature=[unknown], autograph=False)
    operations = graph.get_concrete_function().graph.get_operations()
    assert "FusedBatchNormV3" in {operation.type for operation in operations}

    rows = tf.cast(generator.normal(1.0, 1.0, shape) * scale, tf.bfloat16)
    x, gamma, beta, found = (
        np.asarray(tf.cast(each, tf.float64))
        for each in (rows, layer.gamma, layer.beta, graph(rows))
    )
    deviation = np.sqrt(x.var(-1, keepdims=True) + small_config.layer_norm_eps)
    scaled = (x - x.mean(-1, keepdims=True)) / deviation * gamma
    # Rounded to 8 bits at most three times: before and after the product, and after the sum.
    bound = 2**-8 * (2 * np.abs(scaled) + np.abs(scaled + beta))
    assert np.all(np.abs(found - scaled - beta) <= 1.02 * bound)

"""Compares forms of self-attention: prints interleaved medians with versions.

    python benchmarks/attention.py [--hidden 768] [--heads 12] [--rounds 15]

Compares explicit products with `keras.ops.dot_product_attention`, and three products for query, key
and value with one joint product, whose weight is concatenated at each use (checkpoints have three).
The numbers are milliseconds for one layer; read the ratios. The result decides the form in
albert_tf/layers/encoder.py.
"""

import argparse
import os
import platform
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import ops

SHAPES = ((1, 128), (8, 128), (8, 512))
LAYERS = 4  # in a row, so that the call's own cost doesn't count


def three_products(x, kernels):
    return [ops.matmul(x, kernel) for kernel in kernels]


def joint_product(x, kernels):
    return ops.split(ops.matmul(x, ops.concatenate(kernels, axis=1)), 3, axis=-1)


def written_out(query, key, value, heads):
    batch, length, hidden = query.shape
    query, key, value = (
        ops.transpose(ops.reshape(part, (batch, length, heads, hidden // heads)), (0, 2, 1, 3))
        for part in (query, key, value)
    )
    scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))) * (hidden // heads) ** -0.5
    attended = ops.matmul(ops.softmax(scores), value)
    return ops.reshape(ops.transpose(attended, (0, 2, 1, 3)), (batch, length, hidden))


def dot_product_attention(query, key, value, heads):
    batch, length, hidden = query.shape
    parts = (
        ops.reshape(part, (batch, length, heads, hidden // heads)) for part in (query, key, value)
    )
    return ops.reshape(ops.dot_product_attention(*parts), (batch, length, hidden))


FORMS = {
    "three products, written out": (three_products, written_out),
    "joint product, written out": (joint_product, written_out),
    "three products, dot_product_attention": (three_products, dot_product_attention),
}


def functions(projection, attention, kernels, heads):
    """Forward, and forward with backward, each compiled."""

    def forward(x):
        for _ in range(LAYERS):
            x = x + attention(*projection(x, kernels), heads)
        return x

    @tf.function
    def backward(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(forward(x))
        return tape.gradient(loss, kernels)

    return tf.function(forward), backward


def milliseconds(function, x):
    start = time.perf_counter()
    tf.nest.map_structure(lambda tensor: tensor.numpy(), function(x))
    return 1000 * (time.perf_counter() - start) / LAYERS


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    python = platform.python_version()
    versions = f"TensorFlow {tf.__version__}, Keras {keras.__version__}, Python {python}"
    print(f"{versions}, {os.cpu_count()} cores, H={options.hidden}, A={options.heads}")
    generator = np.random.default_rng(0)
    kernels = [
        tf.Variable(0.02 * generator.standard_normal((options.hidden, options.hidden), "float32"))
        for _ in range(3)
    ]
    print(f"{'shape':>10} {'form':40} {'forward ms':>11} {'with backward ms':>17}")
    for shape in SHAPES:
        x = tf.constant(generator.standard_normal((*shape, options.hidden), "float32"))
        compiled = {name: functions(*form, kernels, options.heads) for name, form in FORMS.items()}
        times = {name: ([], []) for name in FORMS}
        for _ in range(options.rounds + 1):
            for name, pair in compiled.items():
                for function, measured in zip(pair, times[name], strict=True):
                    measured.append(milliseconds(function, x))
        for name, measured in times.items():
            forward, backward = (
                statistics.median(values[1:]) for values in measured
            )  # the first one traces
            print(f"{shape!s:>10} {name:40} {forward:11.2f} {backward:17.2f}")


if __name__ == "__main__":
    main()

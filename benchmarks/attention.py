"""Compares forms of self-attention; the result decides the form in albert_tf/layers/encoder.py.

    python -m benchmarks.attention [--hidden 768] [--heads 12] [--calls 15]

Compares explicit products with `keras.ops.dot_product_attention`, and three products for query, key
and value with one joint product, whose weight is concatenated at each use (checkpoints have three).
The numbers are milliseconds for one layer; read the ratios.
"""

from functools import partial

from benchmarks import harness

PACKAGES = ("tensorflow", "keras")
SHAPES = ((1, 128), (8, 128), (8, 512))
LAYERS = 4  # in a row, so that the call's own cost doesn't count
FORMS = (
    "three products, written out",
    "joint product, written out",
    "three products, dot_product_attention",
)


def attention(form, x, kernels, heads):
    from keras import ops

    batch, length, hidden = x.shape
    if form.startswith("joint"):
        parts = ops.split(ops.matmul(x, ops.concatenate(kernels, axis=1)), 3, axis=-1)
    else:
        parts = [ops.matmul(x, kernel) for kernel in kernels]
    parts = [ops.reshape(part, (batch, length, heads, hidden // heads)) for part in parts]
    if form.endswith("dot_product_attention"):
        return ops.reshape(ops.dot_product_attention(*parts), x.shape)
    query, key, value = (ops.transpose(part, (0, 2, 1, 3)) for part in parts)
    scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))) * (hidden // heads) ** -0.5
    attended = ops.matmul(ops.softmax(scores), value)
    return ops.reshape(ops.transpose(attended, (0, 2, 1, 3)), x.shape)


def measure(form, shape, hidden, heads, calls):
    """Returns ms of a layer: the forward pass, and with the backward pass."""
    import numpy as np
    import tensorflow as tf

    generator = np.random.default_rng(0)
    kernels = [
        tf.Variable(0.02 * generator.standard_normal((hidden, hidden), "float32")) for _ in range(3)
    ]
    x = tf.constant(generator.standard_normal((*shape, hidden), "float32"))

    @tf.function
    def forward(x):
        for _ in range(LAYERS):
            x = x + attention(form, x, kernels, heads)
        return x

    @tf.function
    def backward(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(forward(x))
        return tape.gradient(loss, kernels)

    def wait(run):
        tf.nest.map_structure(lambda tensor: tensor.numpy(), run(x))

    return [harness.timed(partial(wait, run), calls) / LAYERS for run in (forward, backward)]


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--calls", type=int, default=15)
    options = parser.parse_args()
    sizes = (options.hidden, options.heads, options.calls)
    cases = {
        (form, f"{shape[0]} × {shape[1]}"): partial(harness.fresh, measure, form, shape, *sizes)
        for shape in SHAPES
        for form in FORMS
    }
    rounds = harness.take_turns(cases, options.rounds)
    rows = harness.rows(rounds, lambda figures: [f"{ms:.2f}" for ms in figures])
    table = harness.table(["form", "shape", "forward ms", "with backward ms"], rows, 2)
    harness.report(options, PACKAGES, [table], rounds)


if __name__ == "__main__":
    main()

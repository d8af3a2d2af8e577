"""Counts and measures matmuls: a model's FLOP and time, and the rate of a large matmul."""

import time

SIDE = 2048  # size of the large matrices


def flop(config, rows, length, predicted=0):
    """Returns the FLOP of the matmuls in a forward pass, with logits at `predicted` positions."""
    tokens, hidden = rows * length, config["hidden_size"]
    layers = config["num_hidden_layers"] * config["inner_group_num"]
    block = 4 * hidden**2 + 2 * hidden * config["intermediate_size"] + 2 * length * hidden
    embedding, words = config["embedding_size"] * hidden, config["embedding_size"]
    head = embedding + words * config["vocab_size"]
    return 2 * (tokens * (embedding + layers * block) + predicted * head + rows * hidden**2)


def rate(library, side=SIDE, dtype="float32"):
    """Returns the FLOP/s of the fastest of twenty matmuls of two square matrices."""
    multiply, seconds = _square_product(library, side, dtype), []
    multiply()
    for _ in range(20):
        start = time.perf_counter()
        multiply()
        seconds.append(time.perf_counter() - start)
    return 2 * side**3 / min(seconds)


def _square_product(library, side, dtype):
    """Returns a function that multiplies two `[side, side]` matrices and waits for the result."""
    if library == "torch":
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
        matrix = torch.ones((side, side), dtype=getattr(torch, dtype), device=device)
        return lambda: float((matrix @ matrix)[0, 0])
    if library == "jax":
        import jax

        matrix = jax.numpy.ones((side, side), dtype)
        product = jax.jit(lambda a: a @ a)
        return lambda: product(matrix).block_until_ready()
    import tensorflow as tf

    matrix = tf.ones((side, side), dtype)
    return lambda: tf.matmul(matrix, matrix)[0, 0].numpy()


def of_layers(library, config):
    """Returns a function of rows `[N, H]` that computes only the layers' matmuls and biases."""
    import numpy as np

    hidden, inner = config["hidden_size"], config["intermediate_size"]
    sizes = [(hidden, hidden)] * 4 + [(hidden, inner), (inner, hidden)]
    generator = np.random.default_rng(1)
    weights = [generator.normal(0, one**-0.5, (one, two)).astype("float32") for one, two in sizes]
    biases = [np.zeros(two, "float32") for _, two in sizes]
    count = config["num_hidden_layers"]
    if library == "torch":
        import torch

        pairs = [
            (torch.from_numpy(weight.T.copy()), torch.from_numpy(bias))
            for weight, bias in zip(weights, biases, strict=True)
        ]

        @torch.inference_mode()
        def layers(rows):
            rows = torch.from_numpy(rows)
            for weight, bias in pairs * count:
                rows = torch.nn.functional.linear(rows, weight, bias)
            return rows.numpy()

        return layers
    import tensorflow as tf

    pairs = list(zip(map(tf.Variable, weights), map(tf.Variable, biases), strict=True))

    @tf.function(reduce_retracing=True)
    def graph(rows):
        for weight, bias in pairs * count:
            rows = tf.nn.bias_add(tf.matmul(rows, weight), bias)
        return rows

    return lambda rows: graph(tf.constant(rows)).numpy()

"""All layers' matrix products with their biases, for `peers.py`: in TensorFlow and in torch."""


def tensorflow_products(weights, biases, count):
    import tensorflow as tf

    pairs = [(tf.Variable(one), tf.Variable(two)) for one, two in zip(weights, biases, strict=True)]

    @tf.function(reduce_retracing=True)
    def layers(rows):
        for weight, bias in pairs * count:
            rows = tf.nn.bias_add(tf.matmul(rows, weight), bias)
        return rows

    return lambda rows: layers(tf.constant(rows)).numpy()


def torch_products(weights, biases, count):
    import torch

    pairs = [
        (torch.from_numpy(one.T.copy()), torch.from_numpy(two))
        for one, two in zip(weights, biases, strict=True)
    ]

    def layers(rows):
        rows = torch.from_numpy(rows)
        with torch.inference_mode():
            for weight, bias in pairs * count:
                rows = torch.nn.functional.linear(rows, weight, bias)
        return rows.numpy()

    return layers


PRODUCTS = {"tensorflow": tensorflow_products, "torch": torch_products}

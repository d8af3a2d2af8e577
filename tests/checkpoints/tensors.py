"""Random weights under Hugging Face's names."""

import numpy as np

from albert_tf.checkpoints import names


def draw(config, *heads):
    """Returns weights of the encoder, the pooler, and these heads in `names.HEADS`."""
    generator = np.random.default_rng(6)
    drawn = {}
    for name, shape in names.shapes(config).items():
        if name.split(".")[0] in ("embeddings", "encoder", "pooler", *heads):
            shape = [config.num_labels if size is None else size for size in shape]
            drawn[name] = generator.standard_normal(shape, "float32")
    return drawn


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        np.testing.assert_array_equal(found[name], tensor, err_msg=name)

import pytest

from albert_tf.errors import UserError
from albert_tf.training.pretraining.options import PretrainingOptions


def test_the_defaults_are_the_papers_recipe():
    options = PretrainingOptions("data", "output", size="base")
    assert (options.optimizer, options.batch_size, options.steps) == ("lamb", 4096, 125_000)
    assert (options.learning_rate, options.warmup_steps) == (0.00176, 3125)


@pytest.mark.parametrize(
    "given, message",
    [
        ({}, "begins with a size .* Received: size=None, init_checkpoint=None"),
        ({"size": "base", "init_checkpoint": "x"}, "Received: size=base, init_checkpoint=x"),
        ({"size": "base", "steps": 10, "warmup_steps": 10}, "warmup_steps=10, steps=10"),
        ({"size": "base", "batch_size": 0}, "batch_size must be above 0. Received: 0"),
        ({"size": "base", "learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"size": "base", "ema": 1.0}, r"ema must be in \(0, 1\). Received: 1.0"),
        ({"size": "base", "beta_2": 1.0}, r"beta_2 must be in \[0, 1\). Received: 1.0"),
        ({"size": "base", "keep": 0}, "keep must be above 0"),
        ({"size": "base", "dropout": 1.0}, r"dropout must be in \[0, 1\)"),
        ({"size": "base", "seed": -1}, r"seed must be in \[0, 2\*\*32\)"),
        ({"size": "base", "weight_decay": -0.1}, "weight_decay must be 0 or more"),
    ],
)
def test_what_can_not_be(given, message):
    with pytest.raises(UserError, match=message):
        PretrainingOptions("data", "output", **given)

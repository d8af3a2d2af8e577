import dataclasses

import pytest

from albert_tf.errors import UserError
from albert_tf.options import decisive, declared
from albert_tf.training.options import PretrainingOptions


def test_the_defaults_are_the_papers_recipe():
    options = PretrainingOptions("data", "output", size="base")
    assert (options.optimizer, options.batch_size, options.steps) == ("lamb", 4096, 125_000)
    assert (options.learning_rate, options.warmup_steps) == (0.00176, 3125)


@pytest.mark.parametrize(
    "given, message",
    [
        ({}, "Give --size or --init-checkpoint."),
        ({"size": "base", "init_checkpoint": "x"}, "--init-checkpoint excludes --size"),
        ({"size": "base", "steps": 10, "warmup_steps": 10}, "warmup_steps=10, steps=10"),
        ({"size": "base", "learning_rate": 0.0}, "learning_rate must be above 0. Received: 0.0"),
    ],
)
def test_invalid_options(given, message):
    with pytest.raises(UserError, match=message):
        PretrainingOptions("data", "output", **given)


def test_options_without_effect_on_the_result_may_change(tmp_path):
    options = PretrainingOptions("data", tmp_path, size="tiny")
    changes = {"save_steps": 7, "eval_data": "held-out", "eval_steps": 3}
    again = dataclasses.replace(options, output=tmp_path / "b", **changes)
    assert decisive(options) == decisive(again)
    assert declared(PretrainingOptions).keys() - decisive(options).keys() == {
        *("data", "output", "vocab", "size", "eval_data", "strategy", "jit_compile"),
        *("eval_steps", "save_steps", "force"),
    }
    for change in (
        {"seed": 1},
        {"learning_rate": 1e-4},
        {"ema": 0.9},
        {"dtype_policy": "mixed_float16"},
    ):
        assert decisive(dataclasses.replace(options, **change)) != decisive(options)

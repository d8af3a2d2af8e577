"""The options that decide a run, and values that are refused."""

import pytest

from albert_tf.errors import UserError
from albert_tf.options import decisive, declared
from albert_tf.training.options import FinetuningOptions, PretrainingOptions


def finetuning(**others):
    given = {"task": "classify", "data": "data", "model": "tiny", "output": "output"}
    return FinetuningOptions(**given | others)


@pytest.mark.parametrize("task", ["classify", "squad"])
def test_options_with_which_a_fine_tuning_may_not_resume(task):
    """Paths, intervals and devices may change, and options of other tasks don't count."""
    known, run = declared(FinetuningOptions), finetuning(task=task)
    others = {name for name, option in known.items() if not option.applies(vars(run))}
    assert ("head" in others) != ("regression" in others)
    assert known.keys() - decisive(run).keys() == others | {
        *("data", "test", "strategy", "output", "force", "vocab", "baseline", "save_steps")
    }


def test_options_with_which_a_pretraining_may_not_resume():
    known, run = declared(PretrainingOptions), PretrainingOptions("data", "output", size="tiny")
    assert known.keys() - decisive(run).keys() == {
        *("data", "output", "vocab", "size", "eval_data", "strategy", "jit_compile"),
        *("eval_steps", "save_steps", "force"),
    }


def test_the_defaults_of_pretraining_are_the_papers_recipe():
    options = PretrainingOptions("data", "output", size="base")
    assert (options.optimizer, options.batch_size, options.steps) == ("lamb", 4096, 125_000)
    assert (options.learning_rate, options.warmup_steps) == (0.00176, 3125)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Pass --size or --init-checkpoint."),
        ({"size": "base", "steps": 10, "warmup_steps": 10}, "warmup_steps=10, steps=10"),
    ],
)
def test_invalid_options_of_pretraining(given, message):
    with pytest.raises(UserError, match=message):
        PretrainingOptions("data", "output", **given)


@pytest.mark.parametrize("value", ["head", "0"])
def test_layers_that_are_no_number(value):
    with pytest.raises(UserError, match=f"freeze must be .* Received: {value}"):
        finetuning(freeze=value)

import math
import signal

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from albert_tf.errors import UserError
from albert_tf.training.interruption import Interrupted
from albert_tf.training.run import BEST, STATE

EPOCH, STEPS = 10, 30  # as the fixture has them


class Crash(Exception):
    """The process dies, as far as files are concerned."""


class At(keras.callbacks.Callback):
    """Does something after some steps, before the run goes on to the next."""

    def __init__(self, steps, act):
        super().__init__()
        self.steps_to_go, self.act = steps, act

    def on_train_batch_end(self, batch, logs=None):
        self.steps_to_go -= 1
        if self.steps_to_go == 0:
            self.act()


def crash(*_):
    raise Crash


def ask_to_stop():
    signal.raise_signal(signal.SIGINT)


def assert_same_end(found, expected):
    """Every bit of weights, seeds and optimizer, and every score.

    The training loss isn't compared: of an epoch that broke off it counts the last part alone.
    """
    for one, other in zip(found[0].variables, expected[0].variables, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=other.path)
    optimizers = (each[0].optimizer.variables for each in (found, expected))
    for one, other in zip(*optimizers, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=other.path)
    for key in ("step", "best"):
        assert found[1][key] == expected[1][key]
    scores = [
        [(row["step"], row["val_accuracy"]) for row in progress["history"]]
        for _, progress in (found, expected)
    ]
    assert scores[0] == scores[1]


def test_history_and_best(training_run, tmp_path):
    scores = iter((0.5, 0.7, 0.6))
    model, progress = training_run(tmp_path, judge=lambda _: {"matthews": next(scores), "f1": 0.1})
    assert progress["step"] == STEPS == int(model.optimizer.iterations)
    assert [row["step"] for row in progress["history"]] == [10, 20, 30]
    assert [row["val_matthews"] for row in progress["history"]] == [0.5, 0.7, 0.6]
    assert progress["best"] == {"epoch": 2, "score": 0.7, "matthews": 0.7, "f1": 0.1}
    assert 0 < progress["seconds"] < 600
    best = load_file(tmp_path / BEST / "model.safetensors")["classifier.bias"]
    assert np.abs(best - model.classifier.dense.bias.numpy()).max() > 0


def test_a_last_part_of_an_epoch(training_run, tmp_path):
    model, progress = training_run(tmp_path, steps=14)
    assert [row["step"] for row in progress["history"]] == [10, 14]
    assert int(model.optimizer.iterations) == 14


def test_a_crash_changes_nothing(training_run, undisturbed, tmp_path):
    with pytest.raises(Crash):
        training_run(tmp_path, [At(13, crash)], save_steps=4)
    with pytest.raises(Crash):  # goes on from step 12
        training_run(tmp_path, [At(12, crash)], save_steps=4)
    assert_same_end(training_run(tmp_path), undisturbed)


def test_an_interruption_saves_and_changes_nothing(training_run, undisturbed, tmp_path):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted):
        training_run(tmp_path, [At(3, ask_to_stop)])
    assert signal.getsignal(signal.SIGINT) is before
    assert (tmp_path / STATE).is_file()
    assert_same_end(training_run(tmp_path), undisturbed)


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_crash_in_an_evaluation(training_run, undisturbed, tmp_path, epoch):
    """The epoch's score counts for the best version, for patience and for the report."""
    known = [{"accuracy": row["val_accuracy"]} for row in undisturbed[1]["history"]]
    judged = iter([*known[: epoch - 1], None])
    with pytest.raises(Crash):
        training_run(tmp_path, save_steps=5, judge=lambda _: next(judged) or crash())
    assert_same_end(training_run(tmp_path), undisturbed)


@pytest.mark.parametrize("step", [EPOCH, STEPS])
def test_an_interruption_in_the_last_step_of_an_epoch(training_run, undisturbed, tmp_path, step):
    with pytest.raises(Interrupted):
        training_run(tmp_path, [At(step - 1, ask_to_stop)])
    assert_same_end(training_run(tmp_path), undisturbed)


def test_patience_counts_over_an_interruption(training_run, tmp_path):
    scores = iter((0.5, 0.4, 0.3, 0.2))
    options = {
        "judge": lambda _: {"accuracy": next(scores)},
        "patience": 2,
        "steps": 90,
        "save_steps": 4,
    }
    with pytest.raises(Crash):
        training_run(tmp_path, [At(13, crash)], **options)
    _, progress = training_run(tmp_path, **options)
    assert [row["val_accuracy"] for row in progress["history"]] == [0.5, 0.4, 0.3]


def test_other_settings(training_run, tmp_path):
    with pytest.raises(Crash):
        training_run(tmp_path, [At(5, crash)], save_steps=4)
    with pytest.raises(UserError, match="seed: 5 then, 6 now"):
        training_run(tmp_path, seed=6)


@pytest.mark.parametrize("rate", [math.nan, 1e38])
def test_a_loss_that_is_no_number_ends_the_run(training_run, tmp_path, rate):
    with pytest.raises(UserError, match="loss"):
        training_run(tmp_path, learning_rate=rate)

import json
import math
import os
import signal

import keras
import numpy as np
import pytest

from albert_tf.errors import UserError
from albert_tf.optimizers import WarmupPolynomialDecay
from albert_tf.training.loop import DIVERGED, WINDOW, Interrupted, Loop, Plan
from albert_tf.training.loss import LOSS, pretraining_means


class Saved:
    """Records the calls of checkpoints."""

    def __init__(self, folder):
        self.folder, self.steps, self.best = folder, [], []

    def save(self, model, progress):
        self.steps.append(progress["step"])
        self.progress = json.loads(json.dumps(progress))
        return self.folder / str(progress["step"])

    def save_best(self, model):
        self.best.append(len(self.steps))

    def found(self):
        return [self.folder / str(step) for step in self.steps]


class Recorder:
    """Records the calls of a reporter."""

    def __init__(self):
        self.steps, self.rates, self.saves, self.scores = [], [], [], []

    def on_step(self, step, sums, learning_rate, seconds):
        self.steps.append((step, sums[0, LOSS]))
        self.rates.append(learning_rate)

    def on_save(self, step, path):
        self.saves.append((step, path.name))

    def on_evaluation(self, step, scores):
        self.scores.append((step, scores))

    def close(self):
        self.closed = True


@pytest.fixture(scope="module")
def model():
    """Returns a stand-in with an optimizer, all that the loop reads of a model."""
    model = keras.Sequential()
    model.compile("sgd")
    return model


@pytest.fixture
def make(tmp_path, model):
    def loop(steps=23, evaluate=None, save_steps=1000, **plan):
        plan = Plan(steps, save_steps, stop_diverged=True, **plan)
        schedule = WarmupPolynomialDecay(0.1, 4, steps)
        saved = Saved(tmp_path)
        return Loop(model, plan, schedule, pretraining_means, saved, evaluate, [Recorder()])

    return loop


def sums(loss, predictions=2.0):
    return np.array([[loss * predictions, 1.0, predictions], [0.0, 0.0, 0.0]], "float32")


def run(loop, loss=lambda step: 5.0):
    loop.run(lambda step: sums(loss(step)), iter(range(loop.step + 1, 10_000)))
    return loop.reporters[0]


def test_every_step_is_reported_once_with_its_own_rate(make):
    heard = run(make(), lambda step: step / 7)
    assert [step for step, _ in heard.steps] == list(range(1, 24))
    assert [loss for _, loss in heard.steps] == [pytest.approx(2 * n / 7) for n in range(1, 24)]
    assert heard.rates[:5] == pytest.approx([0, 0.025, 0.05, 0.075, 0.1 * 19 / 23])


def test_saves_every_so_many_steps_and_at_the_end(make):
    loop = make(save_steps=10)
    heard = run(loop)
    assert loop.checkpoints.steps == [10, 20, 23]
    assert heard.saves == [(10, "10"), (20, "20"), (23, "23")]


def test_evaluates_before_it_saves(make):
    loop = make(eval_steps=9, evaluate=lambda: {"masked_lm_accuracy": 0.5}, save_steps=9)
    heard = run(loop)
    assert [step for step, _ in heard.scores] == [9, 18, 23]
    assert [point["step"] for point in loop.progress["evaluation"]] == [9, 18, 23]
    assert loop.checkpoints.steps == [9, 18, 23]


def test_a_history_of_bounded_length(make):
    loop = make(steps=2500, point_steps=3)
    run(loop, lambda step: float(step % 3))
    history = loop.progress["history"]
    assert [point["step"] for point in history] == [*range(3, 2500, 3), 2500]
    assert {point["masked_lm_loss"] for point in history} == {1.0}  # the mean of 1, 2 and 0


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_stops(make, ctrl_c_enabled, signal_number):
    loop = make()

    def update(step):
        if step == 7:
            os.kill(os.getpid(), signal_number)
        return sums(5.0)

    with pytest.raises(Interrupted):
        loop.run(update, iter(range(1, 99)))
    assert loop.step == 7 and loop.checkpoints.steps == [7]
    assert [step for step, _ in loop.reporters[0].steps] == list(range(1, 8))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_before_a_checkpoint(make, tmp_path, value):
    loop = make(save_steps=5)
    message = f"Received: {value}, at step 12. The last good checkpoint is .*10. Give a lower"
    with pytest.raises(UserError, match=message):
        run(loop, lambda step: value if step >= 12 else 5.0)
    assert loop.checkpoints.steps == [5, 10]


def test_a_loss_of_nan_before_any_checkpoint(make):
    with pytest.raises(UserError, match="at step 2. Give a lower --learning-rate.*--force.$"):
        run(make(), lambda step: math.nan if step >= 2 else 5.0)


def test_a_loss_that_diverges_stops(make):
    loop = make(steps=1000, save_steps=50)
    with pytest.raises(UserError, match=f"a mean of 7.10 over {WINDOW} steps after one of 5.00"):
        run(loop, lambda step: 5.0 if step <= 2 * WINDOW else 5.1 + DIVERGED)
    assert loop.step == 3 * WINDOW and loop.checkpoints.steps[-1] == 3 * WINDOW - 50


def test_a_loss_may_rise_a_little(make):
    loop = make(steps=5 * WINDOW)
    run(loop, lambda step: 5.0 if step <= 2 * WINDOW else 4.9 + DIVERGED)
    assert loop.step == 5 * WINDOW


def test_a_resumed_run_reports_as_an_uninterrupted_one(make):
    """Resumes from a checkpoint between two points of the history and within a window."""
    losses = {step: 5 + math.sin(step) for step in range(1, 3001)}
    whole = make(steps=2500, point_steps=3)
    run(whole, losses.get)
    first = make(steps=2500, point_steps=3)
    with pytest.raises(ZeroDivisionError):
        run(first, lambda step: losses[step] if step <= 1234 else 1 / 0)
    first._read()
    second = make(steps=2500, point_steps=3)
    second.progress = json.loads(json.dumps(first.progress))
    run(second, losses.get)
    for name in ("history", "lowest", "step", "window", "since_point"):
        assert second.progress[name] == whole.progress[name], name


def scored(*scores):
    """Returns an evaluation with these scores, and a second one that decides nothing."""
    given = iter(scores)
    return lambda: {"matthews": next(given), "f1": 0.1}


def test_the_best_version_is_the_first_with_the_highest_first_score(make):
    loop = make(steps=14, eval_steps=4, keep_best=True, evaluate=scored(0.5, 0.7, 0.7, 0.6))
    run(loop)
    assert [row["step"] for row in loop.progress["evaluation"]] == [4, 8, 12, 14]
    assert loop.progress["best"] == {"evaluation": 2, "score": 0.7, "matthews": 0.7, "f1": 0.1}
    assert loop.checkpoints.best == [0, 1]  # before the checkpoint of the same step
    assert loop.checkpoints.steps == [4, 8, 12, 14]


def test_patience_ends_a_run_and_counts_over_an_interruption(make):
    plan = {"steps": 90, "eval_steps": 10, "keep_best": True, "patience": 2}
    first = make(**plan, evaluate=scored(0.5, 0.4))
    with pytest.raises(StopIteration):
        run(first)
    second = make(**plan, evaluate=scored(0.3, 0.9))
    second.progress = first.checkpoints.progress
    run(second)
    assert second.step == 30 and second.checkpoints.steps == [30]
    again = make(**plan)
    again.progress = second.progress
    assert run(again).steps == []  # a finished run stays finished


def test_a_signal_in_the_last_step_does_not_interrupt(make, ctrl_c_enabled):
    loop = make(steps=7)

    def update(step):
        if step == 7:
            os.kill(os.getpid(), signal.SIGINT)
        return sums(5.0)

    loop.run(update, iter(range(1, 99)))
    assert loop.checkpoints.steps == [7]


def test_reporters_are_closed_whatever_happens(make):
    loop = make(steps=7)
    with pytest.raises(ZeroDivisionError):
        loop.run(lambda batch: 1 / 0, iter(range(9)))
    assert loop.reporters[0].closed


@pytest.mark.parametrize(
    ("losses", "alike", "expected"),
    [
        ([0.69, 0.69, 0.70, 0.69, 0.69], 5, "is still 0.6900 at step 120"),
        ([0.69, 0.69, 0.70, 0.69, 0.69], 4, "is still 0.6900 at step 120"),
        ([0.69, 0.69, 0.70, 0.69, 0.69], 3, None),  # predictions differ: it may begin to learn
        ([0.69, 0.65, 0.70, 0.69, 0.69], 5, None),
        ([0.69, 0.69, 0.70, 0.69, 0.69, 0.69], 0, "is still 0.6900 at step 180"),
        ([0.69, 0.69, 0.70, 0.65, 0.65, 0.65], 6, None),
        ([0.69, 0.5, 0.5, 0.5, 0.69], 0, "has risen again to 0.6900 at step 150"),
        ([0.5, 0.69], 2, None),  # at step 60
        ([0.69, 0.5, 0.65, 0.65], 4, None),
    ],
)
def test_a_loss_that_needs_no_input_ends_the_run(losses, alike, expected):
    """Has points every 30 steps of 180; nearly all predictions are alike at the first ones."""
    plan = Plan(180, 10, baseline_loss=0.69)
    history, scores, found = [], [], None
    for number, loss in enumerate(losses, start=1):
        history.append({"step": 30 * number, "loss": loss})
        scores.append({"accuracy": 0.5, **({"one_class": 1.0} if number <= alike else {})})
        found = found or plan.stop_reason(history, scores)
    assert found == expected if expected is None else expected in found

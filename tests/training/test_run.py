import signal

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from albert_tf.errors import UserError
from albert_tf.training.run import BEST, STATE, Interrupted

EPOCH, STEPS = 10, 30  # as the fixture has them


class Crash(Exception):
    """The process dies, as far as files are concerned."""


class At(keras.callbacks.Callback):
    """Does something after a step of this process."""

    def __init__(self, step, act):
        super().__init__()
        self.steps_to_go, self.act = step, act

    def on_train_batch_end(self, batch, logs=None):
        self.steps_to_go -= 1
        if self.steps_to_go == 0:
            self.act()


def crash():
    raise Crash


def ask_to_stop():
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(scope="module")
def compare():
    def same(model, other):
        for expected, found in zip(model.variables, other.variables, strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=expected.path)

    return same


def without_times(progress):
    """What must be equal; the loss of an epoch that was interrupted counts its last part alone."""
    history = [{"step": row["step"], "val": row["val_accuracy"]} for row in progress["history"]]
    return progress["step"], progress["best"], history


def test_history_and_best(training_run, tmp_path):
    scores = iter((0.5, 0.7, 0.6))
    model, progress = training_run(judge=lambda _: {"matthews": next(scores), "f1": 0.1})
    assert progress["step"] == STEPS == int(model.optimizer.iterations)
    assert [row["step"] for row in progress["history"]] == [10, 20, 30]
    assert [row["val_matthews"] for row in progress["history"]] == [0.5, 0.7, 0.6]
    assert progress["best"] == {"epoch": 2, "score": 0.7, "matthews": 0.7, "f1": 0.1}
    assert 0 < progress["seconds"] < 600
    best = load_file(tmp_path / "run" / BEST / "model.safetensors")["classifier.bias"]
    assert np.abs(best - model.head.classifier.bias.numpy()).max() > 0


def test_a_last_part_of_an_epoch(training_run):
    model, progress = training_run(steps=14)
    assert [row["step"] for row in progress["history"]] == [10, 14]
    assert int(model.optimizer.iterations) == 14


@pytest.mark.parametrize("step", [1, 13, 29])
def test_a_crash_changes_nothing(training_run, compare, step):
    whole = training_run("whole")
    with pytest.raises(Crash):
        training_run("broken", [At(step, crash)], save_steps=4)
    resumed = training_run("broken")
    compare(whole[0], resumed[0])
    assert without_times(whole[1]) == without_times(resumed[1])


@pytest.mark.parametrize("step", [1, 13])
def test_an_interruption_saves_and_changes_nothing(training_run, compare, tmp_path, step):
    whole = training_run("whole")
    with pytest.raises(Interrupted):
        training_run("stopped", [At(step, ask_to_stop)])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(Interrupted):  # and once more, three or four steps later
        training_run("stopped", [At(3, ask_to_stop)])
    assert (tmp_path / "stopped" / STATE).is_file()
    resumed = training_run("stopped")
    compare(whole[0], resumed[0])
    assert without_times(whole[1]) == without_times(resumed[1])


@pytest.mark.parametrize(
    ("save_steps", "step"),
    [(5, EPOCH), (5, STEPS), (500, EPOCH), (500, STEPS)],
    ids=["crash in an evaluation", "in the last one", "Ctrl-C at an epoch's end", "at the end"],
)
def test_an_epoch_is_judged_even_when_the_run_broke_off_at_its_end(
    training_run, compare, save_steps, step
):
    """Its score counts for the best version, for patience and for the report."""
    whole = training_run("whole")
    if save_steps == 5:
        calls = iter(range(step // EPOCH))

        def judge(model):
            last = next(calls) == step // EPOCH - 1
            return crash() if last else {"accuracy": whole[1]["history"][0]["val_accuracy"]}

        with pytest.raises(Crash):
            training_run("broken", save_steps=save_steps, judge=judge)
    else:
        # The signal comes in the step itself, before the run counts it.
        with pytest.raises(Interrupted):
            training_run("broken", [At(step - 1, ask_to_stop)], save_steps=save_steps)
    resumed = training_run("broken")
    compare(whole[0], resumed[0])
    assert without_times(whole[1])[2] == without_times(resumed[1])[2]
    assert resumed[1]["best"] is not None


def test_half_precision_resumes_exactly(training_run, compare):
    whole = training_run("whole", dtype="mixed_bfloat16")
    with pytest.raises(Crash):
        training_run("broken", [At(13, crash)], dtype="mixed_bfloat16", save_steps=4)
    compare(whole[0], training_run("broken", dtype="mixed_bfloat16")[0])


def test_patience_counts_over_an_interruption(training_run):
    scores = iter((0.5, 0.4, 0.3, 0.2))
    judge = lambda _: {"accuracy": next(scores)}  # noqa: E731
    with pytest.raises(Crash):
        training_run("broken", [At(13, crash)], judge=judge, patience=2, steps=90, save_steps=4)
    _, progress = training_run("broken", judge=judge, patience=2, steps=90)
    assert [row["val_accuracy"] for row in progress["history"]] == [0.5, 0.4, 0.3]


def test_other_settings(training_run):
    with pytest.raises(Crash):
        training_run("broken", [At(5, crash)], save_steps=4)
    with pytest.raises(UserError, match="seed: 5 then, 6 now"):
        training_run("broken", seed=6)


def test_a_loss_that_is_no_number_ends_the_run(training_run, tmp_path):
    with pytest.raises(UserError, match="loss.*learning rate"):
        training_run(learning_rate=1e38)
    assert not (tmp_path / "run" / BEST).exists()

"""The callbacks, in runs of `fit` whose losses the tests choose."""

import errno
import io
import json
import math
import os
import re
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import Interrupted, UserError
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.training import callbacks
from albert_tf.training.callbacks import (
    DIVERGED,
    WINDOW,
    Curve,
    KeepBest,
    ProgressLine,
    Resume,
)

pytestmark = pytest.mark.tensorflow


class Scripted(keras.Model):
    """A model whose loss is its input, and which learns nothing."""

    def __init__(self):
        super().__init__()
        self.unused = self.add_weight(shape=())
        self.compile("sgd")

    def call(self, inputs):
        return inputs

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return keras.ops.mean(x) + 0 * self.unused

    def save_pretrained(self, folder):
        folder.mkdir()
        (folder / "saved").write_text("")


@pytest.fixture(scope="module")
def model():
    return Scripted()


def fit(model, losses, *given, **options):
    data = tf.data.Dataset.from_tensor_slices(np.array(losses, "float32")[:, None])
    return model.fit(data, callbacks=list(given), verbose=0, **{"shuffle": False, **options})


def curve(steps, point_steps=3, **options):
    return Curve(steps, point_steps, lambda step: 0.1 * (step + 1), **options)


def test_a_point_is_the_mean_of_its_steps(model):
    drawn = curve(250)
    fit(model, [step % 3 for step in range(1, 251)], drawn)
    assert [point["step"] for point in drawn.history] == [*range(3, 250, 3), 250]
    assert [point["loss"] for point in drawn.history[:-1]] == pytest.approx([1.0] * 83)
    assert drawn.history[-1]["loss"] == 1.0
    assert drawn.history[1]["learning_rate"] == pytest.approx(0.6)


def test_other_names_of_the_means(model):
    drawn = curve(4, means=lambda found: {"loss": 2 * found["loss"]})
    fit(model, [1.0, 2.0, 3.0, 5.0], drawn)
    assert [point["loss"] for point in drawn.history] == [4.0, 10.0]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops(model, value):
    with pytest.raises(UserError, match=f"Received: {value}, at step 12. Give a lower"):
        fit(model, [5.0] * 10 + [value] * 20, curve(30))


def test_a_loss_that_diverges_stops(model):
    losses = [5.0] * 2 * WINDOW + [5.1 + DIVERGED] * 3 * WINDOW
    drawn = curve(len(losses))
    with pytest.raises(UserError, match=f"a mean of 7.10 over {WINDOW} steps after one of 5.00"):
        fit(model, losses, drawn)
    assert drawn.step == 3 * WINDOW
    fit(model, losses, curve(len(losses), stop_diverged=False))


def test_a_loss_may_rise_a_little(model):
    losses = [5.0] * 2 * WINDOW + [4.9 + DIVERGED] * 3 * WINDOW
    drawn = curve(len(losses))
    fit(model, losses, drawn)
    assert drawn.step == 5 * WINDOW


def test_a_resumed_curve_is_that_of_an_uninterrupted_run(model):
    """It ends between two points and within a window."""
    losses = [5 + math.sin(step) for step in range(350)]
    whole, first, second = (curve(350, 7) for _ in range(3))
    fit(model, losses, whole)
    fit(model, losses[:234], first)
    first.before_save()
    second.state, second.step = json.loads(json.dumps(first.state)), first.step
    fit(model, losses[234:], second)
    assert len(second.history) == len(whole.history) == 50
    for one, other in zip(second.history, whole.history, strict=True):
        assert one == pytest.approx(other, rel=1e-6)
    assert second.state["lowest"] == pytest.approx(whole.state["lowest"], rel=1e-6)


def points(folder, name):
    """Returns the points of TensorBoard by step."""
    found = []
    for path in folder.iterdir():
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.tag == name:
                    found.append((event.step, float(tf.make_ndarray(value.tensor))))
    return found


def test_points_of_tensorboard(model, tmp_path):
    drawn = curve(120, 60, folder=tmp_path)
    fit(model, [*range(120)], drawn)
    drawn.note_scores(120, {"f1": 0.25})
    assert points(tmp_path, "loss") == [(60, 29.5), (100, 79.5), (120, 109.5)]
    assert points(tmp_path, "evaluation/f1") == [(120, 0.25)]
    assert points(tmp_path, "learning_rate")[0] == (60, pytest.approx(6.0))


def test_a_full_disk_is_an_error_of_the_system(tmp_path, files_of_at_most):
    drawn = curve(10, folder=tmp_path)
    drawn.note_scores(1, {"f1": 0.5})
    with pytest.raises(OSError, match="File too large") as error, files_of_at_most(1):
        drawn.note_scores(2, {"f1": 0.5})
    assert error.value.errno == errno.EFBIG and error.value.filename == str(tmp_path)


def scored(*scores):
    """Returns an evaluation with these scores, and a second one that decides nothing."""
    given = iter(scores)
    return lambda: {"matthews": next(given), "f1": 0.1}


def test_the_best_version_is_the_first_with_the_highest_first_score(model, tmp_path, monkeypatch):
    saved, save = [], Scripted.save_pretrained

    def record(model, folder):
        saved.append(keep.step)
        save(model, folder)

    monkeypatch.setattr(Scripted, "save_pretrained", record)
    said = []
    keep = KeepBest(
        scored(0.5, 0.7, 0.7, 0.6), tmp_path / "best", 4, on_score=lambda *given: said.append(given)
    )
    fit(model, [1.0] * 14, keep)
    assert [row["step"] for row in keep.scores] == [4, 8, 12, 14] == [step for step, _ in said]
    assert keep.best == {"number": 2, "step": 8, "matthews": 0.7, "f1": 0.1}
    assert saved == [4, 8]


def test_scores_after_epochs(model, tmp_path):
    keep = KeepBest(scored(0.1, 0.3, 0.2), tmp_path / "best")
    fit(model, [1.0] * 5, keep, epochs=3)
    assert [row["step"] for row in keep.scores] == [5, 10, 15]
    assert keep.best["step"] == 10 and (tmp_path / "best" / "saved").exists()


def test_patience_ends_a_run_and_counts_over_an_interruption(model):
    first = KeepBest(scored(0.5, 0.4), None, 10, patience=2)
    with pytest.raises(StopIteration):
        fit(model, [1.0] * 90, first)
    second = KeepBest(scored(0.3, 0.9), None, 10, patience=2)
    second.state = {**first.state, "scores": first.scores[:2]}
    second.step = 20
    fit(model, [1.0] * 70, second)
    assert second.step == 30 and second.is_late


@pytest.fixture
def make(small_features):
    """Returns a model with dropout, and a dataset whose order is a pure function of the epoch."""

    def classifier(seed=1):
        keras.utils.set_random_seed(seed)
        model = AlbertForSequenceClassification(
            AlbertConfig.from_size("tiny", num_hidden_layers=1, vocab_size=31, num_labels=2)
        )
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9))
        return model

    generator = np.random.default_rng(2)
    ids = generator.integers(5, 31, (12, 2, 7)).astype("int32")
    labels = generator.integers(0, 2, (12, 2)).astype("int32")

    def batches(start=0):
        return tf.data.Dataset.from_tensor_slices((ids[start:], labels[start:]))

    return classifier, batches


def run(model, data, resume, *others, steps=12):
    options = {"steps_per_epoch": steps - resume.step, "shuffle": False, "verbose": 0}
    model.fit(data(resume.step), callbacks=[*others, resume], **options)


def weights(model):
    variables = [*model.weights, *model.optimizer.variables]
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_same_program_goes_on(make, tmp_path, ctrl_c_enabled, number):
    classifier, batches = make
    whole = classifier()
    run(whole, batches, Resume(tmp_path / "whole", save_steps=2, keep=9), steps=5)
    names = [path.name for path in sorted((tmp_path / "whole").iterdir())]
    assert names == ["step-00000002", "step-00000004", "step-00000005"]

    def interrupt(batch, logs):
        if batch == 2:
            os.kill(os.getpid(), number)

    model, folder = classifier(), tmp_path / "run"
    stopper = keras.callbacks.LambdaCallback(on_train_batch_end=interrupt)
    with pytest.raises(Interrupted, match="newest checkpoint is .*step-00000003"):
        run(model, batches, Resume(folder, save_steps=2), stopper, steps=5)
    assert signal.getsignal(number) is not None
    model, resume = classifier(seed=2), Resume(folder, save_steps=2)
    assert resume.step == 3
    run(model, batches, resume, steps=5)
    for one, other in zip(weights(model), weights(whole), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("without_graphs")
def test_a_run_by_epochs_goes_on_after_the_last_one(tiny_tokenizer, tmp_path):
    """The order of texts is that of the epoch; a crash in mid-epoch loses its start."""
    texts = [f"{word} film {number}" for number in range(4) for word in ("good", "bad")]
    labels, folder = [1, 0] * 4, tmp_path / "run"

    def train(folder, *others):
        keras.utils.set_random_seed(3)
        sizes = {"vocab_size": len(tiny_tokenizer), "num_hidden_layers": 1}
        model = AlbertForSequenceClassification(
            AlbertConfig.from_size("tiny", **sizes, num_labels=2)
        )
        model.tokenizer = tiny_tokenizer
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9))
        resume = Resume(folder)
        options = {"epochs": 2, "initial_epoch": resume.epoch, "batch_size": 4, "verbose": 0}
        model.fit(texts, labels, callbacks=[*others, resume], **options)
        return model

    def crash(batch, logs):
        crash.steps += 1
        if crash.steps == 3:
            raise InterruptedError

    crash.steps = 0
    whole = train(tmp_path / "whole")
    with pytest.raises(InterruptedError):
        train(folder, keras.callbacks.LambdaCallback(on_train_batch_end=crash))
    assert Resume(folder).epoch == 1
    for one, other in zip(weights(train(folder)), weights(whole), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("without_graphs")
def test_a_fit_that_begins_with_another_epoch(make, tmp_path):
    classifier, batches = make
    model = classifier()
    model.fit(batches(), callbacks=[Resume(tmp_path)], shuffle=False, verbose=0)
    with pytest.raises(UserError, match="has 1 epochs of this run. .*initial_epoch=resume.epoch"):
        model.fit(batches(), callbacks=[Resume(tmp_path)], shuffle=False, verbose=0)


@pytest.mark.usefixtures("without_graphs")
def test_other_callbacks_states_are_saved(make, tmp_path):
    classifier, batches = make
    keep = KeepBest(scored(0.5, 0.4, 0.3, 0.2, 0.1), None, 3)
    run(classifier(), batches, Resume(tmp_path, save_steps=4, others=[keep]), keep)
    again = KeepBest(scored(), None, 3)
    resume = Resume(tmp_path, save_steps=4, others=[again])
    assert again.state == keep.state and again.step == resume.step == 12
    assert [path.name for path in resume.found()] == ["step-00000012"]
    with pytest.raises(UserError, match="seed was nothing, is 3"):
        Resume(tmp_path, settings={"seed": 3})


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Returns a clock that the test sets; the terminal is wide."""
    monkeypatch.setenv("COLUMNS", "200")
    now = [1000.0]
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: now[0])
    return now


def shown(model, stream, clock, losses, total, step=0):
    line = ProgressLine("training", total, step, stream=stream)
    line.set_model(model)
    with line:
        for batch, loss in enumerate(losses):
            clock[0] += 1.0
            line.on_train_batch_end(batch, {"loss": loss, "accuracy": 0.5})
    return stream.getvalue()


def test_a_terminal_shows_a_bar(model, clock):
    last = shown(model, Terminal(), clock, [6.0, 4.0], 1500, step=1498).split("\r")[-1]
    bar = r"training: 100%\|.*\| 1500/1500 \[.*step.*, 00:00 left, loss 4\.000, accuracy 50\.0%\] *"
    assert re.fullmatch(bar + "\n", last)


def test_a_file_gets_a_line_at_intervals_and_at_the_end(model, clock):
    first, second, third = shown(
        model, io.StringIO(), clock, [float(step) for step in range(1, 42)], 400
    ).splitlines()
    assert first.startswith("training:   0% 1/400 [")
    assert first.endswith(", ? left, loss 1.000, accuracy 50.0%]")
    assert second.startswith("training:   8% 31/400 [") and "loss 31.000" in second
    assert third.startswith("training:  10% 41/400 [") and "loss 41.000" in third

"""The callbacks, in runs of `fit` whose losses the tests choose."""

import errno
import io
import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.training import curve as curves
from albert_tf.training.callbacks import KeepBest
from albert_tf.training.curve import DIVERGED, Curve, ProgressLine

pytestmark = pytest.mark.tensorflow
WINDOW = 10


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
        (folder / "config.json").write_text(str(int(self.optimizer.iterations)))


@pytest.fixture(scope="module")
def model():
    return Scripted()


@pytest.fixture
def short_window(monkeypatch):
    monkeypatch.setattr(curves, "WINDOW", WINDOW)


def fit(model, losses, *given, **options):
    data = tf.data.Dataset.from_tensor_slices(np.array(losses, "float32")[:, None])
    return model.fit(data, callbacks=list(given), verbose=0, **{"shuffle": False, **options})


def curve(steps, point_steps=3, **options):
    return Curve(steps, point_steps, lambda step: 0.1 * (step + 1), **options)


@pytest.mark.usefixtures("short_window")
def test_a_point_is_the_mean_of_its_steps(model):
    drawn = curve(25)
    fit(model, [step % 3 for step in range(1, 26)], drawn)
    assert [point["step"] for point in drawn.history] == [*range(3, 25, 3), 25]
    assert [point["loss"] for point in drawn.history] == pytest.approx([1.0] * 9)
    assert drawn.history[1]["learning_rate"] == pytest.approx(0.6)
    renamed = curve(4, means=lambda found: {"loss": 2 * found["loss"]})
    fit(model, [1.0, 2.0, 3.0, 5.0], renamed)
    assert [point["loss"] for point in renamed.history] == [4.0, 10.0]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops(model, value):
    with pytest.raises(UserError, match=f"loss is {value} at step 12"):
        fit(model, [5.0] * 10 + [value] * 20, curve(30))


@pytest.mark.usefixtures("short_window")
def test_a_loss_that_diverges_stops(model):
    losses = [5.0] * 2 * WINDOW + [5.1 + DIVERGED] * 3 * WINDOW
    drawn = curve(len(losses))
    with pytest.raises(UserError, match=f"over {WINDOW} steps rose from 5.00 to 7.10"):
        fit(model, losses, drawn)
    assert drawn.step == 3 * WINDOW
    fit(model, losses, curve(len(losses), stop_diverged=False))
    rises_a_little = [5.0] * 2 * WINDOW + [4.9 + DIVERGED] * WINDOW
    fit(model, rises_a_little, curve(len(rises_a_little)))


@pytest.mark.usefixtures("short_window")
def test_a_resumed_curve_is_that_of_an_uninterrupted_run(model):
    """It ends between two points and within a window."""
    losses = [5 + math.sin(step) for step in range(35)]
    whole, first, second = (curve(35, 7) for _ in range(3))
    fit(model, losses, whole)
    fit(model, losses[:24], first)
    first.before_save()
    second.state, second.step = json.loads(json.dumps(first.state)), first.step
    fit(model, losses[24:], second)
    assert len(second.history) == len(whole.history) == 5
    for one, other in zip(second.history, whole.history, strict=True):
        assert one == pytest.approx(other, rel=1e-6)
    assert second.state["lowest"] == pytest.approx(whole.state["lowest"], rel=1e-6)


def test_points_of_tensorboard(model, tmp_path):
    drawn = curve(120, 60, folder=tmp_path)
    fit(model, [*range(120)], drawn)
    drawn.note_scores(120, {"f1": 0.25})
    points = {
        (value.tag, event.step): float(tf.make_ndarray(value.tensor))
        for path in tmp_path.iterdir()
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    losses = {step: value for (tag, step), value in points.items() if tag == "loss"}
    assert losses == {60: 29.5, 100: 79.5, 120: 109.5}
    assert points["evaluation/f1", 120] == 0.25
    assert points["learning_rate", 60] == pytest.approx(6.0)


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


def test_the_best_version_is_the_first_with_the_highest_first_score(tmp_path):
    said = []
    scores = scored(0.5, 0.7, 0.7, 0.6)
    keep = KeepBest(scores, tmp_path / "best", 4, on_score=lambda *given: said.append(given))
    fit(Scripted(), [1.0] * 14, keep)
    assert [row["step"] for row in keep.scores] == [4, 8, 12, 14] == [step for step, _ in said]
    assert keep.best == {"number": 2, "step": 8, "matthews": 0.7, "f1": 0.1}
    assert (tmp_path / "best" / "config.json").read_text() == "8"


@pytest.mark.parametrize("scores", [{"loss": 0.3, "mae": 0.2}, {"val_loss": 0.3}, {}])
def test_the_highest_loss_is_not_the_best(model, tmp_path, scores):
    """The scores could be those of `model.evaluate(…, return_dict=True)`."""
    for options in ({"folder": tmp_path / "best"}, {"folder": None, "patience": 2}):
        message = f"higher value of the first.*{', '.join(scores) or 'no scores'}"
        with pytest.raises(UserError, match=message):
            fit(model, [1.0] * 5, KeepBest(lambda: scores, **options))
    if scores:
        fit(model, [1.0] * 5, KeepBest(lambda: scores, None, 2))


def test_a_score_that_is_no_number_is_not_the_best(model):
    keep = KeepBest(scored(float("nan"), 0.5, 0.4, float("nan")), None, 2)
    fit(model, [1.0] * 8, keep)
    assert keep.best["matthews"] == 0.5


def test_of_equal_scores_the_one_with_the_lowest_loss_is_the_best(model):
    given = iter([(0.9, 0.1), (1.0, 0.4), (1.0, 0.1), (1.0, 0.2), (0.8, 0.0)])
    keep = KeepBest(lambda: dict(zip(("accuracy", "val_loss"), next(given), strict=True)), None, 1)
    fit(model, [1.0] * 5, keep)
    assert keep.best == {"number": 3, "step": 3, "accuracy": 1.0, "val_loss": 0.1}


def test_a_first_score_with_another_name(model):
    given = iter([{"f1": 0.5, "loss": 1.0}, {"loss": 0.4, "f1": 0.6}])
    with pytest.raises(UserError, match="Received: loss, f1; earlier: f1, loss"):
        fit(model, [1.0] * 5, KeepBest(lambda: next(given), None, 1))


def test_patience_starts_again_in_each_fit(model):
    keep = KeepBest(scored(0.5, 0.4, 0.3, 0.2, 0.1, 0.6, 0.1), None, patience=2)
    assert len(fit(model, [1.0], keep, epochs=9).epoch) == 3
    assert len(fit(model, [1.0], keep, epochs=4).epoch) == 2
    assert len(fit(model, [1.0], keep, epochs=2).epoch) == 2
    assert keep.best["matthews"] == 0.6


def test_scores_after_epochs(model, tmp_path):
    keep = KeepBest(scored(0.1, 0.3, 0.2), tmp_path / "best")
    fit(model, [1.0] * 5, keep, epochs=3)
    assert [row["step"] for row in keep.scores] == [5, 10, 15]
    assert keep.best["step"] == 10 and (tmp_path / "best" / "config.json").exists()


def test_the_best_version_replaces_only_a_model_directory(model, tmp_path):
    for name in ("config.json", "README.md"):
        (tmp_path / name).write_text("mine")
    with pytest.raises(UserError, match=r"contains README.md, which is not part"):
        fit(model, [1.0] * 5, KeepBest(scored(0.1), tmp_path))


def test_a_model_that_has_no_format_is_not_kept(tmp_path):
    functional = keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1)])
    functional.compile("sgd", "mse")
    data = np.ones([4, 1])
    with pytest.raises(UserError, match="Sequential model .*ModelCheckpoint"):
        functional.fit(data, data, callbacks=[KeepBest(scored(0.1), tmp_path)], verbose=0)
    functional.fit(data, data, callbacks=[KeepBest(scored(0.1), None)], verbose=0)


def test_progress_is_shown_at_intervals_and_at_the_end(model, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    clock, stream = [1000.0], io.StringIO()
    monkeypatch.setattr(curves.time, "monotonic", lambda: clock[0])
    with ProgressLine("training", 400, stream=stream) as line:
        line.set_model(model)
        for step in range(1, 42):
            clock[0] += 1.0
            line.on_train_batch_end(step, {"loss": float(step), "accuracy": 0.5})
    first, second, third = stream.getvalue().splitlines()
    assert first.startswith("training:   0% 1/400 [")
    assert first.endswith(", ? left, loss 1.000, accuracy 50.0%]")
    assert second.startswith("training:   8% 31/400 [") and "loss 31.000" in second
    assert third.startswith("training:  10% 41/400 [") and "loss 41.000" in third

"""Callbacks of the commands: the learning curve and a progress line."""

import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final

import keras
from tqdm import tqdm

from albert_tf.errors import UserError
from albert_tf.files import tensorflow_errors
from albert_tf.progress import SECONDS_A_LINE, bar, in_words
from albert_tf.training.checkpoints import Scores, StepCallback

SECONDS_ON_A_TERMINAL: Final = 5.0  # between metric updates; the bar moves every step
WINDOW: Final = 100  # steps over which the loss is averaged to detect divergence
DIVERGED: Final = 2.0  # increase over the lowest such mean, in nats, that ends a run


class Diverged(UserError):
    """Raised if the loss is not finite or diverges."""


class Curve(StepCallback):
    """Records the learning curve and ends a run whose loss is not finite or diverges.

    It resets the metrics whenever it records them, so that `fit` shows means over recent steps.

    Args:
        steps: total number of steps in the run.
        point_steps: number of steps between two points of the history.
        learning_rate: function that returns the learning rate at a 0-based step.
        means: function that converts metrics to the values to record, which must include `loss`.
        folder: folder for TensorBoard event files, or None to write none.
        stop_diverged: whether to end the run if the mean loss exceeds its minimum by `DIVERGED`.

    Attributes:
        history: the points, each with `step`, `learning_rate`, and the means since the last point.
    """

    def __init__(
        self,
        steps: int,
        point_steps: int,
        learning_rate: Callable[[int], Any],
        means: Callable[[Scores], Scores] = dict,
        folder: Path | None = None,
        stop_diverged: bool = True,
    ):
        super().__init__()
        self.steps, self.point_steps, self.learning_rate = steps, point_steps, learning_rate
        self.means, self.folder, self.stop_diverged = means, folder, stop_diverged
        self.state = {"history": [], "point": {}, "window": {}, "lowest": None}
        self._noted = 0  # last step whose metrics are recorded
        self._writer: Any = None

    @property
    def history(self) -> list[dict[str, float]]:
        return self.state["history"]

    def on_train_begin(self, logs: Scores | None = None) -> None:
        self._noted = self.step

    def is_due(self, before: int) -> bool:
        return any(self.passed(every, before) for every in (WINDOW, self.point_steps, self.steps))

    def act(self) -> None:
        self.before_save()
        if self.step % self.point_steps == 0 or self.step == self.steps:
            self.history.append(
                {"step": self.step, "learning_rate": self._rate(), **_mean(self.state["point"])}
            )
            self.state["point"] = {}
        if self.step % WINDOW == 0:
            mean, lowest = _mean(self.state["window"])["loss"], self.state["lowest"]
            if self.stop_diverged and lowest is not None and mean > lowest + DIVERGED:
                raise self._failure(
                    f"The mean loss over {WINDOW} steps rose from {lowest:.2f} to {mean:.2f}"
                )
            self.state |= {"window": {}, "lowest": mean if lowest is None else min(lowest, mean)}

    def before_save(self) -> None:
        """Records the metrics of the steps so far, because checkpoints don't contain metrics."""
        steps = self.step - self._noted
        if not steps:
            return
        found = {name: float(value) for name, value in self.model.get_metrics_result().items()}
        means = self.means(found)
        if not math.isfinite(means["loss"]):
            raise self._failure(f"The loss is {means['loss']}")
        for part in ("point", "window"):
            _add(self.state[part], means, steps)
        self.model.reset_metrics()
        self._noted = self.step
        self._note(self.step, {**means, "learning_rate": self._rate()})

    def note_scores(self, step: int, scores: Scores) -> None:
        """If a folder is set, prints held-out scores and writes them for TensorBoard."""
        if self.folder is None:
            return
        self._note(step, {f"evaluation/{name}": value for name, value in scores.items()})
        tqdm.write(f"step {step:,}, held out: {in_words(scores)}", file=sys.stderr)

    def _note(self, step: int, values: Scores) -> None:
        if self.folder is None:
            return
        import tensorflow as tf  # available on every backend, because tf.data reads the examples

        with tensorflow_errors(self.folder):
            self._writer = self._writer or tf.summary.create_file_writer(str(self.folder))
            with self._writer.as_default(step=step):
                for name, value in values.items():
                    tf.summary.scalar(name, value)
            self._writer.flush()

    def _rate(self) -> float:
        return float(self.learning_rate(self.step - 1))

    def _failure(self, text: str) -> Diverged:
        return Diverged(
            f"{text} at step {self.step}. Use a lower learning rate or a longer warm-up."
        )


class ProgressLine(keras.callbacks.Callback):
    """Shows the progress of `fit` while its context is open, and its metrics every few seconds.

    Args:
        name: label of the bar.
        total_steps, means: see `steps` and `means` in `Curve`.
        step: number of steps already trained.
        stream: stream to write to. Default: standard error.
    """

    def __init__(
        self,
        name: str,
        total_steps: int,
        step: int = 0,
        means: Callable[[Scores], Scores] = dict,
        stream: IO[str] | None = None,
    ):
        super().__init__()
        self._stream, self._means = stream or sys.stderr, means
        # smoothing=0 shows the mean speed, so a long evaluation doesn't distort the time estimate.
        self._bar = bar(self._stream, name, total_steps, unit="step", initial=step, smoothing=0)
        self._compiling = True
        self._next = time.monotonic()  # shows the metrics of the first step immediately

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *_: object) -> None:
        if not self._compiling:
            self._show()
        self._bar.close()

    def on_train_batch_end(self, batch: int, logs: Scores | None = None) -> None:
        self._logs: Scores = logs or {}
        self._bar.update(self.model.steps_per_execution)
        if self._compiling:  # the slow first step would distort the time estimate
            self._bar.initial = self._bar.n
            self._bar.unpause()
            self._compiling = False
        if time.monotonic() >= self._next:
            self._show()

    def _show(self) -> None:
        terminal = self._stream.isatty()
        self._next = time.monotonic() + (SECONDS_ON_A_TERMINAL if terminal else SECONDS_A_LINE)
        self._bar.set_postfix_str(in_words(self._means(self._logs)), refresh=terminal)
        if not terminal:
            print(self._bar, file=self._stream, flush=True)


def _add(sums: dict[str, float], means: Scores, steps: int) -> None:
    for name, value in {**means, "steps": 1.0}.items():
        sums[name] = sums.get(name, 0.0) + value * steps


def _mean(sums: Mapping[str, float]) -> dict[str, float]:
    return {name: value / sums["steps"] for name, value in sums.items() if name != "steps"}

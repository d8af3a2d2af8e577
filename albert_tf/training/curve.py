"""Callbacks of the commands: the learning curve, and a progress line."""

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

SECONDS_ON_A_TERMINAL: Final = 5.0  # between new metrics; the bar itself moves with each step
WINDOW: Final = 100  # steps whose mean loss shows whether a run diverges
DIVERGED: Final = 2.0  # nats above the lowest such mean


class Diverged(UserError):
    """The loss is no number, or rises."""


class Curve(StepCallback):
    """Means of the metrics, window after window; stops a run whose loss is no number or rises.

    Between two windows it resets the metrics, so that `fit` shows the means of the current one.

    Args:
        steps: of the whole run.
        point_steps: steps of a point of the history.
        learning_rate: by the number of a step, from 0.
        means: turns metrics into those that are noted, with `loss` among them.
        folder: of TensorBoard's event files; None for none, as on all hosts but the first.
        stop_diverged: whether a loss that rises by `DIVERGED` ends the run.

    Attributes:
        history: the points: `step`, `learning_rate` and means since the point before.
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
        self._noted = 0  # step up to which the metrics are noted
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
                    f"The loss must not rise. Received: a mean of {mean:.2f} over {WINDOW} steps "
                    f"after one of {lowest:.2f}"
                )
            self.state |= {"window": {}, "lowest": mean if lowest is None else min(lowest, mean)}

    def before_save(self) -> None:
        """Adds the steps so far to the point and the window, since metrics aren't saved."""
        steps = self.step - self._noted
        if not steps:
            return
        found = {name: float(value) for name, value in self.model.get_metrics_result().items()}
        means = self.means(found)
        if not math.isfinite(means["loss"]):
            raise self._failure(f"The loss must be a number. Received: {means['loss']}")
        for part in ("point", "window"):
            _add(self.state[part], means, steps)
        self.model.reset_metrics()
        self._noted = self.step
        self._note(self.step, {**means, "learning_rate": self._rate()})

    def note_scores(self, step: int, scores: Scores) -> None:
        """Writes held-out scores for TensorBoard, and says them, where there is a folder."""
        if self.folder is None:
            return
        self._note(step, {f"evaluation/{name}": value for name, value in scores.items()})
        tqdm.write(f"step {step:,}, held out: {in_words(scores)}", file=sys.stderr)

    def _note(self, step: int, values: Scores) -> None:
        if self.folder is None:
            return
        import tensorflow as tf  # on other backends too: it reads the examples anyway

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
            f"{text}, at step {self.step}. Give a lower learning rate or a longer warm-up."
        )


class ProgressLine(keras.callbacks.Callback):
    """Shows the progress of `fit`, and its metrics now and then, while its context is open.

    Args:
        name: label of the bar.
        total_steps: number of steps of the whole run.
        step: number of steps trained before.
        means: as for `Curve`.
        stream: where to show it; default: standard error.
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
        # The mean speed: a long evaluation doesn't distort the time left.
        self._bar = bar(self._stream, name, total_steps, unit="step", initial=step, smoothing=0)
        self._compiling = True
        self._next = time.monotonic()  # the first step shows that all is well

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *_: object) -> None:
        if not self._compiling:
            self._show()
        self._bar.close()

    def on_train_batch_end(self, batch: int, logs: Scores | None = None) -> None:
        self._logs: Scores = logs or {}
        self._bar.update(self.model.steps_per_execution)
        if self._compiling:  # the first step's time would distort the time left
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

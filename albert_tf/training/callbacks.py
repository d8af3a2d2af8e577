"""Callbacks for long runs of `fit`: `Resume`, `KeepBest`, `Curve` and `ProgressLine`.

They count steps, so that their work may be due in mid-epoch: an epoch of `fit` can be a whole run.
"""

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import keras
from tqdm import tqdm

from albert_tf.errors import Interrupted, UserError
from albert_tf.files import check_free, tensorflow_errors, user_path
from albert_tf.outputs import MODEL
from albert_tf.progress import SECONDS_A_LINE, bar, in_words
from albert_tf.training.checkpoints import (
    load_state,
    read_state,
    remove_folder,
    save_state,
    steps_in,
    written_through,
)

SECONDS_ON_A_TERMINAL: Final = 5.0  # between new metrics; the bar itself moves with each step
WINDOW: Final = 100  # steps whose mean loss shows whether a run diverges
DIVERGED: Final = 2.0  # nats above the lowest such mean

Scores = Mapping[str, float]


class Diverged(UserError):
    """The loss is no number, or rises."""


class StepCallback(keras.callbacks.Callback):
    """A callback that counts the steps of a run.

    Attributes:
        step: steps trained so far, those before an interruption included.
        state: what a resumed run needs of it, as JSON.
    """

    def __init__(self) -> None:
        super().__init__()
        self.step = 0
        self.state: dict[str, Any] = {}

    def on_train_batch_end(self, batch: int, logs: Scores | None = None) -> None:
        self.step += self.model.steps_per_execution
        if self.is_due():
            if keras.backend.backend() == "jax":
                self.model.jax_state_sync()
            self.act()

    def is_due(self) -> bool:
        """Whether to act after this step."""
        raise NotImplementedError

    def act(self) -> None:
        """Does the work that is due."""
        raise NotImplementedError

    def before_save(self) -> None:
        """Brings `state` up to date."""


class Resume(StepCallback):
    """Saves a run of `fit`, so that the same program, started again, ends with the same weights.

    A checkpoint is a model directory, with the optimizer's state and the seeds of dropout beside
    the weights. SIGINT and SIGTERM end the run after the current step; a second one ends it at
    once.

    Without `save_steps` it saves after each epoch; the program gives `fit` an
    `initial_epoch=resume.epoch`, and so it does to the dataset functions of `albert_tf.data`. With
    it, it saves after so many steps and when a signal comes; the program gives `fit` batches from
    number `resume.step` on.

    Args:
        folder: of the checkpoints.
        save_steps: steps from one checkpoint to the next; None for an epoch.
        keep: checkpoints that stay.
        settings: JSON; a run resumes only with those that it began with.
        others: callbacks that have a `state`, which is saved too. They come first in `fit`'s list.
        host: number of this process, from 0, and of all that train together; the first one saves.
    Attributes:
        epoch: epochs trained before.
        seconds: that the run took so far.
    Raises:
        UserError: the newest checkpoint is damaged, or was saved with other settings.

    Example:
        >>> from albert_tf import AlbertForSequenceClassification, Resume
        >>> model = AlbertForSequenceClassification.from_pretrained("small", num_labels=2)
        >>> model.compile()
        >>> resume = Resume("run")
        >>> options = {"epochs": 2, "initial_epoch": resume.epoch, "verbose": 0}
        >>> history = model.fit(["Great.", "Dull."], [1, 0], callbacks=[resume], **options)
        >>> Resume("run").epoch
        2
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        save_steps: int | None = None,
        *,
        keep: int = 1,
        settings: Mapping[str, Any] | None = None,
        others: Sequence[StepCallback] = (),
        host: tuple[int, int] = (0, 1),
    ):
        super().__init__()
        self.folder, self.save_steps, self.keep = user_path(folder), save_steps, keep
        self.settings, self.others, self.host = settings or {}, others, host
        self.epoch, self.seconds = 0, 0.0
        self._tensors: Any = None
        self._stop = threading.Event()
        saved = self.found()
        if saved:
            self._tensors, progress = read_state(saved[-1], self.settings)
            self.step, self.epoch = progress["step"], progress["epoch"]
            self.seconds = progress["seconds"]
            states = progress["states"]
            if len(states) != len(others):
                raise UserError(
                    "A run resumes with as many `others` as it began with. Received: "
                    f"{len(others)}; {saved[-1]} has {len(states)}. Give them all, or another "
                    "folder."
                )
            for other, state in zip(others, states, strict=True):
                other.state.update(state)
        for other in others:
            other.step = self.step

    def found(self) -> list[Path]:
        """Returns the checkpoints, oldest first."""
        return steps_in(self.folder)

    def load(self) -> None:
        """Restores the compiled model; `fit` does it, unless it is done before."""
        if self._tensors is not None:
            load_state(self.found()[-1], self.model, self._tensors)
            self._tensors = None

    def on_train_begin(self, logs: Scores | None = None) -> None:
        if any(getattr(layer, "lora_enabled", False) for layer in self.model._flatten_layers()):
            raise UserError(
                "Resume saves ALBERT's own weights. Received: a model with adapters (LoRA). Give "
                "fit keras.callbacks.BackupAndRestore instead."
            )
        self.load()
        self._begun = time.monotonic() - self.seconds
        before: dict[int, Any] = {}

        def stop(number: int, frame: Any) -> None:
            self._stop.set()
            self._restore_signals()

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(number, stop)
        self._before = before

    def _restore_signals(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def is_due(self) -> bool:
        by_steps = self.save_steps is not None and self.step % self.save_steps == 0
        return by_steps or self._stop.is_set()

    def act(self) -> None:
        if self.save_steps is not None:
            self.save()
        if self._stop.is_set():
            newest = self.found()[-1:]
            raise Interrupted(
                f"Interrupted; the newest checkpoint is {newest[0]}."
                if newest
                else "Interrupted before the first checkpoint."
            )

    def on_epoch_begin(self, epoch: int, logs: Scores | None = None) -> None:
        if self.save_steps is None and epoch != self.epoch:
            raise UserError(
                f"{self.folder} has {self.epoch} epochs of this run. Received: a fit that begins "
                f"with epoch {epoch}. Give it initial_epoch=resume.epoch."
            )

    def on_epoch_end(self, epoch: int, logs: Scores | None = None) -> None:
        self.epoch = epoch + 1
        if self.save_steps is None:
            self.save()

    def on_train_end(self, logs: Scores | None = None) -> None:
        self._restore_signals()
        if self.save_steps is not None:
            self.save()

    def save(self) -> None:
        """Writes a checkpoint, then removes the oldest ones."""
        if not self._stop.is_set() or self.host[1] == 1:  # metrics are read by all hosts at once
            for other in self.others:
                other.before_save()
        self.seconds = time.monotonic() - self._begun
        if self.host[0] > 0:
            return
        progress = {
            "step": self.step,
            "epoch": self.epoch,
            "seconds": self.seconds,
            "states": [other.state for other in self.others],
        }
        path = self.folder / f"step-{self.step:08d}"
        with written_through(path) as folder:
            self.model.save_pretrained(folder)
            save_state(folder, self.model, self.settings, progress)
        for old in self.found()[: -self.keep]:
            remove_folder(old)


class KeepBest(StepCallback):
    """Scores the model while it trains, and saves the version with the highest first score.

    Give it to `Resume(others=[keep])` too; otherwise a resumed run forgets its best score, and the
    next one replaces the saved model.

    Args:
        score: returns the scores by name, the first of which decides. In mid-epoch `model.evaluate`
            would put its metrics in the place of those that `fit` shows; `predict` doesn't.
        folder: the model directory to write, which replaces one with the same files; None to save
            none.
        steps: training steps from one score to the next; None for an epoch. The end of `fit` has
            one, too.
        patience: scores without a better one before the run ends.
        on_score: receives the step and its scores.

    Attributes:
        scores: each with its `step`.
        best: the best one, with its `number` from 1.

    Example:
        >>> from albert_tf import AlbertForSequenceClassification, KeepBest
        >>> texts, labels = ["Great.", "Dull."], [1, 0]
        >>> model = AlbertForSequenceClassification.from_pretrained("small", num_labels=2)
        >>> model.compile(metrics=["accuracy"])
        >>> score = lambda: {"accuracy": model.evaluate(texts, labels, verbose=0)[1]}
        >>> keep = KeepBest(score, "best")
        >>> history = model.fit(texts, labels, callbacks=[keep], verbose=0)
        >>> keep.best["step"]
        1
    """

    def __init__(
        self,
        score: Callable[[], Scores],
        folder: str | os.PathLike[str] | None,
        steps: int | None = None,
        *,
        patience: int | None = None,
        on_score: Callable[[int, Scores], None] = lambda step, scores: None,
    ):
        super().__init__()
        self.score, self.steps = score, steps
        self.folder = None if folder is None else user_path(folder)
        self.patience, self.on_score = patience, on_score
        self.state = {"scores": [], "best": None}

    @property
    def scores(self) -> list[dict[str, float]]:
        return self.state["scores"]

    @property
    def best(self) -> dict[str, float] | None:
        return self.state["best"]

    def on_train_begin(self, logs: Scores | None = None) -> None:
        if self.folder is not None and self.best is None:
            check_free(self.folder, True, MODEL)

    @property
    def is_late(self) -> bool:
        """Whether the last `patience` scores were no better."""
        late = self.best and len(self.scores) - self.best["number"]
        return bool(self.patience and late and late >= self.patience)

    def is_due(self) -> bool:
        return self.steps is not None and self.step % self.steps == 0

    def on_epoch_end(self, epoch: int, logs: Scores | None = None) -> None:
        if self.steps is None:
            self.act()

    def on_train_end(self, logs: Scores | None = None) -> None:
        if not self.scores or self.scores[-1]["step"] != self.step:
            self.act()

    def act(self) -> None:
        found = dict(self.score())
        self.scores.append({"step": self.step, **found})
        leading, best = next(iter(found)), self.best
        if best is None or math.isnan(best[leading]) or found[leading] > best[leading]:
            self.state["best"] = {"number": len(self.scores), "step": self.step, **found}
            if self.folder is not None:
                with written_through(self.folder) as folder:
                    self.model.save_pretrained(folder)
        self.on_score(self.step, found)
        if self.is_late:
            self.model.stop_training = True


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

    def is_due(self) -> bool:
        return any(not self.step % every for every in (WINDOW, self.point_steps, self.steps))

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

"""Checkpoints of a run of `fit`, from which the same program continues after an interruption."""

import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np

from albert_tf.errors import Interrupted, UserError
from albert_tf.files import require_same
from albert_tf.models.fitting import FitCallback
from albert_tf.training.checkpoints import (
    load_state,
    read_state,
    remove_folder,
    save_state,
    steps_in,
    written_through,
)

Scores = Mapping[str, float]
# Attributes of Keras callbacks that a resumed run needs.
_STATES: Final[Mapping[type, tuple[str, ...]]] = {
    keras.callbacks.EarlyStopping: (
        *("wait", "best", "best_epoch", "stopped_epoch"),
        "best_weights",
    ),
    keras.callbacks.ModelCheckpoint: ("best",),
    keras.callbacks.ReduceLROnPlateau: ("wait", "best", "cooldown_counter"),
}


class StepCallback(keras.callbacks.Callback):
    """A callback that counts the steps of a run.

    Attributes:
        step: number of steps trained so far, including those before an interruption.
        position: number of steps of the current epoch that were trained before an interruption.
        state: what a resumed run needs of this callback, as JSON.
    """

    def __init__(self) -> None:
        super().__init__()
        self.step = self.position = 0
        self.state: dict[str, Any] = {}
        self._epoch_start = 0  # steps before the current epoch

    def on_epoch_begin(self, epoch: int, logs: Scores | None = None) -> None:
        self._epoch_start, self.position = self.step - self.position, 0

    def on_train_batch_end(self, batch: int, logs: Scores | None = None) -> None:
        # With steps_per_execution Keras's `batch` can lie beyond the end of the epoch.
        done = min(batch + 1, self.params.get("steps") or batch + 1)
        before, self.step = self.step, max(self.step, self._epoch_start + done)
        if self.is_due(before):
            if keras.backend.backend() == "jax":
                self.model.jax_state_sync()
            self.act()

    def passed(self, every: int | None, before: int) -> bool:
        """Whether a multiple of `every` steps was reached after step `before`."""
        return every is not None and self.step // every > before // every

    def is_due(self, before: int) -> bool:
        """Whether to act now, after step `before` and the following ones."""
        raise NotImplementedError

    def act(self) -> None:
        """Does the work that is due."""
        raise NotImplementedError

    def before_save(self) -> None:
        """Brings `state` up to date."""


class Saver(StepCallback, FitCallback):
    """Saves a run's checkpoints; restores the newest one.

    A checkpoint is a model directory that also contains the optimizer's state, the dropout seeds,
    and the states of other callbacks. SIGINT and SIGTERM end the run after the current step; a
    second signal ends it at once.

    Args:
        folder: folder of the checkpoints.
        save_steps: number of steps between checkpoints; None for one per epoch.
        keep: number of checkpoints that are kept.
        settings: JSON; a run continues only with the settings it was started with.
        others: callbacks whose state is saved as well.
        host: rank of this process (from 0), and the number of processes that train together; rank 0
            saves.
        way_out: what to do about a checkpoint that can't be used, for messages.
    Attributes:
        epoch: number of epochs trained before.
        seconds: time that the run has taken so far.
    Raises:
        UserError: the newest checkpoint is damaged.
    """

    def __init__(
        self,
        folder: Path,
        save_steps: int | None,
        *,
        keep: int = 1,
        settings: Mapping[str, Any] | None = None,
        others: Sequence[keras.callbacks.Callback] = (),
        host: tuple[int, int] = (0, 1),
        way_out: str = "Start again with force=True.",
    ):
        super().__init__()
        self.folder, self.save_steps, self.keep = folder, save_steps, keep
        self.settings, self.host, self.way_out = dict(settings or {}), host, way_out
        self.others = list(others)
        self.epoch, self.seconds = 0, 0.0
        self.progress: dict[str, Any]
        self._tensors: dict[str, np.ndarray]
        self._stop = threading.Event()
        self._handlers: dict[int, Any] = {}
        self._started = time.monotonic()
        self.read()

    @property
    def is_finished(self) -> bool:
        """Whether the newest checkpoint was written at the end of the run."""
        return bool(self.progress.get("is_finished"))

    def read(self) -> None:
        """Reads the newest checkpoint; without one the run begins anew."""
        self._tensors, self.progress = {}, {}
        if found := self.found():
            self._tensors, self.progress = read_state(found[-1], self.way_out)
        self.step, self.epoch, self.seconds = (
            self.progress.get(name, 0) for name in ("step", "epoch", "seconds")
        )

    def found(self) -> list[Path]:
        """Returns the checkpoints, oldest first."""
        return steps_in(self.folder)

    def load(self) -> None:
        """Restores the compiled model and the other callbacks, if there is a checkpoint.

        Raises:
            UserError: the run was started with other settings or callbacks, or belongs to another
                model.
        """
        for other in self.others:
            if isinstance(other, StepCallback):
                other.step = self.step
        if not self.progress:
            return
        require_same(self.folder, self.progress["settings"], self.settings, self.way_out)
        load_state(self.found()[-1], self.model, self._tensors, self.way_out)
        names = [type(other).__name__ for other in self.others]
        if names != [name for name, _ in self.progress["states"]]:
            before = ", ".join(name for name, _ in self.progress["states"]) or "none"
            raise UserError(
                f"A run continues with the callbacks it was started with: {before}. "
                f"Received: {', '.join(names) or 'none'}. {self.way_out}"
            )
        for number, (other, (_, state)) in enumerate(
            zip(self.others, self.progress["states"], strict=True)
        ):
            _restore(other, state, self._tensors, number)
        self._tensors = {}

    def on_train_begin(self, logs: Scores | None = None) -> None:
        if any(getattr(layer, "lora_enabled", False) for layer in self.model._flatten_layers()):
            raise UserError(
                "Resume saves ALBERT's own weights, but the model has adapters (LoRA). Use "
                "keras.callbacks.BackupAndRestore instead."
            )
        self._started = time.monotonic() - self.seconds

        def stop(number: int, frame: Any) -> None:
            self._stop.set()
            self._restore_handlers()

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, stop)

    def end_fit(self) -> None:
        self._restore_handlers()

    def _restore_handlers(self) -> None:
        while self._handlers:
            signal.signal(*self._handlers.popitem())

    def is_due(self, before: int) -> bool:
        return self.passed(self.save_steps, before) or self._stop.is_set()

    def act(self) -> None:
        if self.save_steps is not None:
            self.save()
        self.stop_if_interrupted()

    def stop_if_interrupted(self) -> None:
        """Raises `Interrupted` after a signal."""
        if self._stop.is_set():
            newest = self.found()[-1:]
            raise Interrupted(
                f"Interrupted; the newest checkpoint is {newest[0]}."
                if newest
                else "Interrupted before the first checkpoint."
            )

    def on_train_end(self, logs: Scores | None = None) -> None:
        if not self.is_finished:
            self.save(is_finished=True)

    def save(self, is_finished: bool = False, **progress: Any) -> None:
        """Writes a checkpoint, then removes the oldest ones."""
        if keras.backend.backend() == "jax":
            self.model.jax_state_sync()
        if not self._stop.is_set() or self.host[1] == 1:  # metrics are read by all hosts at once
            for other in self.others:
                if isinstance(other, StepCallback):
                    other.before_save()
        self.seconds = time.monotonic() - self._started
        if self.host[0] > 0:
            return
        states: list[tuple[str, dict[str, Any]]] = []
        tensors: dict[str, np.ndarray] = {}
        for number, other in enumerate(self.others):
            state, arrays = _state(other, number)
            states.append((type(other).__name__, state))
            tensors |= arrays
        progress |= {
            "step": self.step,
            "epoch": self.epoch,
            "seconds": self.seconds,
            "states": states,
            "is_finished": is_finished,
        }
        with written_through(self.folder / f"step-{self.step:08d}") as folder:
            self.model.save_pretrained(folder)
            save_state(folder, self.model, self.settings, progress, tensors)
        for old in self.found()[: -self.keep]:
            remove_folder(old)


def has_state(callback: keras.callbacks.Callback) -> bool:
    """Whether a checkpoint contains a state of the callback."""
    return bool(_names(callback))


def _names(callback: keras.callbacks.Callback) -> Sequence[str]:
    """Returns the attributes that a checkpoint contains of a callback."""
    if isinstance(callback, StepCallback):
        return () if isinstance(callback, Saver) else ("state",)
    return next((names for kind, names in _STATES.items() if isinstance(callback, kind)), ())


def _state(
    callback: keras.callbacks.Callback, number: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns a callback's state: values as JSON, and arrays by name."""
    values: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for name in _names(callback):
        value = getattr(callback, name)
        if name == "best_weights":
            arrays |= {
                f"callback-{number}-{index:05d}": array for index, array in enumerate(value or ())
            }
        else:
            values[name] = value.item() if isinstance(value, np.generic) else value
    return values, arrays


def _restore(
    callback: keras.callbacks.Callback,
    values: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    number: int,
) -> None:
    for name, value in values.items():
        if isinstance(callback, StepCallback):
            callback.state.update(value)
        else:
            setattr(callback, name, value)
    prefix = f"callback-{number}-"
    if arrays := [tensors[name] for name in sorted(tensors) if name.startswith(prefix)]:
        callback.best_weights = arrays

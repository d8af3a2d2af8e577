"""The checkpoints of a run: what they contain, when they are written, and how a run resumes.

A checkpoint is a model directory that also contains a state file: the optimizer's variables, the
dropout seeds, the settings and the progress of the run, and the states of its callbacks.
"""

import json
import os
import shutil
import signal
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np
from keras import ops

from albert_tf.checkpoints import finder, names, weights
from albert_tf.checkpoints.weight_files import read_tensors, write_tensors
from albert_tf.errors import Interrupted, UserError
from albert_tf.files import require_same, written_atomically
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.fitting import FitCallback
from albert_tf.optimizers import inner
from albert_tf.outputs import STEP, VERSION

STATE: Final = "state.safetensors"
_SETTINGS: Final = "settings"
_PROGRESS: Final = "progress"
_CHECKSUM: Final = "checksum"
Scores = Mapping[str, float]
# Attributes of Keras callbacks that a checkpoint contains. They are JSON, except for the arrays.
_ARRAYS: Final = "best_weights"
_STATES: Final[Mapping[type, tuple[str, ...]]] = {
    keras.callbacks.EarlyStopping: ("wait", "best", "best_epoch", "stopped_epoch", _ARRAYS),
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
    """Saves the checkpoints of a run, and restores the newest one.

    SIGINT and SIGTERM end the run after the current step; a second signal ends it at once.

    Args:
        folder: folder of the checkpoints.
        save_steps: number of steps between checkpoints; None for one per epoch.
        keep: number of checkpoints that are kept.
        settings: JSON; a run continues only with the settings it was started with.
        others: callbacks whose states are also saved.
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
        """Reads the newest checkpoint, if there is one."""
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
        for number, (_, state) in enumerate(self.progress["states"]):
            names = sorted(name for name in self._tensors if name.startswith(f"{number}-"))
            if names:
                state[_ARRAYS] = [self._tensors[name] for name in names]
            for name, value in state.items():
                setattr(self.others[number], name, value)
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
            state = {name: getattr(other, name) for name in state_names(other)}
            for index, array in enumerate(state.pop(_ARRAYS, None) or ()):
                tensors[f"{number}-{index:05d}"] = array
            states.append((type(other).__name__, state))
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


def state_names(callback: keras.callbacks.Callback) -> Sequence[str]:
    """Returns the attributes of a callback that a checkpoint contains; none for most callbacks."""
    if isinstance(callback, StepCallback):
        return () if isinstance(callback, Saver) else ("state",)
    return next((names for kind, names in _STATES.items() if isinstance(callback, kind)), ())


def save_state(
    folder: Path,
    model: PreTrainedModel,
    settings: Mapping[str, Any],
    progress: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Writes the state file of a checkpoint, whose folder must contain the model's weights.

    Args:
        folder: a model directory. The file isn't written atomically.
        model: a compiled model.
        settings: JSON, compared when the run is resumed.
        progress: JSON.
        tensors: arrays of the progress; their names aren't numbers.
    """
    variables = _variables(model)
    arrays = {name: ops.convert_to_numpy(variable) for name, variable in variables.items()}
    arrays |= tensors or {}
    described = {
        _SETTINGS: json.dumps(settings),
        _PROGRESS: json.dumps(progress, default=lambda scalar: scalar.item()),  # of NumPy
    }
    described[_CHECKSUM] = _checksum(folder, arrays, described)
    write_tensors(folder / STATE, arrays, described)


def read_state(folder: Path, way_out: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Returns the tensors and the progress in the state file of a checkpoint.

    Args:
        folder: the checkpoint.
        way_out: what to do about a damaged checkpoint, for messages.
    Raises:
        UserError: the file, or the weights in the folder, are damaged.
    """
    path = folder / STATE
    try:
        tensors, saved = read_tensors(path)
        if saved.pop(_CHECKSUM, None) != _checksum(folder, tensors, saved):
            raise UserError("") from ValueError("its checksum has changed")
    except UserError as error:
        raise UserError(
            f"The checkpoint {folder} is incomplete or damaged: {error.__cause__}. {way_out}"
        ) from error
    return tensors, {**json.loads(saved[_PROGRESS]), _SETTINGS: json.loads(saved[_SETTINGS])}


def load_state(
    folder: Path, model: PreTrainedModel, tensors: Mapping[str, np.ndarray], way_out: str
) -> None:
    """Restores a compiled model from a checkpoint and the tensors of `read_state`.

    Raises:
        UserError: the checkpoint belongs to another model.
    """
    variables = _variables(model)
    if variables.keys() != {name for name in tensors if name.isdigit()}:
        raise UserError(f"{folder} belongs to another model or Keras version. {way_out}")
    stored = finder.find(folder).read()
    weights.assign(model, stored.tensors, stored.origin)
    for name, variable in variables.items():
        variable.assign(tensors[name])


def _checksum(folder: Path, tensors: Mapping[str, Any], described: Mapping[str, str]) -> str:
    """Returns a checksum of the content of a state file and of the weights in its folder."""
    total = zlib.crc32(json.dumps(described, sort_keys=True).encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name]).reshape(-1)
        total = zlib.crc32(array.view("uint8").data, total)
    for path in sorted(folder.glob("*.safetensors")):
        if path.name != STATE:
            total = zlib.crc32(path.read_bytes(), total)
    return str(total)


def _variables(model: PreTrainedModel) -> dict[str, Any]:
    """Returns the variables of the model and its optimizer by number.

    It leaves out metrics and the weights that `save_pretrained` writes.
    """
    optimizer = model.optimizer
    if not optimizer.built:  # a built loss scaler would build itself again
        optimizer.build(model.trainable_variables)
    all_of_them = [*model.variables, *optimizer.variables, *inner(optimizer).variables]
    elsewhere = [
        *model.metrics_variables,
        *(weight.variable for weight in names.weights(model).values()),
    ]
    left_out = {id(variable) for variable in elsewhere}
    unique = {id(variable): variable for variable in all_of_them if id(variable) not in left_out}
    return {f"{number:05d}": variable for number, variable in enumerate(unique.values())}


def steps_in(folder: Path) -> list[Path]:
    """Returns the checkpoints in a folder, oldest first."""
    return sorted(folder.glob(STEP))


@contextmanager
def written_through(folder: Path) -> Iterator[Path]:
    """Yields a new folder, which then replaces an earlier version; safe against power failures."""
    with written_atomically(folder, force=True, own=VERSION) as new:
        yield new
        for path in new.rglob("*"):
            if path.is_file():
                with path.open("r+b") as file:  # Windows flushes no file that was opened to read
                    os.fsync(file.fileno())


def remove_folder(folder: Path) -> None:
    """Removes a folder if it exists. A kill at any moment leaves it whole or absent."""
    shutil.rmtree(trash_path(folder), ignore_errors=True)
    if folder.exists():
        folder.rename(trash_path(folder))
        shutil.rmtree(trash_path(folder))


def trash_path(folder: Path) -> Path:
    """Returns the temporary path that a folder is moved to before it is deleted."""
    return folder.with_name(f".{folder.name}.removed")

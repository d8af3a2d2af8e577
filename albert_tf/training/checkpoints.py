"""The checkpoints of a run: what they contain, when they are written, and how a run resumes.

A checkpoint is a model directory with an additional state file, which contains the optimizer's
variables, the dropout seeds, the run's settings and progress, and the states of the callbacks.
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
# Keras callback attributes to save, all JSON except for `_ARRAYS`.
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
        position: number of steps of the current epoch trained before an interruption.
        state: JSON that this callback needs to resume.
    """

    def __init__(self) -> None:
        super().__init__()
        self.step = self.position = 0
        self.state: dict[str, Any] = {}
        self._epoch_start = 0  # number of steps before the current epoch

    def on_epoch_begin(self, epoch: int, logs: Scores | None = None) -> None:
        self._epoch_start, self.position = self.step - self.position, 0

    def on_train_batch_end(self, batch: int, logs: Scores | None = None) -> None:
        # With steps_per_execution, Keras's `batch` can exceed the steps of the epoch.
        done = min(batch + 1, self.params.get("steps") or batch + 1)
        before, self.step = self.step, max(self.step, self._epoch_start + done)
        if self.is_due(before):
            if keras.backend.backend() == "jax":
                self.model.jax_state_sync()
            self.act()

    def passed(self, every: int | None, before: int) -> bool:
        """Returns whether the steps after `before` include a multiple of `every`."""
        return every is not None and self.step // every > before // every

    def is_due(self, before: int) -> bool:
        """Returns whether to call `act` now; `before` is the step before this batch."""
        raise NotImplementedError

    def act(self) -> None:
        """Does this callback's work."""
        raise NotImplementedError

    def before_save(self) -> None:
        """Updates `state` before it is saved."""


class Saver(StepCallback, FitCallback):
    """Saves the checkpoints of a run and restores the newest one; see `callbacks.Resume`.

    Args:
        others: callbacks whose states are also saved.
        host: rank of this process, and the number of processes that train together. Rank 0 saves.
        way_out: what to do if a checkpoint can't be used, for error messages.
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
        """Whether the newest checkpoint belongs to a finished run."""
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
            UserError: if the run was started with different settings or callbacks, or for a
                different model.
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
                f"A run must resume with the callbacks it was started with: {before}. "
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
                "Resume doesn't save the LoRA weights of this model. Use "
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
        """Raises `Interrupted` if a signal was received."""
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
        """Writes a checkpoint, then removes all but the newest `keep`."""
        if keras.backend.backend() == "jax":
            self.model.jax_state_sync()
        if not self._stop.is_set() or self.host[1] == 1:  # all hosts must read the metrics together
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
    """Returns the names of a callback's attributes to save; most callbacks have none."""
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
    """Writes the state file into a checkpoint that already contains the weights.

    `settings` and `progress` are JSON. The names of `tensors` must not be numbers.
    """
    variables = _variables(model)
    arrays = {name: ops.convert_to_numpy(variable) for name, variable in variables.items()}
    arrays |= tensors or {}
    metadata = {
        _SETTINGS: json.dumps(settings),
        _PROGRESS: json.dumps(progress, default=lambda scalar: scalar.item()),  # NumPy scalars
    }
    metadata[_CHECKSUM] = _checksum(folder, arrays, metadata)
    write_tensors(folder / STATE, arrays, metadata)


def read_state(folder: Path, way_out: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Returns the tensors and the progress from the state file of a checkpoint.

    Raises:
        UserError: if the state file or the weights in the folder are damaged.
    """
    path = folder / STATE
    try:
        tensors, saved = read_tensors(path)
        if saved.pop(_CHECKSUM, None) != _checksum(folder, tensors, saved):
            raise UserError("") from ValueError("its checksum doesn't match")
    except UserError as error:
        raise UserError(
            f"The checkpoint {folder} is incomplete or damaged: {error.__cause__}. {way_out}"
        ) from error
    return tensors, {**json.loads(saved[_PROGRESS]), _SETTINGS: json.loads(saved[_SETTINGS])}


def load_state(
    folder: Path, model: PreTrainedModel, tensors: Mapping[str, np.ndarray], way_out: str
) -> None:
    """Restores a compiled model from a checkpoint and the tensors that `read_state` returned.

    Raises:
        UserError: if the checkpoint belongs to a different model.
    """
    variables = _variables(model)
    if variables.keys() != {name for name in tensors if name.isdigit()}:
        raise UserError(f"{folder} was written by a different model or Keras version. {way_out}")
    stored = finder.find(folder).read()
    weights.assign(model, stored.tensors, stored.origin)
    for name, variable in variables.items():
        variable.assign(tensors[name])


def _checksum(folder: Path, tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> str:
    """Returns a checksum of the content of a state file and the weights in its folder."""
    total = zlib.crc32(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name]).reshape(-1)
        total = zlib.crc32(array.view("uint8").data, total)
    for path in sorted(folder.glob("*.safetensors")):
        if path.name != STATE:
            total = zlib.crc32(path.read_bytes(), total)
    return str(total)


def _variables(model: PreTrainedModel) -> dict[str, Any]:
    """Returns the variables of a model and its optimizer, named by their index.

    Metrics, and weights that `save_pretrained` writes, are not included.
    """
    optimizer = model.optimizer
    if not optimizer.built:  # a loss scaler would be built twice
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
    """Yields a new folder, flushes its files to disk, and then replaces `folder` with it."""
    with written_atomically(folder, force=True, own=VERSION) as new:
        yield new
        for path in new.rglob("*"):
            if path.is_file():
                with path.open("r+b") as file:  # Windows flushes only writable files
                    os.fsync(file.fileno())


def remove_folder(folder: Path) -> None:
    """Removes a folder if it exists; if the process is killed, the folder is complete or absent."""
    shutil.rmtree(trash_path(folder), ignore_errors=True)
    if folder.exists():
        folder.rename(trash_path(folder))
        shutil.rmtree(trash_path(folder))


def trash_path(folder: Path) -> Path:
    """Returns the temporary path to which a folder is moved before it is deleted."""
    return folder.with_name(f".{folder.name}.removed")

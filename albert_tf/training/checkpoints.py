"""The checkpoints of a run: what they contain, when they are written, and how a run resumes.

A checkpoint is a model directory with an additional state file, which contains the optimizer's
variables, the dropout seeds, the run's settings and progress, and the states of the callbacks.
"""

import copy
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
from typing import Any, Final, NamedTuple

import keras
import numpy as np
from keras import ops

from albert_tf.checkpoints import finder, names, weights
from albert_tf.checkpoints.weight_files import read_metadata, read_tensors, write_tensors
from albert_tf.errors import Interrupted, UserError, short_repr
from albert_tf.files import require_same, written_atomically
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.fitting import Fit, FitCallback
from albert_tf.optimizers import inner
from albert_tf.outputs import STEP, VERSION

STATE: Final = "state.safetensors"
_SETTINGS: Final = "settings"
_PROGRESS: Final = "progress"
_CHECKSUM: Final = "checksum"
_METRIC: Final = "metric-"  # prefix of the arrays of metrics
Scores = Mapping[str, float]
# The attributes in which Keras's callbacks keep their state, all JSON except for `_ARRAYS`.
_ARRAYS: Final = "best_weights"
_SAVES: Final = ("_current_epoch", "_last_batch_seen", "_batches_seen_since_last_saving")
_STATES: Final[Mapping[type, tuple[str, ...]]] = {
    keras.callbacks.EarlyStopping: ("wait", "best", "best_epoch", "stopped_epoch", _ARRAYS),
    keras.callbacks.ModelCheckpoint: ("best", *_SAVES),
    keras.callbacks.ReduceLROnPlateau: ("wait", "best", "cooldown_counter"),
    keras.callbacks.SwapEMAWeights: ("_ema_weights_in_model",),
    keras.callbacks.TensorBoard: ("_global_train_batch", "_global_test_batch"),
    keras.callbacks.CSVLogger: (),
    keras.callbacks.History: (),
    keras.callbacks.LambdaCallback: (),
    keras.callbacks.LearningRateScheduler: (),
    keras.callbacks.ProgbarLogger: (),
    keras.callbacks.RemoteMonitor: (),
    keras.callbacks.TerminateOnNaN: (),
}


class StepCallback(keras.callbacks.Callback):
    """A callback that counts the steps of a run.

    Attributes:
        step: number of steps trained so far, including those before an interruption.
        position: number of steps of the current epoch trained before an interruption.
        state: JSON values that this callback needs to resume.
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


class Checkpoints:
    """The checkpoints in a folder, each with a model and the states of callbacks.

    Args:
        folder: folder that contains a folder for each checkpoint.
        keep: number of checkpoints to keep.
        settings: JSON values that must be the same when the run resumes.
        others: callbacks whose states are also saved.
        way_out: advice for error messages: what to do if a checkpoint can't be used.
    Attributes:
        progress: JSON values from the checkpoint that was the newest when `read` was called; empty
            if there was none.
    """

    def __init__(
        self,
        folder: Path,
        *,
        keep: int = 1,
        settings: Mapping[str, Any] | None = None,
        others: Sequence[keras.callbacks.Callback] = (),
        way_out: str = "Start over with force=True.",
    ):
        self.folder, self.keep, self.way_out = folder, keep, way_out
        self.settings, self.others = dict(settings or {}), list(others)
        self.progress: dict[str, Any] = {}
        self._state: State | None = None  # of a checkpoint that is read but not yet restored
        self.read()

    def found(self) -> list[Path]:
        """Returns the checkpoints, oldest first."""
        return steps_in(self.folder)

    def read(self) -> None:
        """Reads the progress of the newest checkpoint."""
        found = self.found()
        self.progress = read_progress(found[-1], self.way_out) if found else {}

    def check(self, model: PreTrainedModel) -> None:
        """Reads the newest checkpoint, if there is one, before anything is changed.

        Raises:
            UserError: if the checkpoint is damaged, or belongs to a run with different settings,
                callbacks, or a different model.
        """
        if not self.progress:
            return
        require_same(self.folder, self.progress["settings"], self.settings, self.way_out)
        names = [type(other).__name__ for other in self.others]
        before = [name for name, _ in self.progress["states"]]
        if names != before:
            raise UserError(
                "A run must resume with the callbacks it was started with: "
                f"{', '.join(before) or 'none'}. Received: {', '.join(names) or 'none'}. "
                f"{self.way_out}"
            )
        self._state = read_state(self.found()[-1], model, self.way_out)

    def restore(self, model: PreTrainedModel) -> None:
        """Restores the model and the other callbacks from the checkpoint that `check` read."""
        for other in self.others:
            if isinstance(other, StepCallback):
                other.step = self.progress.get("step", 0)
        if self._state is None:
            return
        load_state(self._state, model)
        for number, (_, state) in enumerate(copy.deepcopy(self.progress["states"])):
            tensors = self._state.tensors
            if names := sorted(name for name in tensors if name.startswith(f"{number}-")):
                state[_ARRAYS] = [tensors[name] for name in names]
            for name, value in state.items():
                setattr(self.others[number], name, value)

    def restore_metrics(self, model: PreTrainedModel, batch: Any) -> None:
        """Restores the metrics of an epoch; see `load_metrics`."""
        assert self._state is not None, "a checkpoint within an epoch"
        load_metrics(self._state, model, batch, self.way_out)

    def release(self) -> None:
        """Frees the memory of a checkpoint that has been restored."""
        self._state = None

    def save(self, model: PreTrainedModel, progress: dict[str, Any]) -> None:
        """Writes a checkpoint, then removes all but the newest `keep`.

        Args:
            progress: JSON values: the `step`, its `position` in the epoch, and others.
        """
        states: list[tuple[str, dict[str, Any]]] = []
        tensors: dict[str, np.ndarray] = {}
        for number, other in enumerate(self.others):
            state = {name: getattr(other, name, None) for name in state_names(other)}
            for index, array in enumerate(state.pop(_ARRAYS, None) or ()):
                tensors[f"{number}-{index:05d}"] = array
            states.append((type(other).__name__, state))
        if progress.get("position"):
            metrics = map(ops.convert_to_numpy, model.metrics_variables)
            tensors |= {f"{_METRIC}{number:05d}": array for number, array in enumerate(metrics)}
        with written_through(self.folder / f"step-{progress['step']:08d}") as folder:
            model.save_pretrained(folder)
            save_state(folder, model, self.settings, {**progress, "states": states}, tensors)
        for old in self.found()[: -self.keep]:
            remove_folder(old)


class Saver(StepCallback, FitCallback):
    """Saves the checkpoints of a run, and ends the run after a signal.

    Args:
        checkpoints: the checkpoints of the run.
        save_steps: number of steps between checkpoints; None to save only one, at the end.
        host: rank of this process, and the number of processes that train together. Rank 0 saves.
    Attributes:
        epoch, step, seconds: see `callbacks.Resume`.
    """

    def __init__(
        self, checkpoints: Checkpoints, save_steps: int | None, host: tuple[int, int] = (0, 1)
    ):
        super().__init__()
        self.checkpoints, self.save_steps, self.host = checkpoints, save_steps, host
        self._stop = threading.Event()
        self._started = time.monotonic()
        self._continue_counts()

    def _continue_counts(self) -> None:
        """Sets the counts to those of the newest checkpoint."""
        self.step, self.epoch, self.seconds = (
            self.checkpoints.progress.get(name, 0) for name in ("step", "epoch", "seconds")
        )

    @property
    def is_finished(self) -> bool:
        """Whether the newest checkpoint belongs to a finished run."""
        return bool(self.checkpoints.progress.get("is_finished"))

    @contextmanager
    def surround(self, fit: Fit) -> Iterator[Any]:
        """Lets the first SIGINT or SIGTERM end the run after the current step."""
        handlers: dict[int, Any] = {}

        def restore() -> None:
            while handlers:
                signal.signal(*handlers.popitem())

        def stop(number: int, frame: Any) -> None:
            self._stop.set()
            restore()

        self._stop.clear()
        try:
            if threading.current_thread() is threading.main_thread():
                for number in (signal.SIGINT, signal.SIGTERM):
                    handlers[number] = signal.signal(number, stop)
            yield fit.data
        finally:
            restore()

    def on_train_begin(self, logs: Scores | None = None) -> None:
        self._started = time.monotonic() - self.seconds

    def on_epoch_begin(self, epoch: int, logs: Scores | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self.checkpoints.release()

    def is_due(self, before: int) -> bool:
        return self.passed(self.save_steps, before) or self._stop.is_set()

    def act(self) -> None:
        if self.save_steps is not None:
            self.save()
        self.stop_if_interrupted()

    def stop_if_interrupted(self) -> None:
        """Raises `Interrupted` if a signal was received."""
        if self._stop.is_set():
            newest = self.checkpoints.found()[-1:]
            raise Interrupted(
                f"Interrupted; the newest checkpoint is {newest[0]}."
                if newest
                else "Interrupted before the first checkpoint."
            )

    def on_train_end(self, logs: Scores | None = None) -> None:
        if not self.is_finished:
            self.save(is_finished=True)

    def save(self, is_finished: bool = False, **progress: Any) -> None:
        """Writes a checkpoint with this run's step, epoch, and duration, and other `progress`."""
        if keras.backend.backend() == "jax":
            self.model.jax_state_sync()
        if not self._stop.is_set() or self.host[1] == 1:  # all hosts must read the metrics together
            for other in self.checkpoints.others:
                if isinstance(other, StepCallback):
                    other.before_save()
        self.seconds = time.monotonic() - self._started
        if self.host[0] > 0:
            return
        numbers = {"step": self.step, "epoch": self.epoch, "seconds": self.seconds}
        self.checkpoints.save(self.model, {**numbers, "is_finished": is_finished, **progress})


def state_names(callback: keras.callbacks.Callback) -> Sequence[str]:
    """Returns the names of a callback's attributes to save; most callbacks have none."""
    known = next((names for kind, names in _STATES.items() if isinstance(callback, kind)), ())
    has_state = hasattr(callback, "state") and not isinstance(callback, Saver)
    return (*known, "state") if has_state else known


def is_known(callback: keras.callbacks.Callback) -> bool:
    """Whether the attributes in `state_names` are the whole state of a callback."""
    kind = type(callback)
    return kind in _STATES or kind.__module__.startswith("albert_tf.") or hasattr(callback, "state")


class State(NamedTuple):
    """A checkpoint in memory.

    Attributes:
        weights: the weights in the model directory.
        tensors: the arrays in the state file. Variables are named by their index.
    """

    weights: weights.Checkpoint
    tensors: dict[str, np.ndarray]


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
        _PROGRESS: json.dumps(progress, default=_scalar),
    }
    metadata[_CHECKSUM] = _checksum(finder.find(folder).read().tensors, arrays, metadata)
    write_tensors(folder / STATE, arrays, metadata)


def _scalar(value: Any) -> Any:
    """Converts a NumPy scalar in a callback's state to JSON."""
    if np.ndim(value) or not hasattr(value, "item"):
        raise UserError(
            "The `state` of a callback must be JSON, so that it can be saved. Received: "
            f"{short_repr(value)} ({type(value).__name__})."
        )
    return value.item()


def read_progress(folder: Path, way_out: str) -> dict[str, Any]:
    """Returns the progress and the settings from the state file of a checkpoint.

    Raises:
        UserError: if the state file is missing or damaged.
    """
    with _names_damaged(folder, way_out):
        saved = read_metadata(folder / STATE)
        return {**json.loads(saved[_PROGRESS]), _SETTINGS: json.loads(saved[_SETTINGS])}


def read_state(folder: Path, model: PreTrainedModel, way_out: str) -> State:
    """Reads a checkpoint of a compiled model.

    Raises:
        UserError: if the checkpoint is damaged, or belongs to a different model.
    """
    with _names_damaged(folder, way_out):
        tensors, saved = read_tensors(folder / STATE)
        state = State(finder.find(folder).read(), tensors)
        if saved.pop(_CHECKSUM, None) != _checksum(state.weights.tensors, tensors, saved):
            raise ValueError("its checksum doesn't match")
    if _variables(model).keys() != {name for name in tensors if name.isdigit()}:
        raise UserError(f"{folder} was written by a different model or Keras version. {way_out}")
    return state


def load_state(state: State, model: PreTrainedModel) -> None:
    """Restores the variables of a model and its optimizer, but not those of metrics."""
    weights.assign(model, state.weights.tensors, state.weights.origin)
    for name, variable in _variables(model).items():
        variable.assign(state.tensors[name])


def load_metrics(state: State, model: PreTrainedModel, batch: Any, way_out: str) -> None:
    """Restores the metrics of an epoch, after building them for a `batch` if necessary.

    Raises:
        UserError: if the model was compiled with different metrics.
    """
    model._symbolic_build(data_batch=batch)
    stored = [state.tensors[name] for name in sorted(state.tensors) if name.startswith(_METRIC)]
    shapes = [tuple(variable.shape) for variable in model.metrics_variables]
    if [array.shape for array in stored] != shapes:
        raise UserError(
            "A run must resume with the metrics it was started with, because it was interrupted "
            f"within an epoch. {way_out}"
        )
    for variable, array in zip(model.metrics_variables, stored, strict=True):
        variable.assign(array)


@contextmanager
def _names_damaged(folder: Path, way_out: str) -> Iterator[None]:
    """Converts any error in reading a checkpoint to a `UserError` that names the checkpoint."""
    try:
        yield
    except (OSError, UserError, KeyError, ValueError) as error:
        reason = error.__cause__ or error
        raise UserError(
            f"The checkpoint {folder} is incomplete or damaged: {reason}. {way_out}"
        ) from error


def _checksum(
    stored: Mapping[str, Any], tensors: Mapping[str, Any], metadata: Mapping[str, str]
) -> str:
    """Returns a checksum of the weights and of the content of the state file."""
    total = zlib.crc32(json.dumps(metadata, sort_keys=True).encode())
    for arrays in (stored, tensors):
        for name in sorted(arrays):
            array = np.ascontiguousarray(arrays[name]).reshape(-1)
            total = zlib.crc32(array.view("uint8").data, total)
    return str(total)


def _variables(model: PreTrainedModel) -> dict[str, Any]:
    """Returns the variables of a model and its optimizer, named by their index.

    Metrics, and weights that `save_pretrained` writes, are not included. A kernel with LoRA is
    included, because `save_pretrained` merges it with its LoRA weights.
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

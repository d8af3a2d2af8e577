"""Callbacks for `fit`: `Resume` and `KeepBest`."""

import contextlib
import json
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import keras
import numpy as np
from keras import ops

from albert_tf.checkpoints import weights
from albert_tf.errors import UserError
from albert_tf.files import check_free, locked, user_path
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.fitting import Fit
from albert_tf.optimizers import inner
from albert_tf.options import COUNT, NOT_NEGATIVE, checks_numbers
from albert_tf.outputs import MODEL
from albert_tf.training.checkpoints import (
    Checkpoints,
    Saver,
    Scores,
    StepCallback,
    is_known,
    state_names,
    written_through,
)
from albert_tf.training.source import Source

_WAY_OUT: Final = "Pass another folder to Resume, or delete this one."
_HOOKS: Final = ("on_train_batch_begin", "on_train_batch_end")
# The settings that each optimizer was given, and those after the last `fit` with `Resume`.
_settings_of: Final[WeakKeyDictionary[Any, tuple[Any, Any]]] = WeakKeyDictionary()
logger = logging.getLogger(__name__)


class Resume(Saver):
    """Saves a run of `fit`, so that the program can resume it without changing the result.

    Pass it to `fit` like `keras.callbacks.BackupAndRestore`. A checkpoint is a model directory that
    also contains the optimizer state, the metrics, and the dropout seeds. SIGINT and SIGTERM end
    the run after the current step; a second signal ends it immediately.

    A run resumes at the start of an epoch or, with `save_steps`, within an epoch. `fit` returns the
    history of all epochs, including those before an interruption.

    Texts, arrays, and `albert_tf.data` datasets are read again in the same order, even after `map`
    or `prefetch`. Any other dataset must yield the same batches in each epoch, because batches that
    were already trained on are skipped. `Resume` reads its first batches twice to check this.

    Keras's callbacks, `KeepBest`, and each callback with an attribute `state` (JSON values) resume
    where they stopped. The names of all other callbacks are logged. Set `state = {}` if a callback
    has nothing to save.

    Args:
        folder: folder for the checkpoints. Only one run at a time can use it.
        save_steps: number of steps between checkpoints; None for one per epoch.
        keep: number of checkpoints to keep.
        settings: additional JSON values that must be the same when the run resumes. The optimizer,
            loss, data, batch size, and number of epochs must not change either.
        others: unused, because `Resume` finds the other callbacks by itself.
    Attributes:
        epoch: number of epochs trained so far.
        step: number of steps trained so far.
        seconds: duration of the run so far.
    Raises:
        UserError: if the newest checkpoint is damaged or belongs to a run with different settings,
            or if the order of the data can't be restored.

    Example:
        >>> from albert_tf import AlbertForSequenceClassification, Resume
        >>> model = AlbertForSequenceClassification.from_pretrained("small", num_labels=2)
        >>> model.compile()
        >>> texts, labels = ["Great.", "Dull."], [1, 0]
        >>> history = model.fit(texts, labels, epochs=2, callbacks=[Resume("run")], verbose=0)
        >>> Resume("run").epoch
        2
    """

    @checks_numbers(save_steps=COUNT, keep=COUNT)
    def __init__(
        self,
        folder: str | os.PathLike[str],
        save_steps: int | None = None,
        *,
        keep: int = 1,
        settings: Mapping[str, Any] | None = None,
        others: Sequence[keras.callbacks.Callback] = (),
    ):
        checkpoints = Checkpoints(user_path(folder), keep=keep, settings=settings, way_out=_WAY_OUT)
        super().__init__(checkpoints, save_steps)
        self._own_settings = checkpoints.settings
        self._fit: Fit | None = None
        self._data: Source | None = None
        self._muted: list[tuple[keras.callbacks.Callback, dict[str, Any]]] = []
        self._train_function: Any = None  # saved while _read_without_training replaces it
        self._logs: list[tuple[int, Scores]] = []
        self._saved = self.step  # step of the last checkpoint

    @contextlib.contextmanager
    def surround(self, fit: Fit) -> Iterator[Any]:
        """Locks the folder and reads the checkpoint from which Keras's `fit` resumes."""
        checkpoints, data = self.checkpoints, fit.data
        if not fit.model.compiled:
            raise UserError("The model isn't compiled. Call model.compile() before fit.")
        _check_savable(fit.model, checkpoints.folder, "Resume", "BackupAndRestore")
        with locked(checkpoints.folder), _given_settings(inner(fit.model.optimizer)) as optimizer:
            try:
                _check_callbacks(fit.callbacks)
                self._fit, self._data = fit, Source.of(fit)
                checkpoints.settings = {
                    "optimizer": optimizer,
                    **_settings(fit, self._data),
                    **self._own_settings,
                }
                checkpoints.others = [each for each in fit.callbacks if state_names(each)]
                checkpoints.read()
                checkpoints.check(fit.model)
                self._continue_counts()
                self._logs, self._saved = checkpoints.progress.get("logs", []), self.step
                for each in fit.callbacks:
                    if checkpoints.progress and isinstance(each, keras.callbacks.CSVLogger):
                        each.append = True  # keeps the epochs before the interruption
                if self._data.is_endless:
                    data = data.skip(self.epoch * (fit.steps_per_epoch or 0))
                with super().surround(fit._replace(data=data)) as data:
                    yield data
            finally:
                self._unmute()
                self._restore_train_function()  # if fit failed while skipping batches
                fit.model._initial_epoch = None
                self._fit = self._data = None

    def on_train_begin(self, logs: Scores | None = None) -> None:
        fit = self._fit
        if fit is None or self._data is None:
            raise UserError(
                "Resume works only with the fit method of an ALBERT task model. Use "
                "keras.callbacks.BackupAndRestore for other models."
            )
        steps_at_once = self.model.steps_per_execution
        if self.params.get("steps") is None and steps_at_once > 1:
            raise UserError(
                "With steps_per_execution, Resume requires a known number of steps per epoch. Pass "
                "steps_per_epoch to fit."
            )
        super().on_train_begin(logs)
        self.checkpoints.restore(self.model)
        if self._data.batches is not None:
            # On JAX and torch, Keras has already read a batch and thereby started a new epoch.
            self._data.batches.next_epoch = 0
        progress = self.checkpoints.progress
        if not progress:
            return
        for each in (self, *self.checkpoints.others):
            if isinstance(each, StepCallback):
                each.position = progress["position"]
        if self._data.batches is not None:
            self._data.batches.seed = progress["seed"]
        # BackupAndRestore also sets this attribute to make fit start at a later epoch.
        self.model._initial_epoch = fit.epochs if self.is_finished else self.epoch
        if self.is_finished:
            logger.warning(
                "The run in %s already finished, after %d steps. fit loads only its weights.",
                *(self.checkpoints.folder, self.step),
            )

    def on_epoch_begin(self, epoch: int, logs: Scores | None = None) -> None:
        data = self._data
        assert data is not None
        if data.batches is not None and not data.is_endless:
            data.batches.next_epoch = epoch
        if self.position:
            logger.warning("Skipping %d batches that were already trained on.", self.position)
            # The other callbacks have just begun this epoch for the second time.
            self.checkpoints.restore(self.model)
            self.checkpoints.restore_metrics(self.model, data.batch())
            self._mute()
            self._train_function, self._unread = self.model.train_function, self.position
            self.model.train_function = self._read_without_training
        super().on_epoch_begin(epoch, logs)

    def on_train_batch_end(self, batch: int, logs: Scores | None = None) -> None:
        super().on_train_batch_end(batch, logs)
        if self._train_function is None:
            self._unmute()

    def _read_without_training(self, *arguments: Any) -> Any:
        """Replaces Keras's train function until the batches to skip have been read."""
        *state, batches = arguments  # only JAX passes a state, and expects it back
        count = min(self.model.steps_per_execution, self._unread)
        if not isinstance(batches, list):  # only TensorFlow passes an iterator
            for _ in range(count):
                next(batches)
        self._unread -= count
        if not self._unread:
            self._restore_train_function()
        return ({}, *state) if state else {}

    def _restore_train_function(self) -> None:
        if self._train_function is not None:
            self.model.train_function, self._train_function = self._train_function, None

    def _mute(self) -> None:
        """Hides batches from the other callbacks, which saw them before the interruption."""
        assert self._fit is not None
        for each in self._fit.callbacks:
            if each is not self:
                own = {name: vars(each)[name] for name in _HOOKS if name in vars(each)}
                self._muted.append((each, own))
                vars(each).update(dict.fromkeys(_HOOKS, lambda *_, **__: None))

    def _unmute(self) -> None:
        while self._muted:
            callback, own = self._muted.pop()
            for name in _HOOKS:
                del vars(callback)[name]
            vars(callback).update(own)

    def act(self) -> None:
        # on_epoch_end saves an epoch's last step, to include changes that other callbacks make.
        if self.step - self._epoch_start != self.params.get("steps"):
            super().act()

    def on_epoch_end(self, epoch: int, logs: Scores | None = None) -> None:
        self.epoch, self._epoch_start = epoch + 1, self.step
        found = {name: ops.convert_to_numpy(value).tolist() for name, value in (logs or {}).items()}
        self._logs.append((epoch, found))
        if self.epoch == self.params["epochs"] or self.model.stop_training:
            return  # on_train_end saves the checkpoint
        if (
            self.save_steps is None
            or self.passed(self.save_steps, self._saved)
            or self._stop.is_set()
        ):
            self.save()
        self.stop_if_interrupted()

    def on_train_end(self, logs: Scores | None = None) -> None:
        super().on_train_end(logs)
        history = self.model.history
        history.epoch, history.history = [], {}
        for epoch, found in self._logs:
            values = {n: np.array(v) if isinstance(v, list) else v for n, v in found.items()}
            history.on_epoch_end(epoch, values)
        self.stop_if_interrupted()

    def save(self, is_finished: bool = False, **progress: Any) -> None:
        batches = self._data and self._data.batches
        progress |= {
            "position": self.step - self._epoch_start,
            "seed": None if batches is None else batches.seed,
            "logs": self._logs,
        }
        super().save(is_finished, **progress)
        self._saved = self.step


def _check_savable(model: Any, folder: Path, callback: str, instead: str) -> None:
    """Raises the errors of `save_pretrained` before training."""
    way_out = f"Use keras.callbacks.{instead} instead of {callback}."
    if isinstance(model, PreTrainedModel):
        weights.stored_variables(model, way_out)
        model._tokenizer_for(folder)
    elif not hasattr(model, "save_pretrained"):
        raise UserError(
            f"{callback} saves models with their method save_pretrained, which a "
            f"{type(model).__name__} model doesn't have. {way_out}"
        )


def _check_callbacks(callbacks: Sequence[keras.callbacks.Callback]) -> None:
    """Rejects a second callback that resumes runs, and logs which callbacks aren't restored."""
    if any(isinstance(each, keras.callbacks.BackupAndRestore) for each in callbacks):
        raise UserError("Resume replaces keras.callbacks.BackupAndRestore. Drop one of them.")
    unknown = [type(each).__name__ for each in callbacks if not is_known(each)]
    if unknown:
        logger.warning(
            "Resume doesn't save the state of %s. If a resumed run needs it, keep it as JSON "
            "values in an attribute named `state`.",
            ", ".join(unknown),
        )


def _settings(fit: Fit, data: Source) -> dict[str, Any]:
    """Returns the settings that determine the result of `fit`, except those of the optimizer."""
    model = fit.model
    settings = {
        "loss": model.loss,
        "class_weight": fit.class_weight,
        "micro_batches": model.micro_batches,
        "steps_per_execution": model.steps_per_execution,
        "epochs": fit.epochs,
        "steps_per_epoch": fit.steps_per_epoch,
        **data.settings(),
    }
    return _as_json(settings)


@contextlib.contextmanager
def _given_settings(optimizer: Any) -> Iterator[Any]:
    """Yields the settings that the user gave an optimizer, even if callbacks have changed them.

    `fit` runs within this context. Settings that the user changes after `fit` are new ones.
    """

    def current() -> Any:
        return _as_json({"class": type(optimizer).__name__, **optimizer.get_config()})

    found = current()
    given, after = _settings_of.get(optimizer, (found, found))
    given = given if found == after else found
    try:
        yield given
    finally:
        with contextlib.suppress(Exception):  # if `fit` fails, JAX may have deleted the values
            _settings_of[optimizer] = given, current()


def _as_json(settings: Mapping[str, Any]) -> Any:
    return _without_names(json.loads(json.dumps(settings, default=_to_json)))


def _without_names(settings: Any) -> Any:
    """Drops the names of objects, because Keras numbers them differently in each process."""
    if not isinstance(settings, dict):
        return settings
    return {name: _without_names(value) for name, value in settings.items() if name != "name"}


def _to_json(value: Any) -> Any:
    """Converts a NumPy scalar, a Keras object, a function, or a class to a value for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "get_config"):
        return {"class": type(value).__name__, **value.get_config()}
    return getattr(value, "__qualname__", type(value).__name__)


class KeepBest(StepCallback):
    """Evaluates the model during training and saves the version that is best on the first metric.

    Args:
        score: function that returns the scores keyed by name. The first score ranks the versions,
            and a higher value is better, so it can't be a loss. Of versions with equal first
            scores, the one with the lowest loss is the best, if the scores contain a loss, and
            otherwise the earliest one. With `steps`, `score` should call `predict`, because
            `model.evaluate` would reset the metrics that `fit` shows.
        folder: model directory to write, replacing an existing one; None to save nothing.
        steps: number of training steps between evaluations; None to evaluate after each epoch. The
            model is also evaluated at the end of `fit`.
        patience: number of evaluations without improvement before the run stops, as in
            `keras.callbacks.EarlyStopping`; None to train to the end. Each `fit` restarts the
            count.
        on_score: function that is called with the step and its scores.

    Attributes:
        scores: all scores so far, each with its `step`.
        best: the best scores, with their `step` and their 1-based `number`.

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

    @checks_numbers(steps=COUNT, patience=NOT_NEGATIVE)
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
        self.state = {"scores": [], "best": None, "start": 0}

    @property
    def scores(self) -> list[dict[str, float]]:
        return self.state["scores"]

    @property
    def best(self) -> dict[str, float] | None:
        return self.state["best"]

    def on_train_begin(self, logs: Scores | None = None) -> None:
        if self.folder is not None and self.best is None:
            check_free(self.folder, True, MODEL)
        if self.folder is not None:
            _check_savable(self.model, self.folder, "KeepBest", "ModelCheckpoint")
        self.state["start"] = len(self.scores)

    @property
    def is_late(self) -> bool:
        """Whether the last `patience` evaluations brought no improvement."""
        if self.patience is None or self.best is None:
            return False
        since = max(self.best["number"], self.state["start"])
        return len(self.scores) - since >= max(self.patience, 1)

    def is_due(self, before: int) -> bool:
        return self.passed(self.steps, before)

    def on_epoch_end(self, epoch: int, logs: Scores | None = None) -> None:
        if self.steps is None:
            self.act()

    def on_train_end(self, logs: Scores | None = None) -> None:
        if not self.scores or self.scores[-1]["step"] != self.step:
            self.act()

    def act(self) -> None:
        found = dict(self.score())
        is_ranked = self.folder is not None or self.patience is not None
        if not found or (is_ranked and next(iter(found)).endswith("loss")):
            raise UserError(
                "KeepBest prefers a higher value of the first score, so it can't be a loss. "
                f"Received: {', '.join(found) or 'no scores'}. Put a metric first, or return "
                "{'score': -loss}."
            )
        _, *before = self.scores[0] if self.scores else ("step", *found)
        if before[0] != next(iter(found)):
            raise UserError(
                "KeepBest compares the first scores, which must always have the same name. "
                f"Received: {', '.join(found)}; earlier: {', '.join(before)}."
            )
        self.scores.append({"step": self.step, **found})
        if self.best is None or _is_better(found, self.best):
            self.state["best"] = {"number": len(self.scores), "step": self.step, **found}
            if self.folder is not None:
                with written_through(self.folder) as folder:
                    self.model.save_pretrained(folder)
        self.on_score(self.step, found)
        if self.is_late:
            self.model.stop_training = True


def _is_better(found: Scores, best: Scores) -> bool:
    """Whether the first score is higher than that of `best`, or equal to it with a lower loss."""
    leading = next(iter(found))
    loss = next((name for name in found if name.endswith("loss") and name in best), None)
    if loss is not None and found[leading] == best[leading]:
        return found[loss] < best[loss]
    return found[leading] > best[leading] or math.isnan(best[leading])

"""A run of `finetune` or `pretrain`, and how it resumes after an interruption."""

import contextlib
import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import keras

from albert_tf import bfloat16
from albert_tf.checkpoints import weights
from albert_tf.checkpoints.sentence_transformers import MODULES
from albert_tf.errors import UserError
from albert_tf.files import locked, replace_files, write_json
from albert_tf.models.task import TaskModel
from albert_tf.options import decisive, save_options
from albert_tf.outputs import BEST, CHECKPOINTS, LOGS
from albert_tf.training import distribution
from albert_tf.training.callbacks import KeepBest
from albert_tf.training.checkpoints import (
    Checkpoints,
    Saver,
    remove_folder,
    steps_in,
    trash_path,
)
from albert_tf.training.curve import Curve, Diverged, ProgressLine
from albert_tf.training.options import FinetuningOptions, PretrainingOptions, check_output

REPORT: Final = "report.json"


class Run:
    """The devices, output, settings, and checkpoints of a run.

    Args:
        options: options of the command.
        strategy: a strategy from `distribution.strategy_for`.
    Attributes:
        settings: JSON values that determine the result. They must not change when the run resumes.
        replicas: number of model replicas across all hosts.
        host: rank of this host, and the number of hosts.
        is_chief: whether this host writes files.
        best: folder of the best version so far; None if another host writes it.
        logs: folder for TensorBoard event files; None if another host writes them.
        step: number of steps trained, including those before an interruption.
        seconds: time that these steps have taken.
    """

    def __init__(self, options: PretrainingOptions | FinetuningOptions, strategy: Any):
        self.options, self.strategy = options, strategy
        self.settings = decisive(options)
        self.replicas = distribution.replicas(strategy)
        self.host = distribution.hosts(strategy)
        self.is_chief = distribution.is_chief(strategy)
        self.checkpoints = options.output / CHECKPOINTS
        self.best = self.checkpoints / BEST if self.is_chief else None
        self.logs = options.output / LOGS if self.is_chief else None
        self.step, self.seconds = 0, 0.0

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Returns the scope in which to create and compile the model."""
        return distribution.scope(self.strategy)

    def train(
        self,
        model: TaskModel,
        batches: Callable[[int], Any],
        batch_size: int,
        curve: Curve,
        keep: KeepBest | None = None,
        keep_checkpoints: int = 1,
    ) -> None:
        """Trains the remaining steps.

        Args:
            model: a compiled model.
            batches: function that returns a dataset with this host's part of each batch, starting
                at a given step.
            batch_size: number of examples in a batch across all hosts.
            curve: the learning curve, which contains the number of steps.
            keep: callback that scores the model; None for a run without evaluation.
            keep_checkpoints: number of checkpoints to keep.
        Raises:
            Interrupted: if SIGINT or SIGTERM was received; the chief has saved a checkpoint.
            UserError: if the run was started with different settings, or its loss is not finite or
                diverges. The last checkpoint is kept.
        """
        saved = Checkpoints(
            self.checkpoints,
            keep=keep_checkpoints,
            settings=self.settings,
            others=[curve, keep] if keep else [curve],
        )
        saver = Saver(saved, self.options.save_steps, host=self.host)
        with self.scope():
            saved.check(model)
            saved.restore(model)
            distribution.check_same_step(self.strategy, saver.step)
        if self.is_chief:
            self.checkpoints.mkdir(parents=True, exist_ok=True)  # marks a run that can resume
            save_options(self.options, self.options.output)
        if saver.step < curve.steps and not (keep and keep.is_late):
            try:
                self._fit(model, batches, batch_size, saver, curve)
            except Diverged as error:
                found = saved.found()
                good = f" The last good checkpoint is {found[-1]}." if found else ""
                way_out = "Choose another output, or add force=True."
                raise UserError(f"{error}{good} {way_out}") from error
        self.step, self.seconds = saver.step, saver.seconds

    def _fit(
        self,
        model: TaskModel,
        batches: Callable[[int], Any],
        batch_size: int,
        saver: Saver,
        curve: Curve,
    ) -> None:
        callbacks: list[keras.callbacks.Callback] = [*saver.checkpoints.others, saver]
        with contextlib.ExitStack() as stack:
            if self.is_chief:
                line = ProgressLine("training", curve.steps, saver.step, curve.means)
                callbacks.insert(0, stack.enter_context(line))
            stack.enter_context(distribution.errors_of_lost_hosts(self.strategy))
            if keras.backend.backend() == "jax":  # sets the layout of a step's results
                stack.enter_context(self.scope())
            data = distribution.shared(batches(saver.step), self.strategy, batch_size)
            steps = curve.steps - saver.step
            model.fit(data, steps_per_epoch=steps, callbacks=callbacks, verbose=0)


@contextlib.contextmanager
def open_run(options: PretrainingOptions | FinetuningOptions) -> Iterator[Run]:
    """Yields a run on the selected devices, with its output locked by the chief.

    Raises:
        UserError: if the strategy or the output can't be used.
    """
    run = Run(options, distribution.strategy_for(options.strategy))
    lock = lock_output(options.output, options.force)
    if run.is_chief:
        bfloat16.suggest(bfloat16.STEP, options.dtype_policy)
    with lock if run.is_chief else contextlib.nullcontext():
        yield run


@contextlib.contextmanager
def lock_output(output: Path, force: bool) -> Iterator[None]:
    """Locks an output that is new or contains an interrupted run; `force` restarts the run.

    Raises:
        UserError: if another run is writing to it, or `check_output` rejects it.
    """
    with locked(output):
        check_output(output, force)
        shutil.rmtree(trash_path(output / CHECKPOINTS), ignore_errors=True)
        if force:
            remove_folder(output / CHECKPOINTS)
            shutil.rmtree(output / LOGS, ignore_errors=True)
        yield


def publish(output: Path, report: Mapping[str, Any]) -> None:
    """Moves the best version to the output and removes the checkpoints.

    A sentence-transformers module list left in the output by an earlier model is also removed.
    """
    best = output / CHECKPOINTS / BEST
    files = [path for pattern in ("*", "[0-9]_*/*") for path in best.glob(pattern)]
    paths = {path.relative_to(best).as_posix(): path for path in files if path.is_file()}
    replace_files(output, {name: partial(shutil.copyfile, path) for name, path in paths.items()})
    if MODULES not in paths:
        (output / MODULES).unlink(missing_ok=True)
    write_json(output / REPORT, report)
    remove_folder(output / CHECKPOINTS)


@contextlib.contextmanager
def silent_about_new_weights(output: Path) -> Iterator[None]:
    """Hides the warning about newly initialized weights if a run resumes and replaces them."""
    before = weights.logger.level
    if steps_in(output / CHECKPOINTS):
        weights.logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        weights.logger.setLevel(before)


def digest(content: Any) -> str:
    """Returns the SHA-256 of an object's JSON, in hexadecimal."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()

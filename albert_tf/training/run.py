"""A run of `fit` on any devices, which the same call resumes after an interruption."""

import contextlib
from collections.abc import Callable
from typing import Any

import keras

from albert_tf.errors import UserError
from albert_tf.models.task import TaskModel
from albert_tf.options import save_options
from albert_tf.training import distribution
from albert_tf.training.callbacks import Curve, Diverged, KeepBest, ProgressLine, Resume
from albert_tf.training.options import FinetuningOptions, PretrainingOptions


def train(
    options: PretrainingOptions | FinetuningOptions,
    strategy: Any,
    model: TaskModel,
    batches: Callable[[int], Any],
    batch_size: int,
    curve: Curve,
    resume: Resume,
    keep: KeepBest | None,
) -> None:
    """Trains the steps that are missing.

    Args:
        options: saved beside the output, whose last lines name them.
        strategy: of `distribution.on_devices`.
        batches: returns a `tf.data.Dataset` of this host's part of each batch, from a number on.
        batch_size: examples of a batch, over all hosts.
        keep: None for a run without evaluations.
    Raises:
        Interrupted: SIGINT or SIGTERM came; the chief has saved the state.
        UserError: the loss is no number or rises; the last checkpoint stays.
    """
    resume.set_model(model)
    with distribution.scope(strategy):
        resume.load()
        distribution.check_same_step(strategy, resume.step)
    callbacks: list[keras.callbacks.Callback] = [curve, *([keep] if keep else []), resume]
    line: Any = contextlib.nullcontext()
    if distribution.is_chief(strategy):
        resume.folder.mkdir(parents=True, exist_ok=True)  # marks a resumable run
        save_options(options, options.output)
        line = ProgressLine("training", curve.steps, resume.step, curve.means)
        callbacks.insert(0, line)
    if resume.step >= curve.steps or (keep and keep.is_late):
        return
    # On JAX the scope decides the layout of what the step computes, too.
    scope = distribution.scope(strategy if keras.backend.backend() == "jax" else None)
    try:
        with line, distribution.errors_of_lost_hosts(strategy), scope:
            model.fit(
                distribution.shared(batches(resume.step), strategy, batch_size),
                steps_per_epoch=curve.steps - resume.step,
                callbacks=callbacks,
                verbose=0,
            )
    except Diverged as error:
        good = "".join(f" The last good checkpoint is {path}." for path in resume.found()[-1:])
        raise UserError(f"{error}{good} Give a new --output or --force, too.") from error

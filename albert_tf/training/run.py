"""A run of `fit` on any devices, which the same call resumes after an interruption."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import keras

from albert_tf.errors import UserError
from albert_tf.models.task import TaskModel
from albert_tf.options import save_options
from albert_tf.outputs import CHECKPOINTS
from albert_tf.training import distribution
from albert_tf.training.callbacks import KeepBest
from albert_tf.training.curve import Curve, Diverged, ProgressLine
from albert_tf.training.options import FinetuningOptions, PretrainingOptions
from albert_tf.training.saver import Saver


def train(
    options: PretrainingOptions | FinetuningOptions,
    strategy: Any,
    model: TaskModel,
    batches: Callable[[int], Any],
    settings: Mapping[str, Any],
    curve: Curve,
    keep: KeepBest | None,
    checkpoints: int = 1,
) -> Saver:
    """Trains the steps that are missing, and returns the callback that knows how many there were.

    Args:
        options: saved beside the output.
        strategy: of `distribution.on_devices`.
        batches: returns the data for `fit`, from the batch of a number on.
        settings: with which alone an interrupted run resumes.
        keep: None for a run without evaluations.
        checkpoints: number of checkpoints that stay.
    Raises:
        Interrupted: SIGINT or SIGTERM came; the chief has saved the state.
        UserError: the settings differ, or the loss is no number or rises; the last checkpoint
            stays.
    """
    others = (curve, keep) if keep else (curve,)
    resume = Saver(
        *(options.output / CHECKPOINTS, options.save_steps),
        keep=checkpoints,
        settings=settings,
        others=others,
        host=distribution.hosts(strategy),
    )
    resume.set_model(model)
    with distribution.scope(strategy):
        resume.load()
        distribution.check_same_step(strategy, resume.step)
    callbacks: list[keras.callbacks.Callback] = [*others, resume]
    line: Any = contextlib.nullcontext()
    if distribution.is_chief(strategy):
        resume.folder.mkdir(parents=True, exist_ok=True)  # marks a resumable run
        save_options(options, options.output)
        line = ProgressLine("training", curve.steps, resume.step, curve.means)
        callbacks.insert(0, line)
    if resume.step >= curve.steps or (keep and keep.is_late):
        return resume
    # On JAX the scope decides the layout of what the step computes, too.
    scope = distribution.scope(strategy if keras.backend.backend() == "jax" else None)
    try:
        with line, distribution.errors_of_lost_hosts(strategy), scope:
            model.fit(
                batches(resume.step),
                steps_per_epoch=curve.steps - resume.step,
                callbacks=callbacks,
                verbose=0,
            )
    except Diverged as error:
        good = "".join(f" The last good checkpoint is {path}." for path in resume.found()[-1:])
        raise UserError(f"{error}{good} Choose another output, or add force=True.") from error
    return resume

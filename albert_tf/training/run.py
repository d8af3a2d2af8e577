"""The steps that pretraining and fine-tuning share: devices, the output, and the way to the end."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import keras

from albert_tf.options import save_options
from albert_tf.progress import Interval, ProgressLine
from albert_tf.training import runtime, steps
from albert_tf.training.checkpoints import LOGS, Checkpoints, prepared_output
from albert_tf.training.loop import Loop
from albert_tf.training.scalars import Scalars

Report = dict[str, Any]


class RunOptions(Protocol):
    """The options that this module reads of `PretrainingOptions` and `FinetuningOptions`."""

    @property
    def output(self) -> Path: ...
    @property
    def force(self) -> bool: ...
    @property
    def strategy(self) -> str: ...
    @property
    def micro_batches(self) -> int: ...
    @property
    def jit_compile(self) -> bool: ...


def on_devices(options: RunOptions, job: Callable[[Any], Report]) -> Report:
    """Calls a job with the strategy; the chief locks the output until the job is done.

    Raises:
        UserError: the strategy or the output is not usable.
    """
    strategy = runtime.strategy_for(options.strategy)
    if not runtime.is_chief(strategy):
        return job(strategy)
    with prepared_output(options.output, options.force):
        return job(strategy)


def resume(
    loop: Loop,
    checkpoints: Checkpoints,
    options: RunOptions,
    strategy: Any,
    name: str,
    speed: Mapping[str, float],
) -> None:
    """Restores the newest checkpoint, if there is one; the chief begins to report.

    Args:
        name: of the job, for the progress line.
        speed: what a step computes, by name of the speed, such as `tokens_per_second`.
    """
    with runtime.scope(strategy):
        loop.progress.update(checkpoints.load(loop.model))
        runtime.check_same_step(strategy, loop.step)
    if runtime.is_chief(strategy):
        checkpoints.folder.mkdir(parents=True, exist_ok=True)  # marks a run that can be resumed
        save_options(options, checkpoints.output)
        loop.reporters = (
            ProgressLine(name, loop.plan.steps, Interval(loop.means, speed), loop.step),
            Scalars(checkpoints.output / LOGS, Interval(loop.means, speed), loop.step),
        )


def train(
    loop: Loop, options: RunOptions, strategy: Any, batches: Any, batch_size: int, **details: Any
) -> None:
    """Trains to the end.

    Args:
        batches: a `tf.data.Dataset` of this host's part of each batch, from `loop.step` on.
        batch_size: examples of a batch, over all hosts.
        **details: further arguments of `TrainingStep`.
    """
    scope = runtime.scope(strategy if keras.backend.backend() == "jax" else None)
    with runtime.together(strategy), scope:
        step = steps.TrainingStep(
            loop.model, strategy, options.micro_batches, options.jit_compile, **details
        )
        loop.run(step, steps.batches(batches, strategy, batch_size))

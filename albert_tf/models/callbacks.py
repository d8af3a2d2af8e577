"""Callbacks that `fit` adds, or tells about the run that it begins."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from albert_tf.errors import UserError
from albert_tf.optimizers import WarmupPolynomialDecay, inner


class Fit(NamedTuple):
    """What `fit` trains on.

    Attributes:
        batches: an `albert_tf.data.pipeline.Batches` for texts, arrays, and the package's datasets;
            None if Keras reads other data.
        data: the dataset or generator that Keras reads.
        epochs: `epochs` of `fit`.
        steps_per_epoch: `steps_per_epoch` of `fit`.
        class_weight: `class_weight` of `fit`, by class id.
        callbacks: all callbacks.
    """

    batches: Any
    data: Any
    epochs: int
    steps_per_epoch: int | None
    class_weight: dict[int, float] | None
    callbacks: Sequence[keras.callbacks.Callback]


class FitCallback(keras.callbacks.Callback):
    """A callback that knows what `fit` trains on. It runs after the other callbacks."""

    def begin_fit(self, fit: Fit) -> None:
        """Called before Keras's `fit`."""

    def data(self, fit: Fit) -> Any:
        """Returns the data that Keras reads."""
        return fit.data

    def end_fit(self) -> None:
        """Called after Keras's `fit`, also if it raised an exception."""


def start_schedule(model: keras.Model, initial_epoch: int) -> list[keras.callbacks.Callback]:
    """Starts a schedule without `total_steps` for a `fit`.

    The optimizer begins as a new one, unless the run continues from an `initial_epoch`.

    Returns:
        a callback that tells the schedule the number of steps; none if the model's optimizer has
        another learning rate.
    """
    optimizer = inner(model.optimizer)
    schedule = getattr(optimizer, "_learning_rate", None)
    if not isinstance(schedule, WarmupPolynomialDecay) or schedule.total_steps is not None:
        return []
    if not initial_epoch:
        for variable in optimizer.variables:
            variable.assign(ops.zeros(variable.shape, variable.dtype))
    return [_ScheduleSteps(schedule)]


class _ScheduleSteps(keras.callbacks.Callback):
    """Tells a schedule the number of steps, which Keras knows when it begins to train."""

    def __init__(self, schedule: WarmupPolynomialDecay):
        super().__init__()
        self.schedule = schedule

    def on_train_begin(self, logs: Any = None) -> None:
        steps = self.params.get("steps")
        if steps is None:
            raise UserError(
                "The default learning rate requires the number of steps, which is unknown for this "
                "data. Pass steps_per_epoch to fit, or an optimizer to compile."
            )
        if self.schedule.steps != steps * self.params["epochs"]:
            self.schedule.steps = steps * self.params["epochs"]
            self.model.make_train_function(force=True)  # a traced step has the old rates

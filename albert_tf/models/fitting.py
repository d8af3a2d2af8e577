"""Prepares the data of `fit` and `evaluate` for Keras and for callbacks."""

import contextlib
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import keras
import numpy as np
from keras import ops

from albert_tf.errors import UserError, short_repr
from albert_tf.models.batch import arrays_of
from albert_tf.models.examples import (
    as_arrays,
    check_types,
    class_weights,
    holds_rows,
    holds_strings,
    reject_empty,
)
from albert_tf.optimizers import WarmupPolynomialDecay, inner
from albert_tf.options import COUNT, check_number

BATCH_SIZE: Final = 32  # Keras's default


class Fit(NamedTuple):
    """The data and arguments of a `fit` call.

    Attributes:
        model: the model that is trained.
        data: the dataset or generator that Keras reads.
        shuffle: whether Keras shuffles the batches of a `keras.utils.PyDataset`.
        epochs, steps_per_epoch: see `keras.Model.fit`.
        class_weight: class weights keyed by class id.
        callbacks: all callbacks.
    """

    model: Any
    data: Any
    shuffle: bool
    epochs: int
    steps_per_epoch: int | None
    class_weight: dict[int, float] | None
    callbacks: Sequence[keras.callbacks.Callback]


class FitCallback(keras.callbacks.Callback):
    """A callback that receives the data and arguments of `fit` and runs after other callbacks."""

    @contextlib.contextmanager
    def surround(self, fit: Fit) -> Iterator[Any]:
        """Yields the data that Keras reads. Keras's `fit` runs within this context."""
        yield fit.data


@contextlib.contextmanager
def fit_arguments(model: Any, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the arguments for Keras's `fit`, which runs within this context.

    Args:
        given: the `locals()` of the model's `fit`.
    """
    to_keras = {name: value for name, value in given.items() if name not in ("self", "__class__")}
    frequency = to_keras["validation_freq"]
    if isinstance(frequency, str) or not isinstance(frequency, Container):
        check_number("validation_freq", frequency, COUNT)
    callbacks = to_keras["callbacks"]
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks = callbacks.callbacks
    callbacks = keras.tree.flatten(callbacks or [])
    around = [each for each in callbacks if isinstance(each, FitCallback)]
    if to_keras["class_weight"] is not None:
        to_keras["class_weight"] = class_weights(model, to_keras["class_weight"])
        _require_labels(to_keras["x"])
    to_keras |= _data_for_keras(model, to_keras, needs_rows=bool(around))
    if model._open_schedule is not None:
        # Inserted first, because it resets the optimizer, which other callbacks may restore.
        restart = not to_keras["initial_epoch"]
        callbacks.insert(0, ScheduleSteps(model._open_schedule, restart))
    fit = Fit(
        model=model,
        data=to_keras["x"],
        shuffle=bool(to_keras["shuffle"]),
        epochs=to_keras["epochs"],
        steps_per_epoch=to_keras["steps_per_epoch"],
        class_weight=to_keras["class_weight"],
        callbacks=callbacks,
    )
    to_keras["callbacks"] = [*(each for each in callbacks if each not in around), *around]
    with contextlib.ExitStack() as stack:
        for each in around:
            fit = fit._replace(data=stack.enter_context(each.surround(fit)))
        to_keras["x"] = fit.data
        if fit.class_weight is not None and hasattr(fit.data, "element_spec"):
            from albert_tf.data.pipeline import weighted_by_class

            to_keras |= {"x": weighted_by_class(fit.data, fit.class_weight), "class_weight": None}
        yield to_keras


def _data_for_keras(model: Any, given: Mapping[str, Any], needs_rows: bool) -> dict[str, Any]:
    """Returns the arguments of Keras's `fit` that contain or describe data.

    Texts become a dataset. Arrays are left to Keras's own adapter, which is faster, unless a
    callback needs their order.
    """
    x, y, sample_weight, held_out = (
        given[name] for name in ("x", "y", "sample_weight", "validation_data")
    )
    held_out_size = given["validation_batch_size"] or given["batch_size"]
    form = held_out_size, given["validation_steps"]
    changed = {"validation_batch_size": held_out_size}
    if holds_rows(held_out):
        held_out = evaluation_data(model, keras.utils.unpack_x_y_sample_weight(held_out), *form)
    rows = encoded(model, x, y, sample_weight)
    if rows is None and holds_rows(x):
        x, y, sample_weight = checked_arrays(model, "train_function", x, y, sample_weight)
        if needs_rows:
            from albert_tf.data.tasks.rows import ArrayRows

            rows = ArrayRows(x, y, sample_weight)
    if rows is not None:
        if given["validation_split"] and held_out is None:
            rows, last = rows.split(given["validation_split"])
            held_out = in_order(model, last, *form)[0]
        size, steps = given["batch_size"], given["steps_per_epoch"]
        x = batches_of_rows(model, rows, size, steps, shuffle=bool(given["shuffle"])).epochs()
        y = sample_weight = None
        changed |= {"batch_size": None, "validation_split": 0.0}
    if not holds_rows(x):
        trace_for(model, "train_function", (x,))
        # Keras warns that a dataset can't be shuffled.
        changed["shuffle"] = given["shuffle"] and isinstance(x, keras.utils.PyDataset)
    data = {"x": x, "y": y, "sample_weight": sample_weight, "validation_data": held_out}
    return changed | data


def encoded(model: Any, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """Returns the `Rows` of texts, or None if the examples aren't texts."""
    reject_empty(x)
    if not holds_strings(x):
        return None
    from albert_tf.text.tokenizer import check_fit, longest_sequence

    tokenizer = model.tokenizer
    if tokenizer is None:
        raise UserError(
            "Texts require a tokenizer, but the model was loaded without one. Set "
            "model.tokenizer = AlbertTokenizer.from_pretrained(directory)."
        )
    length = longest_sequence(tokenizer, model.config)
    check_fit(tokenizer, model.config, length)
    rows = model.encode_examples(x, y, tokenizer, length)
    rows.warn_of_cut()
    if sample_weight is not None:
        weights = as_arrays(sample_weight, "sample_weight")
        if isinstance(weights, Mapping) and len(weights) == 1:
            (weights,) = weights.values()
        check_types({"sample_weight": weights})
        if tuple(np.shape(weights)) not in ((rows.count,), (rows.count, 1)):
            raise UserError(
                f"sample_weight must contain one weight for each of the {rows.count} examples. "
                f"Received: {getattr(weights, 'shape', short_repr(weights))}."
            )
        rows.weights = list(np.ravel(np.asarray(weights, "float32"))[rows.examples])
    return rows


def batches_of_rows(
    model: Any, rows: Any, batch_size: int | None, steps: int | None, shuffle: bool
) -> Any:
    """Returns the `Batches` of rows for `fit` or `evaluate`."""
    from albert_tf.data.pipeline import Batches

    if batch_size is None:  # as in Keras
        batch_size = math.ceil(len(rows) / steps) if steps else BATCH_SIZE
    seed = np.random.randint(2**31)  # follows keras.utils.set_random_seed
    return Batches(rows, batch_size, seed, shuffle=shuffle, jit_compile=model.jit_compile)


def in_order(
    model: Any, rows: Any, batch_size: int | None, steps: int | None
) -> tuple[Any, np.ndarray]:
    """Sorts the rows of `steps` batches by length; returns them as a dataset, and their order."""
    batches = batches_of_rows(model, rows, batch_size, steps, shuffle=False)
    last = len(rows) if steps is None else steps * batches.batch_size
    order = np.argsort(rows.lengths[:last], kind="stable")
    batches.rows, batches.seed = rows.select(order), None
    return batches.epochs(), order


def evaluation_data(
    model: Any, data: tuple[Any, Any, Any], batch_size: int | None, steps: int | None
) -> tuple[Any, Any, Any]:
    """Converts the data for an evaluation to a form that Keras accepts."""
    if (rows := encoded(model, *data)) is not None:
        data = in_order(model, rows, batch_size, steps)[0], None, None
    elif holds_rows(data[0]):
        return checked_arrays(model, "test_function", *data)
    trace_for(model, "test_function", data)
    return data


def checked_arrays(
    model: Any, function: str, x: Any, y: Any, sample_weight: Any
) -> tuple[Any, Any, Any]:
    """Checks arrays and returns them in a form that Keras accepts."""
    data = arrays_of(model, x, y, sample_weight).for_keras(model.targets)
    trace_for(model, function, data)
    return data


def trace_for(model: Any, function: str, data: Any) -> None:
    """Makes Keras retrace a function if the rank of an input, label, or weight has changed.

    Otherwise, TensorFlow would relax its shape to an unknown rank. The training and test functions
    are traced separately, so an evaluation within `fit` doesn't affect training.

    Args:
        data: `(x, y, sample_weight)`, where `x` can be a dataset.
    """
    if not holds_rows(data[0]):
        data = getattr(data[0], "element_spec", ())
    ranks = {}
    for path, array in keras.tree.flatten_with_path(data):
        shape = getattr(array, "shape", None)  # the specs of a distributed dataset have none
        if shape is not None and getattr(shape, "rank", 0) is not None:
            ranks[str(path)] = len(shape)
    known = model._ranks.get(function, {})
    if any(known.get(path, rank) != rank for path, rank in ranks.items()):
        known = {}
        setattr(model, function, None)
    model._ranks = {**model._ranks, function: {**known, **ranks}}


def _require_labels(x: Any) -> None:
    """Rejects batches without separate labels, because Keras wouldn't weight them by class."""
    batch = x[0] if isinstance(x, keras.utils.PyDataset) else getattr(x, "element_spec", (x, x))
    if not isinstance(batch, tuple | list) or len(batch) < 2:
        raise UserError(
            "class_weight requires batches of the form (features, labels). Received: a dataset "
            "whose batches contain only features."
        )


def open_schedule(optimizer: Any) -> WarmupPolynomialDecay | None:
    """Returns the optimizer's schedule if `fit` must set its number of steps, or else None."""
    schedule = getattr(inner(optimizer), "_learning_rate", None)
    is_open = isinstance(schedule, WarmupPolynomialDecay) and schedule.total_steps is None
    return schedule if is_open else None


class ScheduleSteps(keras.callbacks.Callback):
    """Sets a schedule's number of steps, which Keras doesn't know until training begins.

    Args:
        schedule: the schedule of the model's optimizer.
        restart: whether to reset the optimizer, and thus the schedule.
    """

    def __init__(self, schedule: WarmupPolynomialDecay, restart: bool):
        super().__init__()
        self.schedule, self.restart = schedule, restart

    def on_train_begin(self, logs: Any = None) -> None:
        steps = self.params.get("steps")
        if steps is None:
            raise UserError(
                "The default learning rate schedule requires the number of steps, which is unknown "
                "for this data. Pass steps_per_epoch to fit, or an optimizer to compile."
            )
        if self.restart:
            for variable in inner(self.model.optimizer).variables:
                variable.assign(ops.zeros(variable.shape, variable.dtype))
        total = steps * self.params["epochs"]
        if total and self.schedule.steps != total:  # fit accepts epochs=0
            self.schedule.steps = total
            self.model.make_train_function(force=True)  # the traced function uses the old rates

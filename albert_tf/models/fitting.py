"""`fit` and `evaluate`, which prepare the data for Keras and pass it to callbacks."""

import contextlib
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import keras
import numpy as np
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError, short_repr
from albert_tf.models.batch import arrays_of
from albert_tf.models.examples import (
    Target,
    as_arrays,
    check_types,
    class_weights,
    holds_rows,
    holds_strings,
    reject_empty,
)
from albert_tf.optimizers import WarmupPolynomialDecay, inner
from albert_tf.options import COUNT, NOT_NEGATIVE, RATE, check_number, checks_numbers

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
    """A callback that receives the data and arguments of `fit`, and runs after other callbacks."""

    @contextlib.contextmanager
    def surround(self, fit: Fit) -> Iterator[Any]:
        """Yields the data that Keras reads. Keras's `fit` runs within this context."""
        yield fit.data


class Fitting(keras.Model):
    """Base of `TaskModel` with the Keras methods that take labeled examples.

    The methods check arrays before they call Keras, and convert texts to a dataset.
    """

    targets: Mapping[str, Target]
    config: AlbertConfig
    tokenizer: Any
    open_schedule: Any = None  # the optimizer's schedule, if `fit` sets its number of steps
    _label_ranks: Mapping[str, tuple[int, ...]] = {}  # keyed by traced function

    @checks_numbers(
        batch_size=COUNT,
        epochs=NOT_NEGATIVE,
        validation_split=RATE,
        initial_epoch=NOT_NEGATIVE,
        steps_per_epoch=COUNT,
        validation_steps=COUNT,
        validation_batch_size=COUNT,
    )
    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: Any = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
    ) -> Any:
        """Trains the model on arrays, a dataset, or texts for a fixed number of epochs.

        For the other arguments, see `keras.Model.fit`.

        Args:
            x: a dict of arrays keyed by name, only the ids, a dataset, or texts (for the format,
                see the model class). Texts of similar length share a batch.
            y: labels or label names.
            class_weight: a dict from class ids or label names to weights.
        Returns:
            A `keras.callbacks.History`.
        """
        if isinstance(validation_freq, str) or not isinstance(validation_freq, Container):
            check_number("validation_freq", validation_freq, COUNT)
        if class_weight is not None:
            class_weight = class_weights(self, class_weight)
            _require_labels(x)
        if isinstance(callbacks, keras.callbacks.CallbackList):
            callbacks = callbacks.callbacks
        callbacks = keras.tree.flatten(callbacks or [])
        informed = [each for each in callbacks if isinstance(each, FitCallback)]
        held_out_size = validation_batch_size or batch_size
        if holds_rows(validation_data):
            held_out = keras.utils.unpack_x_y_sample_weight(validation_data)
            validation_data = self._evaluation_data(held_out, held_out_size, validation_steps)
        rows = self._encode(x, y, sample_weight)
        if rows is None and holds_rows(x):
            x, y, sample_weight = self._arrays("train_function", x, y, sample_weight)
            if informed:
                from albert_tf.data.tasks.rows import ArrayRows

                rows = ArrayRows(x, y, sample_weight)
        if rows is not None:
            if validation_split and validation_data is None:
                rows, last = rows.split(validation_split)
                validation_data = self._in_order(last, held_out_size, validation_steps)[0]
            batches = self._batches(rows, batch_size, steps_per_epoch, shuffle=bool(shuffle))
            x, y, sample_weight = batches.epochs(), None, None
            batch_size, validation_split = None, 0.0
        if not holds_rows(x):
            self._trace_for("train_function", labels_in(x))
            # Keras warns that a dataset can't be shuffled.
            shuffle = shuffle and isinstance(x, keras.utils.PyDataset)
        if self.open_schedule is not None:
            # First, because other callbacks may restore the optimizer that it resets.
            callbacks.insert(0, ScheduleSteps(self.open_schedule, restart=not initial_epoch))
        fit = Fit(self, x, bool(shuffle), epochs, steps_per_epoch, class_weight, callbacks)
        with contextlib.ExitStack() as stack:
            for each in informed:
                x = stack.enter_context(each.surround(fit))
            if class_weight is not None and hasattr(x, "element_spec"):
                from albert_tf.data.pipeline import weighted_by_class

                x, class_weight = weighted_by_class(x, class_weight), None
            return super().fit(
                x,
                y,
                batch_size,
                epochs,
                verbose,
                callbacks=[*(each for each in callbacks if each not in informed), *informed],
                validation_split=validation_split,
                validation_data=validation_data,
                shuffle=shuffle,
                class_weight=class_weight,
                sample_weight=sample_weight,
                initial_epoch=initial_epoch,
                steps_per_epoch=steps_per_epoch,
                validation_steps=validation_steps,
                validation_batch_size=held_out_size,
                validation_freq=validation_freq,
            )

    @checks_numbers(batch_size=COUNT, steps=COUNT)
    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Returns the loss and metrics, like `keras.Model.evaluate`. For `x` and `y`, see `fit`."""
        if not kwargs.get("_use_cached_eval_dataset"):  # otherwise `fit` has prepared the data
            x, y, sample_weight = self._evaluation_data((x, y, sample_weight), batch_size, steps)
        return super().evaluate(
            x, y, batch_size, verbose, sample_weight, steps, callbacks, return_dict, **kwargs
        )

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        return_dict: bool = False,
    ) -> Any:
        reject_empty(x)
        x, y, sample_weight = self._arrays("train_function", x, y, sample_weight)
        if class_weight is not None:
            class_weight = class_weights(self, class_weight)
        return super().train_on_batch(x, y, sample_weight, class_weight, return_dict)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        reject_empty(x)
        x, y, sample_weight = self._arrays("test_function", x, y, sample_weight)
        return super().test_on_batch(x, y, sample_weight, return_dict)

    def encode_examples(self, x: Any, y: Any, tokenizer: Any, max_length: int) -> Any:
        """Encodes texts and (unless `y` is None) labels as `Rows` in the task's format."""
        raise UserError(
            f"{type(self).__name__} can't be trained or evaluated on texts. Encode them with "
            "tokenizer(texts, padding=True, return_tensors='np')."
        )

    def _encode(self, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Returns the `Rows` of texts, or None if the examples aren't texts."""
        reject_empty(x)
        if not holds_strings(x):
            return None
        from albert_tf.text.tokenizer import check_fit

        tokenizer = self.tokenizer
        if tokenizer is None:
            raise UserError(
                "Texts require a tokenizer, but the model was loaded without one. Set "
                "model.tokenizer = AlbertTokenizer.from_pretrained(directory)."
            )
        length = min(tokenizer.model_max_length, self.config.max_position_embeddings)
        check_fit(tokenizer, self.config, length)
        rows = self.encode_examples(x, y, tokenizer, length)
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

    def _batches(self, rows: Any, batch_size: int | None, steps: int | None, shuffle: bool) -> Any:
        from albert_tf.data.pipeline import Batches

        if batch_size is None:  # as in Keras
            batch_size = math.ceil(len(rows) / steps) if steps else BATCH_SIZE
        seed = np.random.randint(2**31)  # follows keras.utils.set_random_seed
        return Batches(rows, batch_size, seed, shuffle=shuffle, jit_compile=self.jit_compile)

    def _in_order(
        self, rows: Any, batch_size: int | None, steps: int | None
    ) -> tuple[Any, np.ndarray]:
        """Sorts the rows of `steps` batches by length, and returns a dataset and their order."""
        batches = self._batches(rows, batch_size, steps, shuffle=False)
        last = len(rows) if steps is None else steps * batches.batch_size
        order = np.argsort(rows.lengths[:last], kind="stable")
        batches.rows, batches.seed = rows.select(order), None
        return batches.epochs(), order

    def _evaluation_data(
        self, data: tuple[Any, Any, Any], batch_size: int | None, steps: int | None
    ) -> tuple[Any, Any, Any]:
        """Converts the data for an evaluation to a form that Keras accepts."""
        if (rows := self._encode(*data)) is not None:
            return self._in_order(rows, batch_size, steps)[0], None, None
        if holds_rows(data[0]):
            return self._arrays("test_function", *data)
        self._trace_for("test_function", labels_in(data[0]))
        return data

    def _arrays(self, function: str, x: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Checks arrays, and returns them in a form that Keras accepts."""
        batch = arrays_of(self, x, y, sample_weight)
        self._trace_for(function, keras.tree.flatten(batch.labels))
        return batch.for_keras(self.targets)

    def _trace_for(self, function: str, labels: list[Any]) -> None:
        """Makes Keras retrace a function if the ranks of `labels` (arrays or specs) have changed.

        Otherwise, TensorFlow would relax their shapes to an unknown rank. The training and test
        functions are traced separately, so an evaluation within `fit` doesn't affect training.
        """
        ranks = tuple([len(label.shape) for label in labels])
        if ranks and ranks != self._label_ranks.get(function):
            self._label_ranks = {**self._label_ranks, function: ranks}
            setattr(self, function, None)


def _require_labels(x: Any) -> None:
    """Rejects batches whose labels aren't separate, because Keras would ignore their classes."""
    batch = x[0] if isinstance(x, keras.utils.PyDataset) else getattr(x, "element_spec", (x, x))
    if not isinstance(batch, tuple | list) or len(batch) < 2:
        raise UserError(
            "class_weight requires batches (features, labels). Received: a dataset whose batches "
            "contain only features."
        )


def labels_in(dataset: Any) -> list[Any]:
    """Returns the specs of a dataset's labels, or an empty list if a rank is unknown."""
    spec = getattr(dataset, "element_spec", None)
    labels = keras.tree.flatten(spec[1]) if isinstance(spec, tuple) and len(spec) > 1 else []
    # The specs of a distributed dataset have no shape.
    ranks = [getattr(getattr(label, "shape", None), "rank", None) for label in labels]
    return [] if None in ranks else labels


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

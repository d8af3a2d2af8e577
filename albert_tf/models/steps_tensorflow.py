"""The training step on TensorFlow.

Micro-batches and replicas don't affect the model's own loss, except through dropout.
"""

import contextlib
import os
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import keras
import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.models.batch import Batch, batch_of
from albert_tf.optimizers import inner
from albert_tf.options import cores

Tensors = list[tf.Tensor]
_map = partial(keras.tree.map_structure, none_is_leaf=False)  # None stays None
FAR: Final = 1_000_000_007  # offset between the seeds of replicas; Keras's seeds are below 1e9
# One small matmul leaves threads idle, but two matmuls that each use half of the threads don't.
SLICES: Final = 2


class TrainingStep:
    """The steps of `fit` and `evaluate`; see `TaskModel`."""

    def train_step(self: Any, data: Any) -> dict[str, Any]:
        """Updates the weights once with the gradients of all micro-batches on all replicas."""
        batch = batch_of(self, *keras.utils.unpack_x_y_sample_weight(data))
        replicas = self.distribute_strategy.num_replicas_in_sync
        counts = None
        if replicas > 1 or self.micro_batches > 1:
            counts = _all_reduce(replicas, self.label_counts(batch))
        parts = 1 if self.micro_batches == 1 else tf.minimum(self.micro_batches, batch.size)
        with self._shift_seeds(replicas), self.in_parts(parts, counts):
            gradients = self._gradients_of_all(batch, replicas)
        if not gradients:
            self._warn_of_frozen_weights()
            return self._logs()
        if replicas > 1:  # Keras's optimizer would clip before the sum
            gradients = _all_reduce(replicas, gradients)
            limit = inner(self.optimizer).global_clipnorm
            if limit:
                limit = self.optimizer.scale_loss(limit)
                gradients, _ = tf.clip_by_global_norm(gradients, limit)
            gradients = [gradient / replicas for gradient in gradients]
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return self._logs()

    def test_step(self: Any, data: Any) -> dict[str, Any]:
        batch = batch_of(self, *keras.utils.unpack_x_y_sample_weight(data))
        batch, outputs = self._outputs(batch, training=False)
        loss = self.loss_of(batch, outputs, training=False)
        self._note(loss * self.distribute_strategy.num_replicas_in_sync, batch, outputs)
        return self._logs()

    def _gradients_of_all(self: Any, batch: Batch, replicas: int) -> Tensors:
        """Returns the gradients, summed over this replica's micro-batches."""
        if self.micro_batches == 1:
            return self._gradients(batch, replicas)

        def part(number: Any) -> Any:
            return _map(lambda values: self._micro_batch(values, number), batch)

        def add(number: tf.Tensor, *gradients: tf.Tensor) -> Any:
            more = self._gradients(part(number), replicas)
            return number + 1, *map(tf.add, gradients, more)

        _, *gradients = tf.while_loop(
            lambda number, *_: tf.cast(number, tf.float32) < self.parts,
            add,
            (tf.constant(1), *self._gradients(part(0), replicas)),
            maximum_iterations=self.micro_batches,
        )
        return gradients

    def _micro_batch(self: Any, values: Any, number: Any) -> Any:
        """Returns micro-batch `number`: examples whose index modulo `micro_batches` is `number`."""
        if not self.jit_compile:
            return values[number :: self.micro_batches]
        # XLA requires a constant start for such a slice.
        size = values.shape[0]
        if size is not None and size % self.micro_batches:
            raise UserError(
                "With jit_compile=True, the batch size must be a multiple of micro_batches. "
                f"Received: {size} examples, micro_batches={self.micro_batches}. Use a different "
                "batch_size, a dataset with drop_remainder=True, or jit_compile=False."
            )
        shape = tf.concat([[-1, self.micro_batches], tf.shape(values)[1:]], axis=0)
        return tf.reshape(values, shape)[:, number]

    def _gradients(self: Any, batch: Batch, replicas: int) -> Tensors:
        with tf.GradientTape() as tape:
            batch, outputs = self._outputs(batch, training=True)
            loss = self.loss_of(batch, outputs, training=True)
            self._note(loss * replicas * self.parts, batch, outputs)
            loss = self.optimizer.scale_loss(loss)
        variables = self.trainable_variables
        # Heads without labels have no gradients. unconnected_gradients="zero" fails in eager mode.
        return [
            tf.zeros_like(variable) if gradient is None else tf.convert_to_tensor(gradient)
            for gradient, variable in zip(tape.gradient(loss, variables), variables, strict=True)
        ]

    def _outputs(self: Any, batch: Batch, training: bool) -> tuple[Batch, Any]:
        """Computes the outputs in slices. Returns the batch and outputs in the order of the slices.

        Slice i contains the examples whose index modulo the number of slices is i, so that all
        slices contain about the same number of tokens.
        """
        count = parallel_slices()
        ours = type(self).__module__.startswith("albert_tf.")  # subclasses may need whole batches
        one_device = self.distribute_strategy.num_replicas_in_sync == 1
        if not ours or not one_device or self.jit_compile or count == 1:
            return batch, self.outputs_of(batch, training)
        size = batch.size  # an empty slice of a single example would fail in eager mode
        count = min(count, size) if isinstance(size, int) else count
        slices = [_map(lambda values, i=i: values[i::count], batch) for i in range(count)]
        outputs = [self.outputs_of(part, training) for part in slices]
        return tuple(
            _map(lambda *parts: tf.concat(parts, 0), *whole) for whole in (slices, outputs)
        )

    def _note(self: Any, loss: Any, batch: Batch, outputs: Any) -> None:
        """Updates the metrics. A micro-batch's loss must be scaled to the whole batch."""
        replicas = self.distribute_strategy.num_replicas_in_sync
        self._loss_tracker.update_state(loss, sample_weight=self.loss_weight(batch, replicas))
        self.metrics_of(batch, outputs)

    def _logs(self: Any) -> dict[str, Any]:
        """Returns the metrics. On multiple hosts, returns only the loss, with an axis to reduce."""
        if isinstance(self.distribute_strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return {"loss": tf.reshape(self._loss_tracker.result(), [1])}
        return self.get_metrics_result()

    @contextlib.contextmanager
    def _shift_seeds(self: Any, replicas: int) -> Iterator[None]:
        """Shifts the dropout seeds within the context, so that replicas use different seeds."""
        seeds = [
            variable
            for variable in self.non_trainable_variables
            if variable.name == "seed_generator_state"
        ]
        if replicas == 1 or not seeds:
            yield
            return
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        shift = tf.stack([tf.cast(replica, seeds[0].dtype) * FAR, 0])
        for seed in seeds:
            seed.assign_add(shift)
        yield
        for seed in seeds:
            seed.assign_sub(shift)

    def _maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        """Builds metrics from one replica's batch. By default, Keras averages ids over replicas."""
        strategy = self._distribute_strategy
        if strategy is None:
            return
        local = strategy.experimental_local_results
        for _, _, batches in iterator or ():
            data_batch = keras.tree.map_structure(lambda value: local(value)[0], next(batches))
            break
        with strategy.scope():
            self._symbolic_build(data_batch=data_batch)


def parallel_slices() -> int:
    """Returns how many slices of a batch one device computes in parallel.

    Tracing two slices takes twice as long, so there is only one unless the CPU's threads have been
    divided between two slices, by `distribution.share_threads` or by the user.
    """
    threading = tf.config.threading
    inter = threading.get_inter_op_parallelism_threads() or _number("TF_NUM_INTEROP_THREADS")
    intra = threading.get_intra_op_parallelism_threads() or _number("TF_NUM_INTRAOP_THREADS")
    are_divided = inter == SLICES and 0 < intra <= max(1, cores() // SLICES)
    return SLICES if are_divided and not has_accelerator() else 1


def _number(variable: str) -> int:
    """Returns the number in an environment variable, or 0 if it contains none."""
    value = os.environ.get(variable, "")
    return int(value) if value.isascii() and value.isdigit() else 0


def has_accelerator() -> bool:
    return any(tf.config.list_physical_devices(kind) for kind in ("GPU", "TPU"))


def _all_reduce(replicas: int, values: Any) -> Any:
    if replicas == 1:
        return values
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)

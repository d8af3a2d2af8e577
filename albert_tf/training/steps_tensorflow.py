"""Training and evaluation steps on TensorFlow, under any `tf.distribute` strategy."""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import tensorflow as tf

from albert_tf.models.base import PreTrainedModel
from albert_tf.optimizers import build_optimizer, inner
from albert_tf.training.distribution import parallel_slices
from albert_tf.training.loss import Batch, ClassWeights, Loss, Totals, batch_loss

FAR: Final = 1_000_000_007  # between replicas' dropout seeds, which Keras draws below 1e9


def batches(
    dataset: tf.data.Dataset, strategy: tf.distribute.Strategy, batch_size: int
) -> Iterator[Batch]:
    """Iterates over batches, split among the replicas if there are several.

    Args:
        dataset: this host's part of each global batch.
        batch_size: examples of a global batch.
    """
    replicas = strategy.num_replicas_in_sync
    if replicas == 1:
        return iter(dataset)
    per_replica = dataset.rebatch(batch_size // replicas, drop_remainder=True)
    return iter(strategy.distribute_datasets_from_function(lambda context: per_replica))


class TrainingStep:
    """See `steps`.

    Args:
        model: created and compiled in `strategy`'s scope.
        micro_batches: parts of a replica's batch, computed in turn to save memory; a divisor of
            its examples.
        jit_compile: whether to compile with XLA; on one replica only.
        signature: specs of a batch whose shapes vary, so that one replica traces the step once;
            several replicas trace it anew while shapes are new, then with open dimensions.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        strategy: tf.distribute.Strategy,
        micro_batches: int = 1,
        jit_compile: bool = False,
        signature: Any = None,
        class_weights: ClassWeights = None,
    ):
        self.model, self.strategy = model, strategy
        self.micro_batches, self.loss = micro_batches, Loss(model, class_weights)
        with strategy.scope():
            build_optimizer(model)
        one = strategy.num_replicas_in_sync == 1
        # XLA parallelizes by itself.
        self.slices = parallel_slices() if one and not jit_compile else 1
        self._run = tf.function(
            self._update if one else self._on_replicas,
            jit_compile=jit_compile if one else None,
            input_signature=[signature] if signature and one else None,
            reduce_retracing=not one,
            autograph=False,
        )

    def __call__(self, batch: Batch) -> Totals:
        return self._run(batch)

    def _on_replicas(self, batch: Batch) -> Totals:
        return self.strategy.reduce("SUM", self.strategy.run(self._update, (batch,)), axis=None)

    def _update(self, batch: Batch) -> Totals:
        count = self._all_reduced(self.loss.counts(batch[1]))
        with self._own_seeds():
            total, gradients = self._accumulated(batch, count)
        gradients = self._for_optimizer(self._all_reduced(gradients))
        variables = self.model.trainable_variables
        self.model.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return total

    @contextlib.contextmanager
    def _own_seeds(self) -> Iterator[None]:
        """Gives each replica its own dropout: Keras' seeds are copies of one."""
        seeds = [
            variable
            for variable in self.model.non_trainable_variables
            if variable.name == "seed_generator_state"
        ]
        if self.strategy.num_replicas_in_sync == 1 or not seeds:
            yield
            return
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        shift = tf.stack([tf.cast(replica, seeds[0].dtype) * FAR, 0])
        for seed in seeds:
            seed.assign_add(shift)
        yield
        for seed in seeds:
            seed.assign_sub(shift)

    def _accumulated(self, batch: Batch, count: tf.Tensor) -> tuple[Totals, list[tf.Tensor]]:
        """Returns the totals and gradients of this replica's micro-batches."""
        if self.micro_batches == 1:
            return self._gradients(batch, count)
        parts = tf.nest.map_structure(self._split, batch)

        def at(number: Any) -> Batch:
            return tf.nest.map_structure(lambda part: part[number], parts)

        total, gradients = self._gradients(at(0), count)

        def add(number: tf.Tensor, total: Totals, gradients: list[tf.Tensor]) -> Any:
            more, new = self._gradients(at(number), count)
            both = [old + other for old, other in zip(gradients, new, strict=True)]
            return number + 1, total + more, both

        _, total, gradients = tf.while_loop(
            lambda number, *_: number < self.micro_batches,
            add,
            (tf.constant(1), total, gradients),
            maximum_iterations=self.micro_batches,
        )
        return total, gradients

    def _split(self, values: tf.Tensor) -> tf.Tensor:
        """`[B, …]` to `[micro_batches, B / micro_batches, …]`."""
        shape = tf.concat([[self.micro_batches, -1], tf.shape(values)[1:]], 0)
        split = tf.reshape(values, shape)
        size = values.shape[0] and values.shape[0] // self.micro_batches
        return tf.ensure_shape(split, [self.micro_batches, size, *values.shape[1:]])

    def _gradients(self, batch: Batch, count: tf.Tensor) -> tuple[Totals, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            totals = _totals(self.loss, batch, self.slices, training=True)
            scaled = self.model.optimizer.scale_loss(batch_loss(totals, count))
        variables = self.model.trainable_variables
        # A head without labels has none. TensorFlow's own option fails in eager mode.
        return totals, [
            tf.zeros_like(variable) if gradient is None else gradient
            for gradient, variable in zip(tape.gradient(scaled, variables), variables, strict=True)
        ]

    def _all_reduced(self, values: Any) -> Any:
        if self.strategy.num_replicas_in_sync == 1:
            return values
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)

    def _for_optimizer(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        """Clips and divides by the replicas: Keras' optimizer clips before it sums over them."""
        replicas, optimizer = self.strategy.num_replicas_in_sync, self.model.optimizer
        if replicas == 1:
            return gradients
        limit = inner(optimizer).global_clipnorm
        if limit:
            gradients, _ = tf.clip_by_global_norm(gradients, optimizer.scale_loss(limit))
        return [gradient / replicas for gradient in gradients]


class Evaluation:
    """See `steps`."""

    def __init__(self, model: PreTrainedModel, strategy: tf.distribute.Strategy):
        self.model, self.strategy = model, strategy
        self.slices = parallel_slices() if strategy.num_replicas_in_sync == 1 else 1
        self._run = tf.function(self._on_replicas, autograph=False)

    def __call__(self, dataset: tf.data.Dataset) -> Totals:
        return sum(map(self._run, self.strategy.experimental_distribute_dataset(dataset)))

    def _on_replicas(self, batch: Batch) -> Totals:
        return self.strategy.reduce("SUM", self.strategy.run(self._totals, (batch,)), axis=None)

    def _totals(self, batch: Batch) -> Totals:
        return _totals(Loss(self.model), batch, self.slices)


def _totals(loss: Loss, batch: Batch, slices: int, training: bool = False) -> Totals:
    """Returns the totals of a batch, whose slices TensorFlow computes in parallel.

    Slice i has each example whose number is i modulo `slices`, and so about as many tokens.
    """
    totals = []
    for number in range(slices):
        features, labels = tf.nest.map_structure(lambda values, i=number: values[i::slices], batch)
        totals.append(loss.totals(labels, loss.model(features, training=training)))
    return tf.add_n(totals)

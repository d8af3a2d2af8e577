"""One update of the weights on TensorFlow: micro-batches, on every replica, of one global batch.

`Model.fit` clips gradients and divides losses on each replica by itself, and can't accumulate
under a strategy; this step does both over the whole global batch.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import keras
import tensorflow as tf

from albert_tf.models.losses import IGNORED
from albert_tf.training.pretraining.metrics import Sums, added, sums

FAR: Final = 1_000_000_007  # between replicas' seeds of dropout, which Keras draws below 1e9
Batch = tuple[Mapping[str, tf.Tensor], Mapping[str, tf.Tensor]]


class TrainingStep:
    """Updates a compiled `AlbertForPreTraining` by its optimizer.

    Each mean in the loss is over what counts in all replicas and micro-batches; gradients are
    summed over both, then clipped, then applied once.

    Args:
        model: made and compiled in `strategy`'s scope.
        strategy: of `tf.distribute`.
        micro_batches: parts in which a replica's batch is computed, to save memory; a divisor of
            its examples.
        jit_compile: by XLA; on one replica only.
    Call arguments:
        batch: features and labels of a batch, or `PerReplica` values of `strategy`.
    Returns:
        the global batch's sums, float32 scalars, from before the update.
    """

    def __init__(
        self,
        model: keras.Model,
        strategy: tf.distribute.Strategy,
        micro_batches: int = 1,
        jit_compile: bool = False,
    ):
        self.model, self.strategy, self.micro_batches = model, strategy, micro_batches
        with strategy.scope():
            model.optimizer.build(model.trainable_variables)
        if strategy.num_replicas_in_sync == 1:
            self._run = tf.function(self._update, jit_compile=jit_compile, autograph=False)
        else:
            self._run = tf.function(self._on_replicas, autograph=False)

    def __call__(self, batch: Batch) -> Sums:
        return self._run(batch)

    def _on_replicas(self, batch: Batch) -> Sums:
        return summed(self.strategy, self.strategy.run(self._update, (batch,)))

    def _update(self, batch: Batch) -> Sums:
        counts = self._all_reduced(_counts(batch[1]))
        with self._own_draws():
            total, gradients = self._accumulated(batch, counts)
        optimizer, variables = self.model.optimizer, self.model.trainable_variables
        shared_out = self._shared_out(self._all_reduced(gradients))
        optimizer.apply_gradients(zip(shared_out, variables, strict=True))
        return total

    @contextlib.contextmanager
    def _own_draws(self) -> Iterator[None]:
        """Keeps replicas from dropping the same units: Keras' seeds are copies of one."""
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

    def _accumulated(
        self, batch: Batch, counts: Sequence[tf.Tensor]
    ) -> tuple[Sums, list[tf.Tensor]]:
        """Sums and gradients of this replica's micro-batches."""
        if self.micro_batches == 1:
            return self._gradients(batch, counts)
        parts = tf.nest.map_structure(self._split, batch)
        at = lambda number: tf.nest.map_structure(lambda part: part[number], parts)  # noqa: E731
        total, gradients = self._gradients(at(0), counts)

        def more(number: tf.Tensor, total: Sums, gradients: list[tf.Tensor]) -> Any:
            here, new = self._gradients(at(number), counts)
            both = [old + other for old, other in zip(gradients, new, strict=True)]
            return number + 1, added([total, here]), both

        _, total, gradients = tf.while_loop(
            lambda number, *_: number < self.micro_batches,
            more,
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

    def _gradients(self, batch: Batch, counts: Sequence[tf.Tensor]) -> tuple[Sums, list[tf.Tensor]]:
        features, labels = batch
        with tf.GradientTape() as tape:
            found = sums(labels, self.model(features, training=True))
            predictions, sentences = counts
            loss = tf.math.divide_no_nan(found.masked_lm_loss, predictions)
            loss += tf.math.divide_no_nan(found.sentence_order_loss, sentences)
            scaled = self.model.optimizer.scale_loss(loss)
        variables = self.model.trainable_variables
        return found, tape.gradient(
            scaled, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )

    def _all_reduced(self, values: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
        if self.strategy.num_replicas_in_sync == 1:
            return values
        return tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.SUM, list(values)
        )

    def _shared_out(self, gradients: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
        """What each replica hands to Keras' optimizer, which sums it over them, and clips before.

        So what it gets is clipped here, and divided by the number of replicas.
        """
        replicas = self.strategy.num_replicas_in_sync
        if replicas == 1:
            return gradients
        optimizer = self.model.optimizer
        limit = getattr(optimizer, "inner_optimizer", optimizer).global_clipnorm
        if limit:
            gradients, _ = tf.clip_by_global_norm(gradients, optimizer.scale_loss(limit))
        return [gradient / replicas for gradient in gradients]


class EvaluationStep:
    """The sums of a batch, without an update; arguments as of `TrainingStep`."""

    def __init__(self, model: keras.Model, strategy: tf.distribute.Strategy):
        self.model, self.strategy = model, strategy
        self._run = tf.function(self._on_replicas, autograph=False)

    def __call__(self, batch: Batch) -> Sums:
        return self._run(batch)

    def _on_replicas(self, batch: Batch) -> Sums:
        def evaluate(batch: Batch) -> Sums:
            return sums(batch[1], self.model(batch[0], training=False))

        return summed(self.strategy, self.strategy.run(evaluate, (batch,)))


def summed(strategy: tf.distribute.Strategy, per_replica: Sums) -> Sums:
    """The sums of all replicas together."""
    return Sums(*(strategy.reduce("SUM", value, axis=None) for value in per_replica))


def _counts(labels: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
    """How many predictions and pairs count, float32."""
    names = ("labels", "sentence_order_label")
    return [_count(labels[name]) if name in labels else tf.constant(0.0) for name in names]


def _count(labels: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(labels != IGNORED, tf.float32))

"""The training step on JAX. Batches are arrays sharded over devices.

Micro-batches don't affect the model's own loss, except through dropout.
"""

from typing import Any

import jax
import keras

from albert_tf.errors import UserError
from albert_tf.models.batch import batch_of


class TrainingStep:
    """The training step of `fit`; see `TaskModel`."""

    def train_step(self: Any, state: Any, data: Any) -> Any:
        """Updates the weights once with the gradients of all micro-batches."""
        batch = batch_of(self, *keras.utils.unpack_x_y_sample_weight(data))
        data = batch.for_keras(self.targets)
        if self.micro_batches == 1:
            return super().train_step(state, data)  # type: ignore[misc]
        weights, others, optimizer_state, metrics = state
        gradient = jax.grad(self.compute_loss_and_updates, has_aux=True)

        def add(carried: Any, part: Any) -> Any:
            gradients, others, metrics = carried
            x, y, sample_weight = part
            more, (loss, outputs, others, metrics) = gradient(
                *(weights, others, metrics, x, y, sample_weight),
                training=True,
                optimizer_variables=optimizer_state,
            )
            logs, metrics = self._update_metrics_variables(
                *(metrics, loss * self.parts, x, y, outputs, sample_weight)
            )
            return (jax.tree.map(jax.numpy.add, gradients, more), others, metrics), logs

        begin = jax.tree.map(jax.numpy.zeros_like, weights), others, metrics
        with self.in_parts(self.micro_batches, self.label_counts(batch)):
            parts = jax.tree.map(self._split, data)
            (gradients, others, metrics), logs = jax.lax.scan(add, begin, parts)
        weights, optimizer_state = self.optimizer.stateless_apply(
            optimizer_state, gradients, weights
        )
        last = jax.tree.map(lambda values: values[-1], logs)
        return last, (weights, others, optimizer_state, metrics)

    def _update_metrics_variables(
        self: Any, metrics: Any, loss: Any, x: Any, y: Any, outputs: Any, sample_weight: Any
    ) -> Any:
        """Updates the metrics as Keras does, but weights the loss by `loss_weight`."""
        known = list(zip(self.metrics_variables, metrics, strict=True))
        batch = batch_of(self, x, y, sample_weight)
        with keras.StatelessScope(state_mapping=known) as scope:
            weight = self.loss_weight(batch)
            self._loss_tracker.update_state(loss, sample_weight=weight)
            logs = self.metrics_of(batch, outputs)
        return logs, [scope.get_current_value(variable) for variable in self.metrics_variables]

    def _split(self: Any, values: Any) -> Any:
        """Reshapes to `[micro_batches, B / micro_batches, …]`; examples stay on their devices."""
        if len(values) % self.micro_batches:
            raise UserError(
                "On JAX, the batch size must be a multiple of micro_batches. Received: "
                f"{len(values)} examples, micro_batches={self.micro_batches}. Pass a different "
                "batch_size to fit, or a dataset with drop_remainder=True."
            )
        parts = values.reshape(-1, self.micro_batches, *values.shape[1:])
        return parts.swapaxes(0, 1)

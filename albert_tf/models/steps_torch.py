"""The training step on torch, for one device.

Micro-batches don't affect the model's own loss, except through dropout.
"""

from typing import Any

import keras
import torch

from albert_tf.models.batch import batch_of


class TrainingStep:
    """The steps of `fit` and `evaluate`; see `TaskModel`."""

    def train_step(self: Any, data: Any) -> dict[str, Any]:
        """Updates the weights once with the gradients of all micro-batches."""
        batch = batch_of(self, *keras.utils.unpack_x_y_sample_weight(data))
        counts = self.label_counts(batch) if self.micro_batches > 1 else None
        parts = min(self.micro_batches, batch.size)
        if not (weights := self.trainable_weights[:]):
            self._warn_of_frozen_weights()
        self.zero_grad()
        with self.in_parts(parts, counts):
            for number in range(parts):
                part = keras.tree.map_structure(lambda values, i=number: values[i::parts], batch)
                outputs = self.outputs_of(part, training=True)
                loss, weight = self.loss_of(part, outputs, training=True), self.loss_weight(part)
                self._loss_tracker.update_state(loss * self.parts, sample_weight=weight)
                if weights:
                    self.optimizer.scale_loss(loss).backward()
                self.metrics_of(part, outputs)
        gradients = [
            torch.zeros_like(weight.value) if weight.value.grad is None else weight.value.grad
            for weight in weights
        ]
        with torch.no_grad():
            self.optimizer.apply(gradients, weights)
        return self.get_metrics_result()

    def test_step(self: Any, data: Any) -> dict[str, Any]:
        batch = batch_of(self, *keras.utils.unpack_x_y_sample_weight(data))
        outputs = self.outputs_of(batch, training=False)
        loss = self.loss_of(batch, outputs, training=False)
        self._loss_tracker.update_state(loss, sample_weight=self.loss_weight(batch))
        return self.metrics_of(batch, outputs)

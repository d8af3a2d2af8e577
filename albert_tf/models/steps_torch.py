"""The training step on torch: exact over micro-batches, on one device."""

from typing import Any

import keras
import torch


class TrainingStep:
    """The step of `fit`; see `TaskModel`."""

    def train_step(self: Any, data: Any) -> dict[str, Any]:
        """Updates the weights once, by the gradients of all micro-batches."""
        data = keras.utils.unpack_x_y_sample_weight(data)
        counts = self._label_counts(*data[:2]) if self.micro_batches > 1 else None
        self.zero_grad()
        with self._counted_by(counts):
            for number in range(self.micro_batches):
                part = keras.tree.map_structure(
                    lambda values, i=number: values[i :: self.micro_batches],
                    data,
                    none_is_leaf=False,
                )
                self._add_gradients(*part)
        weights = self.trainable_weights[:]
        gradients = [
            torch.zeros_like(weight.value) if weight.value.grad is None else weight.value.grad
            for weight in weights
        ]
        with torch.no_grad():
            self.optimizer.apply(gradients, weights)
        return self.get_metrics_result()

    def _add_gradients(self: Any, x: Any, y: Any, sample_weight: Any) -> None:
        outputs = self(x, training=True)
        loss = self._compute_loss(x, y, outputs, sample_weight, training=True)
        weight = self._loss_weight(x, y, self.micro_batches)
        self._loss_tracker.update_state(loss * self.micro_batches, sample_weight=weight)
        self.optimizer.scale_loss(loss).backward()
        self.compute_metrics(x, y, outputs, sample_weight)

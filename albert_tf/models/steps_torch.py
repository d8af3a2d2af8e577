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
                self._add_gradients(
                    *keras.tree.map_structure(
                        lambda values, i=number: (
                            None if values is None else values[i :: self.micro_batches]
                        ),
                        data,
                    )
                )
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
        size = next(value for value in keras.tree.flatten(x) if value is not None).shape[0]
        self._loss_tracker.update_state(loss * self.micro_batches, sample_weight=size)
        self.optimizer.scale_loss(loss).backward()
        self.compute_metrics(x, y, outputs, sample_weight)

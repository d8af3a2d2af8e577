"""Training and evaluation steps on torch, on one device."""

from collections.abc import Iterator
from typing import Any

import keras
import torch
from keras import ops

from albert_tf.layers.common import Tensor
from albert_tf.models.base import PreTrainedModel
from albert_tf.optimizers import build_optimizer
from albert_tf.training.loss import Batch, ClassWeights, Loss, Totals, batch_loss


def batches(dataset: Any, strategy: None, batch_size: int) -> Iterator[Batch]:
    """Iterates over batches on Keras' device.

    Args:
        dataset: a `tf.data.Dataset`.
    """
    numpy = dataset.as_numpy_iterator()
    return (keras.tree.map_structure(ops.convert_to_tensor, batch) for batch in numpy)


class TrainingStep:
    """See `steps`. It runs eagerly.

    Args:
        micro_batches: parts of a batch, computed in turn to save memory; a divisor of its examples.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        strategy: None,
        micro_batches: int = 1,
        jit_compile: bool = False,
        signature: Any = None,
        class_weights: ClassWeights = None,
    ):
        build_optimizer(model)
        self.model, self.micro_batches, self.loss = model, micro_batches, Loss(model, class_weights)

    def __call__(self, batch: Batch) -> Totals:
        model, count = self.model, self.loss.counts(batch[1])
        weights = model.trainable_variables
        for weight in weights:
            weight.value.grad = None
        features, labels = keras.tree.map_structure(self._split, batch)
        total = 0.0
        for number in range(self.micro_batches):
            part = {name: values[number] for name, values in labels.items()}
            outputs = model(
                {name: values[number] for name, values in features.items()}, training=True
            )
            totals = self.loss.totals(part, outputs)
            model.optimizer.scale_loss(batch_loss(totals, count)).backward()
            total = total + totals.detach()
        gradients = [
            torch.zeros_like(weight.value) if weight.value.grad is None else weight.value.grad
            for weight in weights
        ]
        with torch.no_grad():
            model.optimizer.apply(gradients, weights)
        return total

    def _split(self, values: Tensor) -> Tensor:
        """`[B, …]` to `[micro_batches, B / micro_batches, …]`."""
        return values.reshape(self.micro_batches, -1, *values.shape[1:])


class Evaluation:
    """See `steps`."""

    def __init__(self, model: PreTrainedModel, strategy: None):
        self.model, self.loss = model, Loss(model)

    def __call__(self, dataset: Any) -> Totals:
        with torch.no_grad():
            return sum(
                self.loss.totals(labels, self.model(features, training=False))
                for features, labels in batches(dataset, None, 0)
            )

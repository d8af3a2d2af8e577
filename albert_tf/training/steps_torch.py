"""Training and evaluation steps on torch, on one device."""

from collections.abc import Iterator
from typing import Any

import keras
import torch
from keras import ops

from albert_tf.layers.common import Tensor
from albert_tf.models.base import PreTrainedModel
from albert_tf.training.objective import Objective
from albert_tf.training.optimizers import build_optimizer
from albert_tf.training.sums import PLAIN, Batch, Sums, batch_loss, counts, sums


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
        objective: Objective = PLAIN,
    ):
        build_optimizer(model)
        self.model, self.micro_batches, self.objective = model, micro_batches, objective

    def __call__(self, batch: Batch) -> Sums:
        model, count = self.model, counts(self.model, batch[1])
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
            found = sums(model, part, outputs, self.objective)
            model.optimizer.scale_loss(batch_loss(found, count)).backward()
            total = total + found.detach()
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
        self.model = model

    def __call__(self, dataset: Any) -> Sums:
        with torch.no_grad():
            return sum(
                sums(self.model, labels, self.model(features, training=False))
                for features, labels in batches(dataset, None, 0)
            )

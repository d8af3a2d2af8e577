"""Training and evaluation steps on JAX, on one device or under `keras.distribution`."""

from collections.abc import Iterator
from typing import Any

import jax
import keras
import numpy as np

from albert_tf.models.base import PreTrainedModel
from albert_tf.models.losses import IGNORED
from albert_tf.optimizers import build_optimizer
from albert_tf.training import distribution
from albert_tf.training.loss import Batch, ClassWeights, Loss, Totals, batch_loss

State = list[list[Any]]  # values of trainable, other and optimizer variables


def batches(dataset: Any, strategy: Any, batch_size: int) -> Iterator[Batch]:
    """Iterates over batches on this host's devices.

    Args:
        dataset: a `tf.data.Dataset` of this host's part of each global batch.
    """
    return (_on_devices(batch, strategy) for batch in dataset.as_numpy_iterator())


class TrainingStep:
    """See `steps`. Create it in the strategy's scope; JAX always compiles.

    Args:
        micro_batches: parts of a device's batch, computed in turn to save memory; a divisor of its
            examples.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        strategy: Any,
        micro_batches: int = 1,
        jit_compile: bool = True,
        signature: Any = None,
        class_weights: ClassWeights = None,
    ):
        build_optimizer(model)
        self.model, self.micro_batches, self.loss = model, micro_batches, Loss(model, class_weights)
        self._variables = [
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
        ]
        shardings = None
        if strategy is not None:
            shardings = (
                _replicated(model),
                jax.tree.map(lambda value: value.sharding, self._state()),
            )
        self._run = jax.jit(self._update, donate_argnums=0, out_shardings=shardings)

    def __call__(self, batch: Batch) -> Totals:
        total, state = self._run(self._state(), batch)
        for variables, values in zip(self._variables, state, strict=True):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
        return total

    def _state(self) -> State:
        return [[variable.value for variable in part] for part in self._variables]

    def _update(self, state: State, batch: Batch) -> tuple[Totals, State]:
        weights, others, optimizer_state = state
        optimizer, count = self.model.optimizer, self.loss.counts(batch[1])

        def loss(weights: Any, others: Any, part: Batch) -> Any:
            outputs, others = self.model.stateless_call(weights, others, part[0], training=True)
            totals = self.loss.totals(part[1], outputs)
            mapping = list(zip(optimizer.variables, optimizer_state, strict=True))
            with keras.StatelessScope(state_mapping=mapping):  # where a loss scale is read
                return optimizer.scale_loss(batch_loss(totals, count)), (totals, others)

        def add(carried: tuple[Any, Any], part: Batch) -> tuple[tuple[Any, Any], Totals]:
            gradients, others = carried
            gradient = jax.grad(loss, has_aux=True)
            more, (totals, others) = gradient(weights, others, part)
            return (jax.tree.map(jax.numpy.add, gradients, more), others), totals

        begin = jax.tree.map(jax.numpy.zeros_like, weights), others
        (gradients, others), totals = jax.lax.scan(add, begin, jax.tree.map(self._split, batch))
        weights, optimizer_state = optimizer.stateless_apply(optimizer_state, gradients, weights)
        return totals.sum(axis=0), [weights, others, optimizer_state]

    def _split(self, values: jax.Array) -> jax.Array:
        """`[B, …]` to `[micro_batches, B / micro_batches, …]`; examples stay on their devices."""
        parts = values.reshape(-1, self.micro_batches, *values.shape[1:])
        return parts.swapaxes(0, 1)


class Evaluation:
    """See `steps`. No batch of the dataset is larger than its first."""

    def __init__(self, model: PreTrainedModel, strategy: Any):
        self.model, self.strategy = model, strategy
        shardings = None if strategy is None else _replicated(model)
        self._run = jax.jit(self._totals, out_shardings=shardings)

    def __call__(self, dataset: Any) -> Totals:
        weights, others = (
            [variable.value for variable in part]
            for part in (self.model.trainable_variables, self.model.non_trainable_variables)
        )
        return sum(self._run(weights, others, batch) for batch in self._filled_up(dataset))

    def _totals(self, weights: list[Any], others: list[Any], batch: Batch) -> Totals:
        outputs, _ = self.model.stateless_call(weights, others, batch[0], training=False)
        return Loss(self.model).totals(batch[1], outputs)

    def _filled_up(self, dataset: Any) -> Iterator[Batch]:
        """Yields this host's part of batches of one size that the devices can share.

        Examples added to a smaller last batch have labels that don't count.
        """
        here, replicas, size = (
            distribution.hosts(self.strategy),
            distribution.replicas(self.strategy),
            0,
        )
        for features, labels in dataset.as_numpy_iterator():
            examples = len(next(iter(labels.values())))
            size = size or examples + -examples % replicas
            parts = (
                {name: _filled(values, size, fill) for name, values in part.items()}
                for part, fill in ((features, 0), (labels, IGNORED))
            )
            own = jax.tree.map(lambda values: values[here.index :: here.count], (*parts,))
            yield _on_devices(own, self.strategy)


def _filled(values: np.ndarray, size: int, fill: int) -> np.ndarray:
    after = [(0, size - len(values)), *[(0, 0)] * (values.ndim - 1)]
    return np.pad(values, after, constant_values=fill)


def _on_devices(batch: Any, strategy: Any) -> Any:
    """Shares a host's part of a batch out among its devices."""
    if strategy is None:
        return batch

    def share(values: np.ndarray) -> jax.Array:
        layout = strategy.get_data_layout(values.shape).backend_layout
        return jax.make_array_from_process_local_data(layout, values)

    return jax.tree.map(share, batch)


def _replicated(model: PreTrainedModel) -> jax.sharding.Sharding:
    mesh = model.trainable_variables[0].value.sharding.mesh
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())

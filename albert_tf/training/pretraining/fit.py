"""Pretraining on JAX and torch: `Model.fit`, with a step that computes what `step.py` does.

Micro-batches are parts of one step here. Keras' own `gradient_accumulation_steps` would average
means over unlike numbers of predictions, and count parts as steps in schedules and EMA.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from albert_tf.models.losses import IGNORED
from albert_tf.training import runtime
from albert_tf.training.pretraining.metrics import NOTHING, Sums, added, sums

Batch = tuple[Mapping[str, Any], Mapping[str, Any]]


def fit(
    model: keras.Model,
    batches: Any,
    steps: int,
    after: Callable[[Sums], None],
    micro_batches: int = 1,
) -> None:
    """Updates a compiled `AlbertForPreTraining` by its optimizer, `steps` times.

    With `use_ema` the weights themselves stay in the model, and their average in the optimizer.

    Args:
        model: made in `runtime.scope` of its strategy, in which this is called, too.
        batches: a `tf.data.Dataset` of features and labels; of global batches, this host's part.
        after: is given the sums of each global batch, from before its update. The model may be
            saved and evaluated there.
        micro_batches: parts in which a batch is computed, to save memory; a divisor of a replica's
            examples.
    Raises:
        ValueError: the optimizer accumulates gradients itself.
    """
    accumulated = _inner(model.optimizer).gradient_accumulation_steps
    if accumulated:
        raise ValueError(
            "Gradients are accumulated within a step: an optimizer that does it, too, counts parts "
            f"as steps. Received: gradient_accumulation_steps={accumulated}. "
            "Give micro_batches instead."
        )
    trainer = _Trainer(model, micro_batches)
    hooks = _Hooks(after)
    trainer.fit(batches, steps_per_epoch=steps, callbacks=[hooks], shuffle=False, verbose=0)
    hooks.put_back()


class Evaluation:
    """The sums of held-out batches; within `fit`'s `after`, too. Compiles once.

    Call arguments:
        batches: a `tf.data.Dataset` of features and labels, of known cardinality, the same on all
            hosts; none is larger than the first.
    """

    def __init__(self, model: keras.Model):
        self.model = model
        self.trainer: _Trainer | None = None

    def __call__(self, batches: Any) -> Sums:
        found: list[Sums] = []
        collect = keras.callbacks.LambdaCallback(
            on_test_batch_end=lambda batch, logs: found.append(Sums(**logs))
        )
        self.trainer = self.trainer or _Trainer(self.model)  # in the scope of the strategy
        steps = int(batches.cardinality())
        self.trainer.evaluate(_filled_up(batches), steps=steps, callbacks=[collect], verbose=0)
        return added(found)


def _filled_up(batches: Any) -> Iterator[Batch]:
    """This host's parts of batches, all of one size that devices can share; fillers don't count."""
    strategy, size = keras.distribution.distribution(), 0
    here, replicas = runtime.hosts(strategy), runtime.replicas(strategy)
    for features, labels in batches.as_numpy_iterator():
        examples = len(labels["labels"])
        size = size or examples + -examples % replicas
        filled = (
            {name: _filled(values, size, fill) for name, values in part.items()}
            for part, fill in ((features, 0), (labels, IGNORED))
        )
        yield keras.tree.map_structure(lambda values: values[here.index :: here.count], (*filled,))


def _filled(values: np.ndarray, size: int, fill: int) -> np.ndarray:
    after = [(0, size - len(values)), *[(0, 0)] * (values.ndim - 1)]
    return np.pad(values, after, constant_values=fill)


class _Hooks(keras.callbacks.Callback):
    """Calls `after`, and undoes what `fit` does to the weights at its end with `use_ema`."""

    def __init__(self, after: Callable[[Sums], None]):
        super().__init__()
        self.after = after
        self.kept: list[tuple[Any, Any]] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        _ = self.model  # puts JAX' state into the variables, for `after` to see
        self.after(Sums(**logs))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if _inner(self.model.optimizer).use_ema:
            variables = self.model.trainable_variables
            self.kept = [(variable, ops.copy(variable.value)) for variable in variables]

    def put_back(self) -> None:
        """Without it, JAX would also find a weight and its average in one buffer, and fail."""
        for variable, value in self.kept:
            variable.assign(value)


class _Trainer(keras.Model):
    """A model with a training step whose means are over a whole batch, and sums as its metrics."""

    def __init__(self, pretrained: keras.Model, micro_batches: int = 1):
        super().__init__()
        self.pretrained, self.micro_batches = pretrained, micro_batches
        self.built = True
        self.compile(pretrained.optimizer)

    def call(self, features: Mapping[str, Any], training: bool | None = None) -> Any:
        return self.pretrained(features, training=training)

    def train_step(self, *arguments: Any) -> Any:
        on_jax = keras.backend.backend() == "jax"
        return self._jax_step(*arguments) if on_jax else self._torch_step(*arguments)

    def compute_loss(self, *arguments: Any, **named: Any) -> Any:
        """Of evaluation, where sums tell it."""
        return ops.zeros(())

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict:
        return sums(y, y_pred)._asdict()

    def _jax_step(self, state: tuple[Any, ...], batch: Batch) -> tuple[dict[str, Any], Any]:
        import jax

        weights, others, optimizer_state, metrics = state
        counts = _counts(batch[1])

        def loss(weights: Any, others: Any, part: Batch) -> Any:
            outputs, others = self.stateless_call(weights, others, part[0], training=True)
            found = sums(part[1], outputs)
            mapping = list(zip(self.optimizer.variables, optimizer_state, strict=True))
            with keras.StatelessScope(state_mapping=mapping):  # where a loss scale is read
                return self.optimizer.scale_loss(_loss(found, counts)), (found, others)

        def add(carried: tuple[Any, Any], part: Batch) -> tuple[tuple[Any, Any], Sums]:
            gradients, others = carried
            (_, (found, others)), more = jax.value_and_grad(loss, has_aux=True)(
                weights, others, part
            )
            return (jax.tree.map(ops.add, gradients, more), others), found

        carried = [ops.zeros_like(weight) for weight in weights], others
        (gradients, others), found = jax.lax.scan(add, carried, jax.tree.map(self._split, batch))
        total = Sums(*map(ops.sum, found))
        weights, optimizer_state = self.optimizer.stateless_apply(
            optimizer_state, gradients, weights
        )
        return total._asdict(), (weights, others, optimizer_state, metrics)

    def _torch_step(self, batch: Batch) -> dict[str, Any]:
        import torch

        counts, weights = _counts(batch[1]), self.trainable_variables
        for weight in weights:
            weight.value.grad = None
        features, labels = keras.tree.map_structure(self._split, batch)
        total = NOTHING
        for number in range(self.micro_batches):
            part = {name: values[number] for name, values in labels.items()}
            outputs = self(
                {name: values[number] for name, values in features.items()}, training=True
            )
            found = sums(part, outputs)
            self.optimizer.scale_loss(_loss(found, counts)).backward()
            total = added([total, Sums(*(value.detach() for value in found))])
        gradients = [
            torch.zeros_like(weight.value) if weight.value.grad is None else weight.value.grad
            for weight in weights
        ]
        with torch.no_grad():
            self.optimizer.apply(gradients, weights)
        return total._asdict()

    def _split(self, values: Any) -> Any:
        """`[B, …]` to `[micro_batches, B / micro_batches, …]`; each device keeps its examples."""
        parts = ops.reshape(values, (-1, self.micro_batches, *values.shape[1:]))
        return ops.swapaxes(parts, 0, 1)


def _inner(optimizer: Any) -> Any:
    """The optimizer itself, where one that scales losses is around it."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _counts(labels: Mapping[str, Any]) -> tuple[Any, Any]:
    """How many predictions and pairs count; 1 where none does, whose sum is 0."""
    predictions, sentences = (
        ops.sum(ops.cast(ops.not_equal(labels[name], IGNORED), "float32"))
        if name in labels
        else 0.0
        for name in ("labels", "sentence_order_label")
    )
    return ops.maximum(predictions, 1.0), ops.maximum(sentences, 1.0)


def _loss(found: Sums, counts: tuple[Any, Any]) -> Any:
    """A part's share of the loss of the whole batch."""
    return found.masked_lm_loss / counts[0] + found.sentence_order_loss / counts[1]

"""Optimizers in training loops: their variables, and the average of the weights."""

import contextlib
from collections.abc import Iterator

import keras

from albert_tf.optimizers import inner


def build_optimizer(model: keras.Model) -> None:
    """Creates the optimizer's variables for the model's weights.

    Raises:
        ValueError: the optimizer accumulates gradients itself.
    """
    if not model.optimizer.built:  # a loss scaler would build itself anew
        model.optimizer.build(model.trainable_variables)
    accumulated = inner(model.optimizer).gradient_accumulation_steps
    if accumulated:
        raise ValueError(
            "Gradients are accumulated within a step: an optimizer that accumulates too counts "
            f"micro-batches as steps. Received: gradient_accumulation_steps={accumulated}. "
            "Give micro_batches instead."
        )


@contextlib.contextmanager
def averaged_weights(model: keras.Model) -> Iterator[None]:
    """Gives the model its optimizer's average of the weights within the block, if there is one."""
    optimizer = inner(model.optimizer)
    if not optimizer.use_ema:
        yield
        return
    own = [keras.ops.convert_to_numpy(weight) for weight in model.trainable_variables]
    optimizer.finalize_variable_values(model.trainable_variables)
    try:
        yield
    finally:
        for weight, value in zip(model.trainable_variables, own, strict=True):
            weight.assign(value)

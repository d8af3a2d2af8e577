"""Gives a model's vocabulary another size."""

from typing import Any

import numpy as np
from keras import ops

from albert_tf.errors import UserError
from albert_tf.layers.common import ConfiguredLayer


def resize_vocabulary(model: Any, size: int) -> None:
    """Replaces the word table and the bias of every word by ones of another size, in place.

    Args:
        model: any model.
        size: V. Words that remain keep their weights; new ones are initialized.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and optimizer.built:
        raise UserError(
            "The vocabulary must be resized before training: the optimizer's state has its size. "
            f"Received: an optimizer after {int(optimizer.iterations)} steps. "
            "Call compile again, then resize_token_embeddings."
        )
    config = model.config.replace(vocab_size=size)
    layers = [each for each in model._flatten_layers() if hasattr(each, "config")]
    for layer in layers:
        layer.config = layer.config.replace(vocab_size=config.vocab_size)
    for layer in layers:
        if isinstance(layer, ConfiguredLayer) and hasattr(layer, "add_variables"):
            _make_variables_again(layer)
    model.train_function = model.test_function = model.predict_function = None


def _make_variables_again(layer: Any) -> None:
    """Makes all of a layer's own variables, in their order: files of weights go by it."""
    old = {variable.name: variable for variable in layer._trainable_variables}
    values = {name: ops.convert_to_numpy(variable) for name, variable in old.items()}
    for name in old:
        delattr(layer, name)
    layer._tracker.unlock()  # Keras' own quantization replaces variables in this way.
    with layer._open_name_scope():
        layer.add_variables()
    layer._tracker.lock()
    for name, value in values.items():
        variable = getattr(layer, name)
        new = np.array(ops.convert_to_numpy(variable))
        rows = min(len(new), len(value))
        new[:rows] = value[:rows]
        variable.assign(new)

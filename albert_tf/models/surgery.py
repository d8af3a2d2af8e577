"""Changes a model's vocabulary, depth, or weight sharing, and keeps its weights."""

import dataclasses
import re
from typing import Any, TypeVar

import keras
import numpy as np
from keras import ops

from albert_tf.checkpoints import weights
from albert_tf.config import AlbertConfig, group_schedule
from albert_tf.errors import UserError
from albert_tf.layers.common import ConfiguredLayer

Model = TypeVar("Model", bound=keras.Model)


def steps_of(optimizer: keras.optimizers.Optimizer) -> int:
    """Returns the number of steps that an optimizer has taken."""
    return int(ops.convert_to_numpy(optimizer.iterations))  # int() rejects per-replica variables


def resize_vocabulary(model: Any, size: int) -> None:
    """Replaces the word embeddings and the bias of the masked-LM head in place."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and optimizer.built:
        raise UserError(
            "The vocabulary must be resized before training, but the optimizer already has state "
            f"(after {steps_of(optimizer)} steps). Call compile again, then "
            "resize_token_embeddings."
        )
    config = model.config.replace(vocab_size=size)
    layers = [each for each in model._flatten_layers() if hasattr(each, "config")]
    for layer in layers:
        layer.config = layer.config.replace(vocab_size=config.vocab_size)
    for layer in layers:
        if isinstance(layer, ConfiguredLayer) and hasattr(layer, "add_variables"):
            _recreate_variables(layer)
    model.train_function = model.test_function = model.predict_function = None


def _recreate_variables(layer: Any) -> None:
    """Recreates all variables of a layer in order, because weight files depend on the order."""
    old = {variable.name: variable for variable in layer._trainable_variables}
    values = {name: ops.convert_to_numpy(variable) for name, variable in old.items()}
    for name in old:
        delattr(layer, name)
    layer._tracker.unlock()  # as in Keras's own quantization
    with layer._open_name_scope():
        layer.add_variables()
    layer._tracker.lock()
    for name, value in values.items():
        variable = getattr(layer, name)
        new = np.array(ops.convert_to_numpy(variable))
        rows = min(len(new), len(value))
        new[:rows] = value[:rows]
        variable.assign(new)


def redraw_merged_adapters(model: Any) -> None:
    """Draws LoRA weights anew if they are 0, because their gradients would be 0 as well.

    Keras's files store only the merged kernel. Keras sets the LoRA weights to 0 on loading.
    """
    for layer in model._flatten_layers():
        for name in ("lora_kernel", "lora_embeddings"):
            pair = [getattr(layer, f"{name}_{each}", None) for each in "ab"]
            if pair[0] is not None and not any(map(np.any, map(ops.convert_to_numpy, pair))):
                draw = keras.initializers.HeUniform()  # the default of Keras's enable_lora
                pair[0].assign(draw(pair[0].shape, pair[0].dtype))


def _new_model(model: Model, config: AlbertConfig) -> Model:
    """Returns a model with another configuration, for weights that `weights.extract` returns.

    The model has no LoRA adapters, because the extracted weights already include them.
    """
    return type(model).from_config({**model.get_config(), "config": config.to_dict(), "lora": {}})


def with_depth(model: Model, num_hidden_layers: int) -> Model:
    """Returns a copy with another number of layers; see `PreTrainedModel.with_depth`."""
    config = model.config.at_depth(num_hidden_layers)
    copy = _new_model(model, config)
    tensors = weights.extract(model)
    kept = {name: tensors[name] for name in weights.extract(copy)}
    weights.assign(copy, kept, "the deeper model")
    copy._inherit(model)
    return copy


def unshare(model: Model, share: str = "none") -> Model:
    """Returns a copy of a model in which layers share fewer weights.

    The copy has the same outputs as the model. The layers of the copy diverge with further
    training.

    Args:
        model: any model.
        share: the weights that layers still share: "none", "attention", or "ffn" (see
            `AlbertConfig`).
    Raises:
        ValueError: if the layers of `model` don't share these weights.
    Source: ALBERT, arXiv 1909.11942, table 4 (a comparison of these variants).

    Example:
        >>> from albert_tf import AlbertModel, unshare
        >>> model = AlbertModel.from_pretrained("small")
        >>> len(model.encoder.blocks), len(unshare(model).encoder.blocks)
        (3, 6)
    """
    config = model.config
    if share not in ("none", "attention", "ffn"):
        raise ValueError(f'share must be "none", "attention", or "ffn". Received: {share!r}.')
    if config.share not in ("all", share):
        raise ValueError(
            f"A model with share={config.share!r} can't be converted to share={share!r}. Start "
            "from a model with share='all'."
        )
    new = _new_model(model, dataclasses.replace(config, share=share))
    shared = weights.extract(model)
    schedule = group_schedule(config.num_hidden_layers, config.stored_groups)
    tensors = {}
    for name in weights.extract(new):
        source = re.sub(
            r"layer_groups\.(\d+)", lambda m: f"layer_groups.{schedule[int(m[1])]}", name
        )
        tensors[name] = shared[source]
    weights.assign(new, tensors, "the shared model")
    new._inherit(model)
    return new

"""Changes a model's vocabulary, depth, or weight sharing, and keeps its weights."""

import dataclasses
import re
from typing import Any, TypeVar

import keras
import numpy as np
from keras import ops

from albert_tf.checkpoints import weights
from albert_tf.config import group_schedule
from albert_tf.errors import UserError
from albert_tf.layers.common import ConfiguredLayer
from albert_tf.layers.embedding import WordEmbeddings
from albert_tf.options import COUNT, checks_numbers

Model = TypeVar("Model", bound=keras.Model)


class Surgery:
    """Mixin of `PreTrainedModel` for changing the vocabulary and the depth."""

    def get_input_embeddings(self: Any) -> WordEmbeddings:
        """Returns the layer that maps ids to `inputs_embeds`; `weight` is its embedding matrix."""
        return WordEmbeddings(self._backbone().embedding)

    @checks_numbers(new_num_tokens=COUNT, pad_to_multiple_of=COUNT)
    def resize_token_embeddings(
        self: Any, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None
    ) -> WordEmbeddings:
        """Resizes the vocabulary, for example after `tokenizer.add_tokens`.

        Existing tokens keep their weights, and new tokens are initialized. The configuration and
        the head that shares the embedding matrix are updated as well.

        Args:
            new_num_tokens: the new size V, for example `len(tokenizer)`. Default: the current size.
            pad_to_multiple_of: if set, V is rounded up to a multiple of this number.
        Returns:
            The layer that `get_input_embeddings` returns.
        Raises:
            UserError: if the optimizer already has state. Call `compile` again first.
        """
        size = self.config.vocab_size if new_num_tokens is None else new_num_tokens
        if pad_to_multiple_of:
            size = -(-size // pad_to_multiple_of) * pad_to_multiple_of
        if size != self.config.vocab_size:
            _resize_vocabulary(self, size)
        return self.get_input_embeddings()

    @checks_numbers(num_hidden_layers=COUNT)
    def with_depth(self: Any, num_hidden_layers: int) -> Any:
        """Returns a copy with the first `num_hidden_layers` layers and the same head.

        With a single group of shared layers, the copy can also be deeper than the model.

        Args:
            num_hidden_layers: number of layers in the copy.
        Raises:
            UserError: if the model can't have this depth; see `AlbertConfig.at_depth`.

        Example:
            >>> from albert_tf import AlbertForSequenceClassification
            >>> model = AlbertForSequenceClassification.from_pretrained("small", num_labels=2)
            >>> shallow = model.with_depth(2)
            >>> shallow.config.num_hidden_layers
            2
        """
        config = self.config.at_depth(num_hidden_layers)
        model = type(self).from_config({**self.get_config(), "config": config.to_dict()})
        tensors = weights.extract(self)
        kept = {name: tensors[name] for name in weights.extract(model)}
        weights.assign(model, kept, "the deeper model")
        model._inherit(self)
        return model


def steps_of(optimizer: keras.optimizers.Optimizer) -> int:
    """Returns the number of steps that an optimizer has taken."""
    return int(ops.convert_to_numpy(optimizer.iterations))  # int() rejects per-replica variables


def _resize_vocabulary(model: Any, size: int) -> None:
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
    new = type(model).from_config(
        {**model.get_config(), "config": dataclasses.replace(config, share=share).to_dict()}
    )
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

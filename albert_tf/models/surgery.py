"""Changes of a model's form that keep its weights: vocabulary, depth, sharing."""

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
    """Mixin of `PreTrainedModel`: resizes its vocabulary, and ends it after fewer layers."""

    def get_input_embeddings(self: Any) -> WordEmbeddings:
        """Returns the layer that makes `inputs_embeds` of ids; the word table is its `weight`."""
        return WordEmbeddings(self._backbone().embedding)

    @checks_numbers(new_num_tokens=COUNT, pad_to_multiple_of=COUNT)
    def resize_token_embeddings(
        self: Any, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None
    ) -> WordEmbeddings:
        """Resizes the vocabulary, for example after `tokenizer.add_tokens`.

        Tokens that remain keep their weights; new ones are initialized. The configuration, the
        decoder that shares the word table and its bias follow.

        Args:
            new_num_tokens: V, for example `len(tokenizer)`; None means the present size.
            pad_to_multiple_of: round V up to a multiple of this.
        Returns:
            That of `get_input_embeddings`.
        Raises:
            UserError: the optimizer has state already: call `compile` again first.
        """
        size = self.config.vocab_size if new_num_tokens is None else new_num_tokens
        if pad_to_multiple_of:
            size = -(-size // pad_to_multiple_of) * pad_to_multiple_of
        if size != self.config.vocab_size:
            _resize_vocabulary(self, size)
        return self.get_input_embeddings()

    @checks_numbers(num_hidden_layers=COUNT)
    def with_depth(self: Any, num_hidden_layers: int) -> Any:
        """Returns a copy that ends after so many of this model's layers, with the same head.

        A single group of shared layers may also be applied more often.

        Args:
            num_hidden_layers: how many layers are applied.
        Raises:
            UserError: no configuration describes that model; see `AlbertConfig.at_depth`.

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
        _take_belongings(self, model)
        return model


def _take_belongings(source: Any, copy: Any) -> None:
    """Gives a copy of a model its tokenizer, its pooling and the names of its untrained heads."""
    copy.newly_initialized = list(source.newly_initialized)
    copy._tokenizer, copy._folder = source._tokenizer, source._folder
    copy._module_folder = source._module_folder


def steps_of(optimizer: keras.optimizers.Optimizer) -> int:
    """Returns the number of steps that an optimizer has taken."""
    return int(ops.convert_to_numpy(optimizer.iterations))  # a variable of replicas is no int


def _resize_vocabulary(model: Any, size: int) -> None:
    """Replaces the word table and the bias of every word by ones of another size, in place.

    Args:
        model: any model.
        size: V. Tokens that remain keep their weights; new ones are initialized.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and optimizer.built:
        raise UserError(
            "The vocabulary must be resized before training: the optimizer's state has its size. "
            f"Received: an optimizer after {steps_of(optimizer)} steps. "
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


def unshare(model: Model, share: str = "none") -> Model:
    """Returns a copy of a model with the same outputs, whose layers share fewer weights.

    Trained further, its layers become different.

    Args:
        model: any model.
        share: weights that layers still share: "none", "attention" or "ffn" (see `AlbertConfig`).
    Raises:
        ValueError: `model` doesn't share these weights itself.
    Source: ALBERT, arXiv 1909.11942, table 4, compares these forms.

    Example:
        >>> from albert_tf import AlbertModel, unshare
        >>> model = AlbertModel.from_pretrained("small")
        >>> len(model.encoder.blocks), len(unshare(model).encoder.blocks)
        (3, 6)
    """
    config = model.config
    if share not in ("none", "attention", "ffn"):
        raise ValueError(f'share must be "none", "attention" or "ffn". Received: {share!r}.')
    if config.share not in ("all", share):
        raise ValueError(
            "A model must share all weights that its copy shares: start from share='all'. "
            f"Received a model with share={config.share!r}, and share={share!r}."
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
    _take_belongings(model, new)
    return new

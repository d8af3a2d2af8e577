"""Unties shared layers by giving each its own copy of the weights."""

import dataclasses
import re
from typing import TypeVar

from albert_tf.checkpoints import weights
from albert_tf.config import group_schedule
from albert_tf.models.base import PreTrainedModel

Model = TypeVar("Model", bound=PreTrainedModel)


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
        (2, 4)
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
    return new

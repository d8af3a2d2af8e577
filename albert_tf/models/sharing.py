"""Turns shared weights into weights of each layer's own."""

import dataclasses
import re
from typing import TypeVar

from albert_tf.checkpoints import weights
from albert_tf.layers import group_schedule
from albert_tf.models.base import PreTrainedModel

Model = TypeVar("Model", bound=PreTrainedModel)


def unshare(model: Model, share: str = "none") -> Model:
    """A new model whose layers share less, and which answers as `model` does.

    It can go on training as a deep model that started from a shared one.

    Args:
        model: any model.
        share: what layers still share: "none", "attention" or "ffn" (see `AlbertConfig`).
    Raises:
        ValueError: `model` doesn't share what the new one is to share.
    Source: ALBERT, arXiv 1909.11942, table 4, compares these forms.
    """
    config = model.config
    if share not in ("none", "attention", "ffn"):
        raise ValueError(f'share must be "none", "attention" or "ffn". Received: {share!r}.')
    if config.share not in ("all", share):
        raise ValueError(
            "Sharing can't be brought back: start from a model with share='all'. Received a model "
            f"with share={config.share!r}, and share={share!r} to turn it into."
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

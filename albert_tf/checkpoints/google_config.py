"""What Google's original code can express, as its `albert_config.json`."""

from typing import Any, Final

from albert_tf.config import AlbertConfig
from albert_tf.config_keys import GOOGLE_FIELDS
from albert_tf.errors import UserError

LAYER_NORM_EPSILON: Final = 1e-12  # tf.contrib.layers.layer_norm has no other
_ACTIVATIONS: Final = {"gelu_new": "gelu", "relu": "relu", "tanh": "tanh"}
# Its files have these keys, and its code reads none of them.
_INERT: Final = {
    "down_scale_factor": 1,
    "gap_size": 0,
    "layers_to_keep": [],
    "net_structure_type": 0,
    "num_memory_blocks": 0,
}


def to_google(config: AlbertConfig) -> dict[str, Any]:
    """The content of `albert_config.json`; Google's "gelu" is the tanh approximation.

    Layers that share only some of their weights become as many groups.

    Raises:
        UserError: the original code has no such activation or epsilon, or would give a layer
            another group.
    """
    if config.hidden_act not in _ACTIVATIONS:
        raise UserError(
            f"Google's code knows the activations {', '.join(sorted(_ACTIVATIONS))}. "
            f"Received: hidden_act={config.hidden_act!r}. Keep this model in another format."
        )
    if config.layer_norm_eps != LAYER_NORM_EPSILON:
        raise UserError(
            f"Google's code has layer_norm_eps={LAYER_NORM_EPSILON}. "
            f"Received: {config.layer_norm_eps}. Keep this model in another format."
        )
    if differing := layers_in_other_groups(config):
        raise UserError(
            "Google's code must apply the same group in every layer. Received: "
            f"num_hidden_layers={config.num_hidden_layers} in {config.stored_groups} groups, where "
            f"its rounding gives layer {differing[0]} another. Keep this model in another format."
        )
    return {
        **{field: getattr(config, field) for field in sorted(GOOGLE_FIELDS)},
        **_INERT,
        "hidden_act": _ACTIVATIONS[config.hidden_act],
        "num_hidden_groups": config.stored_groups,
    }


def layers_in_other_groups(config: AlbertConfig) -> list[int]:
    """The layers to which the original's rounding gives another group than transformers' does.

    Source: google-research/albert, modeling.py; transformers, modeling_albert.py.
    """
    layers, groups = config.num_hidden_layers, config.stored_groups
    return [
        layer
        for layer in range(layers)
        if int(layer / layers * groups) != int(layer / (layers / groups))
    ]

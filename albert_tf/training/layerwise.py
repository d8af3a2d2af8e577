"""Layer-wise fine-tuning where layers share weights: frozen layers, learning-rate decay."""

from collections.abc import Mapping

from albert_tf.models.base import PreTrainedModel
from albert_tf.training.options import check_frozen


def freeze(model: PreTrainedModel, layers: int) -> None:
    """Stops the training of the embeddings and of the first layers; call it before `compile`.

    No gradient passes the first `layers` layers. Weights that a later layer uses too, as all
    layers of a published ALBERT do, train by that layer's gradient alone; the others stay as they
    are, without weight decay too. The embeddings are the tables and their projection.

    Args:
        layers: 0 for the embeddings alone.
    Raises:
        UserError: the model has fewer layers.
    """
    encoder, count = model._backbone().encoder, model.config.num_hidden_layers
    check_frozen(layers, count)
    model._backbone().embedding.trainable = False
    encoder.frozen_layers = layers
    parts = [
        [part for block in encoder.group(group) for part in (block.attention, block.ffn)]
        for group in encoder.schedule
    ]
    used_later = {id(part) for layer in parts[layers:] for part in layer}
    for layer in parts[:layers]:
        for part in layer:
            part.trainable = id(part) in used_later


def learning_rate_multipliers(model: PreTrainedModel, decay: float) -> Mapping[str, float]:
    """Returns learning rate multipliers, by the paths of the encoder's trainable weights.

    Layers that share weights have one rate, so depth counts the groups of layers: `decay` for the
    last group, its square for the one before, and so on down to the embeddings. Weights that
    several groups share have the factor of the last one. The pooler and the head keep the rate.
    """
    backbone, groups = model._backbone(), model.config.stored_groups
    layers = [[backbone.embedding], *map(backbone.encoder.group, range(groups))]
    return {
        variable.path: decay ** (groups + 1 - depth)
        for depth, parts in enumerate(layers)
        for part in parts
        for variable in part.trainable_variables
    }

"""TF-Hub modules: google-research/albert's of TensorFlow 1, and Model Garden's SavedModels."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf.checkpoints import google, model_garden, saved_model_graph, tf_checkpoint
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.google_files import CONFIG, find_config, read_config
from albert_tf.checkpoints.saved_model_graph import Facts
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError

ASSETS: Final = "assets"
_PUBLISHED: Final = ("base", "large", "xlarge", "xxlarge")
_TABLES: Final = "bert/embeddings/{}_embeddings"
_BLOCK: Final = "bert/encoder/transformer/group_0/inner_group_0"
_PLACE: Final = re.compile(r"bert/encoder/transformer/group_(\d+)/inner_group_(\d+)/")


def matches(path: Path) -> bool:
    """Whether a path is the folder of a SavedModel, as modules of either TensorFlow are."""
    return (path / saved_model_graph.FILE).is_file()


def read(path: Path) -> Checkpoint:
    """Reads the variables of a module; nothing of its graph is run.

    The configuration is the JSON file among its assets, or beside them; a module without one is
    measured: sizes by the shapes of its variables, the number of layers and heads and the
    activation by its graph, or else by the published model of that size. Dropout, which a module
    doesn't show, is then 0.

    Args:
        path: the folder with `saved_model.pb`, `variables/` and `assets/`.
    Raises:
        UserError: a file is missing or damaged, it isn't an ALBERT, or its layers and heads can't
            be told.
    """
    stored = tf_checkpoint.read_variables(path / "variables" / "variables")
    variables = google.in_googles_names(stored)
    folders = (path / ASSETS, path)
    if find_config(folders):
        config = read_config(folders)
    else:
        facts = saved_model_graph.read_facts(path)
        heads = model_garden.heads(stored) or facts.heads
        config = measured_config(variables, facts._replace(heads=heads), path)
    return google.as_checkpoint(config, variables, f"{path} (TF-Hub module)")


def measured_config(
    variables: Mapping[str, np.ndarray], facts: Facts, origin: Path
) -> AlbertConfig:
    """The configuration of an ALBERT from its weights under Google's names, and its graph.

    Raises:
        UserError: these aren't an ALBERT's weights, or they don't say enough.
    """
    fields = _sizes(variables, origin)
    known = _published(fields)
    places = [tuple(map(int, match.groups())) for match in map(_PLACE.match, variables) if match]
    groups, inner = (max(numbers) + 1 for numbers in zip(*places, strict=True))
    fields |= {"num_hidden_groups": groups, "inner_group_num": inner}
    for field, value in (
        ("num_hidden_layers", facts.blocks and facts.blocks // inner),
        ("num_attention_heads", facts.heads),
        ("hidden_act", facts.hidden_act),
    ):
        fields[field] = value or (known and getattr(known, field))
    if unknown := [field for field, value in fields.items() if value is None]:
        raise UserError(
            f"A module without {CONFIG} must show what it is. Received: {origin}, which doesn't "
            f"show {', '.join(unknown)}. Put its {CONFIG} there."
        )
    try:
        return AlbertConfig(**fields)
    except ValueError as error:
        raise UserError(
            f"The sizes in a module must be an ALBERT's. Received: {origin}: {error} "
            f"Put its {CONFIG} there."
        ) from error


def _sizes(variables: Mapping[str, np.ndarray], origin: Path) -> dict[str, Any]:
    try:
        word, position, kind = (
            variables[_TABLES.format(name)].shape for name in ("word", "position", "token_type")
        )
        query = variables[f"{_BLOCK}/attention_1/self/query/kernel"].shape
        inside = variables[f"{_BLOCK}/ffn_1/intermediate/dense/kernel"].shape
    except KeyError as error:
        raise UserError(
            f"A module must hold an ALBERT's weights. Received: {origin} without {error}, but with "
            f"{', '.join(sorted(variables)[:3]) or 'none'}, … Give another module."
        ) from error
    return {
        "vocab_size": word[0],
        "embedding_size": word[1],
        "hidden_size": query[0],
        "intermediate_size": inside[1],
        "max_position_embeddings": position[0],
        "type_vocab_size": kind[0],
    }


def _published(sizes: Mapping[str, int]) -> AlbertConfig | None:
    """The published model of exactly these sizes."""
    for name in _PUBLISHED:
        config = AlbertConfig.from_size(name)
        if all(getattr(config, field) == size for field, size in sizes.items()):
            return config
    return None

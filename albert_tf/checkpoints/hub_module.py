"""TF-Hub modules: google-research/albert's of TensorFlow 1, and Model Garden's SavedModels.

A module's graph is parsed for what the weights don't show; nothing in it runs.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from albert_tf.checkpoints import google, tf_checkpoint
from albert_tf.checkpoints.weights import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.files import read_bytes

GRAPH: Final = "saved_model.pb"
VARIABLES: Final = "variables/variables"
_ASSETS: Final = "assets"
_PUBLISHED: Final = ("base", "large", "xlarge", "xxlarge")
_TABLES: Final = "bert/embeddings/{}_embeddings"
_BLOCK: Final = "bert/encoder/transformer/group_0/inner_group_0"
_BLOCK_SCOPE: Final = re.compile(r"bert/encoder/transformer/group_(\d+)/inner_group_(\d+)/")
# The constant [H, A, H/A] to which google-research/albert reshapes the query's kernel.
_QUERY_SHAPE: Final = re.compile(r"/query/Reshape/shape$")


class GraphHints(NamedTuple):
    """Hyperparameters inferred from the graph; None if it doesn't reveal them.

    Attributes:
        blocks: applications of a block: one softmax each.
        heads: A.
        hidden_act: in Hugging Face's meaning.
    """

    blocks: int | None
    heads: int | None
    hidden_act: str | None


def read(folder: Path, prefix: Path, config: AlbertConfig | None = None) -> Checkpoint:
    """Reads the variables of a module.

    The configuration is the JSON file among its assets, or beside them. Without one, the shapes of
    the variables give the sizes, and the graph gives the number of layers and heads and the
    activation; where it doesn't show them, the published model of that size does. Dropout, which a
    module doesn't show, is then 0.

    Args:
        folder: has `saved_model.pb`, `variables/` and `assets/`.
        prefix: the path of the variables' files without their endings.
        config: replaces all that.
    Raises:
        UserError: a file is missing or damaged, it isn't an ALBERT, or its layers and heads are
            unknown.
    """
    stored = tf_checkpoint.read_variables(prefix)
    variables = google.with_google_names(stored)
    if config is None and (path := google.find_config((folder / _ASSETS, folder))):
        config = google.read_config(path)
    if config is None:
        hints = read_hints(folder)
        heads = google.model_garden_heads(stored) or hints.heads
        config = inferred_config(variables, hints._replace(heads=heads), folder)
    return google.as_checkpoint(config, variables, f"{folder} (TF-Hub module)")


def inferred_config(
    variables: Mapping[str, np.ndarray], hints: GraphHints, origin: Path
) -> AlbertConfig:
    """Returns the configuration of an ALBERT from its weights under Google's names, and its graph.

    Raises:
        UserError: these aren't an ALBERT's weights, or they don't say enough.
    """
    fields = _sizes(variables, origin)
    known = _published(fields)
    numbers = [
        tuple(map(int, match.groups())) for match in map(_BLOCK_SCOPE.match, variables) if match
    ]
    groups, inner = (max(axis) + 1 for axis in zip(*numbers, strict=True))
    fields |= {"num_hidden_groups": groups, "inner_group_num": inner}
    for field, value in (
        ("num_hidden_layers", hints.blocks and hints.blocks // inner),
        ("num_attention_heads", hints.heads),
        ("hidden_act", hints.hidden_act),
    ):
        fields[field] = value or (known and getattr(known, field))
    if unknown := [field for field, value in fields.items() if value is None]:
        raise UserError(
            f"A module without {google.CONFIG} must show what it is. Received: {origin}, which "
            f"doesn't show {', '.join(unknown)}. Put its {google.CONFIG} there."
        )
    try:
        return AlbertConfig(**fields)
    except ValueError as error:
        raise UserError(
            f"The sizes in a module must be an ALBERT's. Received: {origin}: {error} "
            f"Put its {google.CONFIG} there."
        ) from error


def _sizes(variables: Mapping[str, np.ndarray], origin: Path) -> dict[str, Any]:
    try:
        (words, width), (positions, _), (types, _) = (
            variables[_TABLES.format(name)].shape for name in ("word", "position", "token_type")
        )
        hidden, _ = variables[f"{_BLOCK}/attention_1/self/query/kernel"].shape
        _, inside = variables[f"{_BLOCK}/ffn_1/intermediate/dense/kernel"].shape
    except (KeyError, ValueError) as error:
        raise UserError(
            f"A module must hold an ALBERT's weights. Received: {origin} without {error}, but with "
            f"{', '.join(sorted(variables)[:3]) or 'none'}, … Give another module."
        ) from error
    return {
        "vocab_size": words,
        "embedding_size": width,
        "hidden_size": hidden,
        "intermediate_size": inside,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
    }


def _published(sizes: Mapping[str, int]) -> AlbertConfig | None:
    """Returns the published model of exactly these sizes."""
    for name in _PUBLISHED:
        config = AlbertConfig.from_size(name)
        if all(getattr(config, field) == size for field, size in sizes.items()):
            return config
    return None


def read_hints(folder: Path) -> GraphHints:
    """Reads the operations of a SavedModel of TensorFlow 1 or 2.

    Raises:
        UserError: the file isn't a SavedModel.
    """
    from tensorflow.core.protobuf import saved_model_pb2

    try:
        model = saved_model_pb2.SavedModel.FromString(read_bytes(folder / GRAPH))
        if not model.meta_graphs:
            return GraphHints(None, None, None)
        # A module of TensorFlow 1 has a graph for training too, tagged "train".
        meta = min(model.meta_graphs, key=lambda meta: "train" in meta.meta_info_def.tags)
        operations, heads = _operations(meta.graph_def), _heads(meta.graph_def.node)
    except (DecodeError, RecursionError, ValueError, TypeError) as error:
        raise UserError(
            f"{GRAPH} must be a whole SavedModel. Received: {folder / GRAPH}, which doesn't read "
            f"as one ({type(error).__name__}: {error}). Copy it again from its source."
        ) from error
    blocks = operations["Softmax"]
    return GraphHints(blocks or None, heads, _activation(operations, blocks))


def _operations(graph: Any) -> Counter[str]:
    """Counts the operations of the graph, or of the function in it that has most softmaxes.

    TensorFlow 2 has a function for each signature, for saving and for restoring; they call others.

    Raises:
        ValueError: functions call each other in a ring.
        RecursionError: they call each other too deeply.
    """
    functions = {function.signature.name: function.node_def for function in graph.library.function}
    counted: dict[str, Counter[str] | None] = {}  # None: being counted

    def of_function(name: str) -> Counter[str]:
        if name not in counted:
            counted[name] = None
            counted[name] = of_nodes(functions[name])
        total = counted[name]
        if total is None:
            raise ValueError(f"the function {name} calls itself")
        return total

    def of_nodes(nodes: Iterable[Any]) -> Counter[str]:
        total: Counter[str] = Counter()
        for node in nodes:
            name = node.attr["f"].func.name if "f" in node.attr else ""
            total.update(of_function(name) if name in functions else {node.op: 1})
        return total

    calls = [[node] for node in graph.node if "f" in node.attr]
    others = [node for node in graph.node if "f" not in node.attr]
    return max((of_nodes(nodes) for nodes in (others, *calls)), key=lambda total: total["Softmax"])


def _activation(operations: Counter[str], blocks: int) -> str | None:
    """Returns the feed-forward network's activation by its operations; the pooler has a tanh."""
    if not blocks:
        return None
    if operations["Erf"] + operations["Erfc"] >= blocks:
        return "gelu"
    if operations["Relu"] >= blocks:
        return "relu"
    if operations["Tanh"] > blocks:
        return "gelu_new" if operations["Pow"] >= blocks else "tanh"
    return None


def _heads(nodes: Iterable[Any]) -> int | None:
    from tensorflow import make_ndarray

    for node in nodes:
        if node.op == "Const" and _QUERY_SHAPE.search(node.name):
            tensor = node.attr["value"].tensor
            if [axis.size for axis in tensor.tensor_shape.dim] == [3]:
                return int(make_ndarray(tensor)[1])
    return None

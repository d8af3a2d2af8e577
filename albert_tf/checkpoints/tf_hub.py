"""Reads TF-Hub modules, whose graph is parsed for hyperparameters but never run."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.checkpoints import google, hugging_face, tf_checkpoint
from albert_tf.checkpoints.weights import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.files import read_bytes

GRAPH: Final = "saved_model.pb"
VARIABLES: Final = "variables/variables"
_ASSETS: Final = "assets"
_PUBLISHED: Final = ("base", "large", "xlarge", "xxlarge")
_TABLES: Final = "bert/embeddings/{}_embeddings"
_BLOCK_SCOPE: Final = re.compile(r"bert/encoder/transformer/group_(\d+)/inner_group_(\d+)/")
# The constant [H, A, H/A], the shape to which google-research/albert reshapes the query kernel.
_QUERY_SHAPE: Final = re.compile(r"/query/Reshape/shape$")


def read(folder: Path, prefix: Path, config: AlbertConfig | None = None) -> Checkpoint:
    """Reads the variables of a TF-Hub module.

    The configuration is read from the JSON file in the module's assets folder or in the module's
    folder. If there is none, the sizes are inferred from the variables. The number of layers, the
    number of heads, and the activation are inferred from the graph or, if that fails, copied from
    the published model with these sizes. Dropout can't be inferred, so it is 0.
    """
    stored = tf_checkpoint.read_variables(prefix)
    if hugging_face.is_tf_model(stored):
        return hugging_face.read(folder, prefix, config, stored)
    variables = google.with_google_names(stored)
    if config is None and (path := google.find_config((folder / _ASSETS, folder))):
        config = google.read_config(path)
    if config is None:
        hints = read_hints(folder)
        heads = google.model_garden_heads(stored) or hints.heads
        config = infer_config(variables, hints._replace(heads=heads), folder)
    return google.as_checkpoint(config, variables, f"{folder} (SavedModel)")


class GraphHints(NamedTuple):
    """Hyperparameters inferred from the graph, or None if it doesn't reveal them."""

    blocks: int | None  # number of block applications, each with one softmax
    heads: int | None
    hidden_act: str | None  # Hugging Face's name


def infer_config(
    variables: Mapping[str, np.ndarray], hints: GraphHints, origin: Path
) -> AlbertConfig:
    """Infers an ALBERT configuration from the weights (under Google's names) and the graph."""
    fields = _sizes(variables, origin)
    sizes = (AlbertConfig.from_size(name) for name in _PUBLISHED)
    same = (each for each in sizes if fields.items() <= vars(each).items())
    known = next(same, None)  # the published model with exactly these sizes
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
            f"{origin} contains no {google.CONFIG}, and its graph doesn't reveal "
            f"{', '.join(unknown)}. "
            f"Copy the module's {google.CONFIG} into the folder."
        )
    try:
        return AlbertConfig(**fields)
    except ValueError as error:
        raise UserError(
            f"The sizes inferred from {origin} don't fit an ALBERT model: {error} "
            f"Copy the module's {google.CONFIG} into the folder."
        ) from error


def _sizes(variables: Mapping[str, np.ndarray], origin: Path) -> dict[str, Any]:
    try:
        (words, width), (positions, _), (types, _) = (
            variables[_TABLES.format(name)].shape for name in ("word", "position", "token_type")
        )
        hidden, _ = variables[f"{google.BLOCK}attention_1/self/query/kernel"].shape
        _, inside = variables[f"{google.BLOCK}ffn_1/intermediate/dense/kernel"].shape
    except (KeyError, ValueError) as error:
        raise UserError(
            f"{origin} isn't an ALBERT module: it contains "
            f"{', '.join(sorted(variables)[:3]) or 'nothing'}, …, but no {error}. Pass another "
            "module. If this is a model exported for serving, pass the original instead."
        ) from error
    return {
        "vocab_size": words,
        "embedding_size": width,
        "hidden_size": hidden,
        "intermediate_size": inside,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
    }


def read_hints(folder: Path) -> GraphHints:
    """Infers hyperparameters from the operations of a TensorFlow 1 or 2 SavedModel."""
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel.FromString(read_bytes(folder / GRAPH))
    if not model.meta_graphs:
        return GraphHints(None, None, None)
    # A TensorFlow 1 module also has a graph for training, tagged "train".
    meta = min(model.meta_graphs, key=lambda meta: "train" in meta.meta_info_def.tags)
    operations, heads = _operations(meta.graph_def), _heads(meta.graph_def.node)
    blocks = operations["Softmax"]
    return GraphHints(blocks or None, heads, _activation(operations, blocks))


def _operations(graph: Any) -> Counter[str]:
    """Counts the operations of the graph, or of its function with the most softmaxes.

    TensorFlow 2 writes functions for each signature, for saving, and for restoring. They call other
    functions.
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
    """Infers the feed-forward activation from the operations. One tanh belongs to the pooler."""
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

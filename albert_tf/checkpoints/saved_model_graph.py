"""What a SavedModel's graph says of an ALBERT; it is parsed, and nothing in it is run."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from albert_tf.errors import UserError

FILE: Final = "saved_model.pb"
# The constant [H, A, H/A] to which google-research/albert reshapes the query's kernel.
_QUERY_SHAPE: Final = re.compile(r"/query/Reshape/shape$")


class Facts(NamedTuple):
    """What the shapes of the variables don't show; None where the graph doesn't either.

    Attributes:
        blocks: applications of a block: one softmax each.
        heads: A.
        hidden_act: in Hugging Face's meaning.
    """

    blocks: int | None
    heads: int | None
    hidden_act: str | None


def read_facts(folder: Path) -> Facts:
    """Reads the operations of a SavedModel of TensorFlow 1 or 2.

    Raises:
        UserError: the file isn't a SavedModel.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    try:
        model = saved_model_pb2.SavedModel.FromString((folder / FILE).read_bytes())
    except DecodeError as error:
        raise UserError(
            f"{FILE} must be a whole SavedModel. Received: {folder / FILE}, which doesn't read as "
            "one. Copy it again from its source."
        ) from error
    if not model.meta_graphs:
        return Facts(None, None, None)
    # A module of TensorFlow 1 has a graph for training too, tagged "train".
    graph = min(model.meta_graphs, key=lambda meta: "train" in meta.meta_info_def.tags).graph_def
    operations = _operations(graph)
    blocks = operations["Softmax"]
    return Facts(blocks or None, _heads(graph.node), _activation(operations, blocks))


def _operations(graph: Any) -> Counter[str]:
    """The operations of the graph, or of the function in it that attends most often.

    TensorFlow 2 keeps each signature, and saving and restoring, in functions that call others.
    """
    functions = {function.signature.name: function.node_def for function in graph.library.function}

    def expanded(nodes: Iterable[Any], depth: int = 0) -> Counter[str]:
        found: Counter[str] = Counter()
        for node in nodes:
            name = node.attr["f"].func.name if "f" in node.attr else ""
            if name in functions and depth < len(functions):
                found += expanded(functions[name], depth + 1)
            else:
                found[node.op] += 1
        return found

    calls = [[node] for node in graph.node if "f" in node.attr]
    rest = [node for node in graph.node if "f" not in node.attr]
    return max((expanded(nodes) for nodes in (rest, *calls)), key=lambda found: found["Softmax"])


def _activation(operations: Counter[str], blocks: int) -> str | None:
    """The activation of the feed-forward network, by what only it needs; the pooler has a tanh."""
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
            shape = make_ndarray(node.attr["value"].tensor)
            if shape.shape == (3,):
                return int(shape[1])
    return None

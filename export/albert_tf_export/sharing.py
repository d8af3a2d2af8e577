"""Merges loops that occur twice in a TensorFlow Lite file.

The converter writes the same layers once for each signature that has them. Their weights are
stored once, but the runtime packs them in memory for every loop body, called or not: with two
bodies, base size in 8 bits takes 35 MB of memory, with one 28.
"""

import hashlib
import struct
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

# Field offsets in the schema's tables (schema.fbs).
CONDITION, BODY, OPERATORS = 4, 6, 10


def share_loops(model: bytes) -> bytes:
    """Returns the same file, in which equal loops share one condition and one body.

    Bytes are changed in place, so that every buffer stays aligned: each loop points to the first of
    the equal graphs, and the others lose their operators.
    """
    content = bytearray(model)
    root = schema.Model.GetRootAs(content)
    graphs = [root.Subgraphs(index) for index in range(root.SubgraphsLength())]
    buffers = _first_of_each([_digest(root, index) for index in range(root.BuffersLength())])
    first = _first_of_each([_described(graph, buffers) for graph in graphs])
    for options in [each for graph in graphs for each in _loops(graph)]:
        for field in (CONDITION, BODY):
            at = options.Pos + options.Offset(field)
            (target,) = struct.unpack_from("<i", content, at)
            if first[target] != target:
                struct.pack_into("<i", content, at, first[target])
                table = graphs[target]._tab
                struct.pack_into("<I", content, table.Vector(table.Offset(OPERATORS)) - 4, 0)
    return bytes(content)


def _loops(graph: Any) -> list[Any]:
    operators = [graph.Operators(index) for index in range(graph.OperatorsLength())]
    return [
        each.BuiltinOptions()
        for each in operators
        if each.BuiltinOptionsType() == schema.BuiltinOptions.WhileOptions
    ]


def _first_of_each(values: list[Any]) -> list[int]:
    """For each value, the index of the first equal one."""
    places: dict[Any, int] = {}
    return [places.setdefault(value, index) for index, value in enumerate(values)]


def _digest(root: Any, index: int) -> bytes:
    data = root.Buffers(index).DataAsNumpy()
    return hashlib.sha256(data.data if isinstance(data, np.ndarray) else b"").digest()


def _described(graph: Any, buffers: list[int]) -> str:
    """A graph without names, as text: equal for equal graphs.

    Tensors are numbered by their first use. The converter's own order also depends on the constants
    that the rest of the model has.
    """
    unpacked = schema.SubGraphT.InitFromObj(graph)
    for tensor in unpacked.tensors:
        tensor.buffer = buffers[tensor.buffer]
    users = [unpacked, *(unpacked.operators or ())]
    used = [index for each in users for index in (*each.inputs, *each.outputs)]
    numbers = {old: new for new, old in enumerate(dict.fromkeys([-1, *used]), -1)}
    unpacked.tensors = [unpacked.tensors[old] for old in numbers if old >= 0]
    for each in users:
        each.inputs = [numbers[index] for index in each.inputs]
        each.outputs = [numbers[index] for index in each.outputs]
    return repr(_plain(unpacked))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if hasattr(value, "__dict__"):
        fields = vars(value).items()
        return {
            key: _plain(each) for key, each in fields if key not in ("name", "debugMetadataIndex")
        }
    return value

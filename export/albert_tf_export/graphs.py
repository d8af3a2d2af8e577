"""Writes signatures as a SavedModel or converts them to a .tflite file."""

import contextlib
import copy
import hashlib
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from tensorflow.core.protobuf import fingerprint_pb2

from albert_tf.files import tensorflow_errors
from albert_tf.layers.embedding import lookup, rows_at, word_lookup
from albert_tf.quiet import hidden_stderr
from albert_tf_export.metadata import pack
from albert_tf_export.options import Quantize
from albert_tf_export.signatures import Signature


def write(signatures: Sequence[Signature], folder: Path) -> None:
    """Writes a SavedModel, in which the first signature is also `serving_default`.

    In a fresh process, the same model produces the same bytes. `keras.export.ExportArchive` orders
    variables by memory address, so the bytes vary.
    """
    graphs = {
        signature.name: tf.function(
            signature.function, input_signature=list(signature.inputs), autograph=False
        ).get_concrete_function()
        for signature in signatures
    }
    root = tf.Module()  # excludes the functions, which TensorFlow would trace again
    root.weights = _in_order_of_use(graphs.values())
    served = {"serving_default": graphs[signatures[0].name]}
    served |= graphs
    with tensorflow_errors(folder):
        tf.saved_model.save(root, str(folder), signatures=served)
        # Replaces TensorFlow's random export id with a hash of the content.
        file = folder / "fingerprint.pb"
        fingerprint = fingerprint_pb2.FingerprintDef.FromString(file.read_bytes())
        fingerprint.uuid = ""
        content = hashlib.sha256(fingerprint.SerializeToString(deterministic=True)).digest()
        fingerprint.uuid = str(uuid.UUID(bytes=content[:16]))
        file.write_bytes(fingerprint.SerializeToString(deterministic=True))


def _in_order_of_use(graphs: Iterable[Any]) -> list[tf.Variable]:
    """Returns the graphs' variables without duplicates, in the order in which they are used."""
    variables: dict[int, tf.Variable] = {}
    for graph in graphs:
        by_handle = {id(variable.handle): variable for variable in graph.variables}
        for captured in graph.captured_inputs:
            if id(captured) in by_handle:
                variables.setdefault(id(captured), by_handle[id(captured)])
    return list(variables.values())


def convert(signatures: Sequence[Signature], quantize: Quantize) -> bytes:
    """Returns the bytes of a .tflite file with these signatures.

    Converts from a SavedModel, because the converter loses the variables of concrete functions.
    """
    with tempfile.TemporaryDirectory() as folder:
        with words_stored(quantize):
            write(signatures, Path(folder))
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=[signature.name for signature in signatures]
        )
        converter.allow_custom_ops = True
        if quantize != "none":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantize == "float16":
            converter.target_spec.supported_types = [tf.float16]
        with hidden_stderr():
            content = converter.convert()
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content))
    share_graphs(model)
    return pack(model)


@contextlib.contextmanager
def words_stored(quantize: Quantize) -> Iterator[None]:
    """Within this context, traced graphs store word embedding matrices in the given precision.

    In 8 bits, each row has its own scale. Converters use one scale per matrix, so the largest entry
    would determine the resolution of all rows.
    """
    token = word_lookup.set(_lookup_in_8_bits if quantize == "dynamic" else lookup)
    try:
        yield
    finally:
        word_lookup.reset(token)


def _lookup_in_8_bits(table: keras.Variable, ids: tf.Tensor) -> tf.Tensor:
    """Looks up rows of an 8-bit matrix. Scales are integers, because converters round floats."""
    with tf.init_scope():
        values = table.numpy().astype(np.float64)
    largest = np.abs(values).max(axis=1, keepdims=True)
    largest[largest == 0] = 1
    # The converter rounds the masked-LM head's matrix the same way, so the matrix is stored once.
    scaled = values / (largest / 127)
    rows = rows_at(tf.constant(np.trunc(scaled + np.copysign(0.5, scaled)), tf.int8), ids)
    unit = float(largest.max()) / 2**24
    scales = rows_at(tf.constant(np.round(largest / unit), tf.int32), ids)
    return tf.cast(rows, tf.float32) * (tf.cast(scales, tf.float32) * (unit / 127))


def share_graphs(model: schema.ModelT) -> None:
    """Merges equal graphs, such as the loops of several signatures, and equal constants.

    The converter writes the layers once per signature that uses them. The file contains the weights
    once, but the runtime packs them in memory for each loop body, even for a body that never runs.
    The 8-bit base model takes 35 MB of memory with two loop bodies, and 28 MB with one.
    """
    buffers = _first_of_each(
        [
            hashlib.sha256(b"" if buffer.data is None else buffer.data).digest()
            for buffer in model.buffers
        ]
    )
    for tensor in (tensor for graph in model.subgraphs for tensor in graph.tensors):
        tensor.buffer = buffers[tensor.buffer]
    changed = True
    while changed:  # Merging graphs can make their callers equal.
        first = _first_of_each([_canonical_text(graph) for graph in model.subgraphs])
        changed = False
        for options, name in (call for graph in model.subgraphs for call in _calls(graph)):
            called = getattr(options, name)
            setattr(options, name, first[called])
            changed |= first[called] != called
    _drop_unused(model)


def _drop_unused(model: schema.ModelT) -> None:
    """Removes graphs that no signature uses, and their buffers."""
    used = [signature.subgraphIndex for signature in model.signatureDefs]
    for index in used:  # The loop extends this list.
        called = [getattr(*call) for call in _calls(model.subgraphs[index])]
        used += dict.fromkeys(graph for graph in called if graph not in used)
    numbers = {old: new for new, old in enumerate(sorted(used))}
    model.subgraphs = [model.subgraphs[old] for old in numbers]
    for options, name in (call for graph in model.subgraphs for call in _calls(graph)):
        setattr(options, name, numbers[getattr(options, name)])
    for signature in model.signatureDefs:
        signature.subgraphIndex = numbers[signature.subgraphIndex]
    users = [*model.metadata, *(tensor for graph in model.subgraphs for tensor in graph.tensors)]
    kept = sorted({0, *(user.buffer for user in users)})  # 0: no data
    numbers = {old: new for new, old in enumerate(kept)}
    model.buffers = [model.buffers[old] for old in kept]
    for user in users:
        user.buffer = numbers[user.buffer]


def _calls(graph: schema.SubGraphT) -> list[tuple[Any, str]]:
    """Returns the options and the field name of each reference from an operator to a graph."""
    return [
        (operator.builtinOptions, name)
        for operator in graph.operators or ()
        if operator.builtinOptions
        for name in vars(operator.builtinOptions)
        if name.endswith("SubgraphIndex")
    ]


def _first_of_each(values: list[Any]) -> list[int]:
    """Returns, for each value, the index of the first value that equals it."""
    firsts: dict[Any, int] = {}
    return [firsts.setdefault(value, index) for index, value in enumerate(values)]


def _canonical_text(graph: schema.SubGraphT) -> str:
    """Serializes a graph to text without names, so that identical graphs produce identical texts.

    Tensors are numbered by first use, because the converter's order also depends on constants in
    the rest of the model.
    """
    copied = copy.deepcopy(graph)
    users = [copied, *(copied.operators or ())]
    used = [index for user in users for index in (*user.inputs, *user.outputs)]
    numbers = {old: new for new, old in enumerate(dict.fromkeys([-1, *used]), -1)}
    copied.tensors = [copied.tensors[old] for old in numbers if old >= 0]
    for user in users:
        user.inputs = [numbers[index] for index in user.inputs]
        user.outputs = [numbers[index] for index in user.outputs]
    return repr(_plain(copied))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if hasattr(value, "__dict__"):
        fields = vars(value).items()
        return {
            key: _plain(field) for key, field in fields if key not in ("name", "debugMetadataIndex")
        }
    return value

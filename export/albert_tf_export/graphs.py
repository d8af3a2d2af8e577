"""Writes signatures as a SavedModel, and converts that to a .tflite file."""

import hashlib
import re
import tempfile
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, get_args

import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from tensorflow.core.protobuf import fingerprint_pb2

from albert_tf_export.metadata import packed
from albert_tf_export.sharing import share_loops
from albert_tf_export.signatures import Signature

Quantize = Literal["none", "float16", "dynamic"]
QUANTIZE: Final = get_args(Quantize)


def write(signatures: Sequence[Signature], folder: Path) -> None:
    """Writes a SavedModel; the first signature is also `serving_default`.

    In a fresh process the same model gives the same bytes; `keras.export.ExportArchive` numbers the
    variables by their place in memory.

    Raises:
        OSError: it can't be written.
    """
    root, graphs = tf.Module(), {}
    for signature in signatures:
        function = tf.function(
            signature.function, input_signature=list(signature.inputs), autograph=False
        )
        setattr(root, signature.name, function)
        graphs[signature.name] = function.get_concrete_function()
    root.weights = _in_order_of_use(graphs.values())
    served = {"serving_default": graphs[signatures[0].name], **graphs}
    try:
        tf.saved_model.save(root, str(folder), signatures=served)
        _make_fingerprint_stable(folder)
    except tf.errors.OpError as error:  # TensorFlow's writers raise it on a full disk.
        reason = re.sub(r"\{\{.*\}\} | \[Op:.*\]", "", error.message)
        raise OSError(f"The SavedModel could not be written. {reason}") from error


def _in_order_of_use(graphs: Iterable[Any]) -> list[tf.Variable]:
    """Returns the variables of graphs, each once."""
    found: dict[int, tf.Variable] = {}
    for graph in graphs:
        by_handle = {id(variable.handle): variable for variable in graph.variables}
        for captured in graph.captured_inputs:
            if id(captured) in by_handle:
                found.setdefault(id(captured), by_handle[id(captured)])
    return list(found.values())


def _make_fingerprint_stable(folder: Path) -> None:
    """Replaces TensorFlow's random id of an export by one that depends on its content."""
    file = folder / "fingerprint.pb"
    fingerprint = fingerprint_pb2.FingerprintDef.FromString(file.read_bytes())
    fingerprint.uuid = ""
    content = hashlib.sha256(fingerprint.SerializeToString(deterministic=True)).digest()
    fingerprint.uuid = str(uuid.UUID(bytes=content[:16]))
    file.write_bytes(fingerprint.SerializeToString(deterministic=True))


def convert(signatures: Sequence[Signature], quantize: Quantize) -> bytes:
    """Returns the bytes of a .tflite file with these signatures.

    Converts a SavedModel: from concrete functions, the converter loses variables.
    """
    with tempfile.TemporaryDirectory() as folder:
        write(signatures, Path(folder))
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=[signature.name for signature in signatures]
        )
        converter.allow_custom_ops = True
        if quantize != "none":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantize == "float16":
            converter.target_spec.supported_types = [tf.float16]
        return share_loops(converter.convert())


def convert_for_serving(signature: Signature, quantize: Quantize) -> bytes:
    """Returns a .tflite file that TensorFlow Serving runs with `--prefer_tflite_model`.

    Its session (`tflite_session.cc`) looks for a request's names among those of the tensors, which
    must have no `:0`. It resizes each input alone, and only where the number of bytes changes:
    several inputs can't grow together, and 2 rows of 8 ids after 4 rows of 4 would be read as
    those. So the signature must have one input of a fixed length.
    """
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(convert([signature], quantize)))
    (declared,) = model.signatureDefs
    tensors = model.subgraphs[declared.subgraphIndex].tensors
    for each in (*declared.inputs, *declared.outputs):
        tensors[each.tensorIndex].name = each.name
    return packed(model)

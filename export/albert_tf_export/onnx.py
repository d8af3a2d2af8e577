"""Exports ONNX files that take token ids, for ONNX Runtime and other ONNX runtimes."""

import copy
import itertools
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import numpy as np
import tensorflow as tf

from albert_tf.files import user_path
from albert_tf.models.base import PreTrainedModel
from albert_tf.options import accepts_keywords
from albert_tf.runtimes.exported import with_checksum
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf_export import check as checks
from albert_tf_export.graphs import words_stored
from albert_tf_export.metadata import label_lines, model_files, with_files
from albert_tf_export.options import (
    OnnxOptions,
    Quantize,
    check_counts,
    check_model,
    in_precision,
)
from albert_tf_export.report import Report
from albert_tf_export.samples import numeric, sample
from albert_tf_export.signatures import IDS, MASKED, Signature, classes, ids_signature
from albert_tf_export.tflite import written_with_companions

OPSET: Final = 18  # the newest opset that tf2onnx 1.17 writes
ARCHIVE: Final = 2000  # a field number that ONNX's ModelProto doesn't use
STEPS: Final = 254  # per row; with 255, rounding both the minimum and the maximum could yield 256
BYTES: Final = 2  # protocol buffers' wire type for bytes
PACKAGES: Final = ("keras", "tensorflow", "onnx", "onnxruntime", "tf2onnx")


@accepts_keywords(OnnxOptions)
def export_onnx(
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    path: str | os.PathLike[str],
    options: OnnxOptions,
) -> Report:
    """Writes an .onnx file, runs it in a fresh process, and compares its outputs with Keras.

    The model takes `input_ids`, `attention_mask`, and `token_type_ids`, int32 `[batch, length]`, or
    `[batch, choices, length]` for multiple choice. All axes are dynamic. It returns only numeric
    outputs, which `signatures.py` lists. With `predictions`, it also takes the positions to score,
    `masked_lm_positions`, int32 `[batch, predictions]`.

    The file contains `config.json` and the tokenizer's files, so that `albert_tf.pipeline` can load
    it. Its metadata field `labels` contains one label name per line. The label names are also
    written to `my-model.onnx.labels.txt`, next to `my-model.onnx`, and the report to
    `my-model.onnx.export.json`.

    Args:
        model: a model with a task head, with any dtype policy.
        tokenizer: the model's tokenizer.
        path: file to write.
    Returns:
        A `Report` with the size, the SHA-256, differences from Keras, time, and memory.
    Raises:
        UserError: if options conflict, a package is missing, or `path` exists.
        ParityError: if the outputs differ from Keras's; the file is removed.
        OSError: if the file can't be written.
    """
    path = user_path(path)
    predictions = options.predictions
    max_length, pairs = check_model(model, tokenizer)
    check_counts(model, None, predictions)
    labels = label_lines(classes(model))
    metadata = {"labels": labels} if labels else {}
    with written_with_companions(path, options.force, labels) as (file, report_file):
        model = in_precision(model, "float32")
        signature = ids_signature(
            model,
            unroll="last",
            name=MASKED if predictions else IDS,
            predictions=predictions or 0,
            strings=False,
        )
        axes = ("batch", "choices", "length") if model.task.has_choices else ("batch", "length")
        graph = convert(signature, axes, options.quantize, metadata)
        file.write_bytes(with_archive(graph, model_files(model, tokenizer)))
        differences = {}
        if options.check:
            cases = sample(model, tokenizer, max_length, pairs, predictions=predictions or 1)
            samples = {signature.name: numeric(cases[signature.name])}
            differences = checks.compare("onnx", file, samples, options.quantize)
        report = Report.of(path, file, differences)
        report.write(report_file, PACKAGES)
        return report


def convert(
    signature: Signature,
    axes: tuple[str, ...],
    quantize: Quantize,
    metadata: Mapping[str, str],
) -> bytes:
    """Returns the bytes of an ONNX file, which are the same for the same model and packages.

    Args:
        signature: function to convert.
        axes: names for the dynamic leading axes of inputs and outputs.
        metadata: keys and values to store in the file's metadata.
    """
    import onnx
    import tf2onnx

    inputs = list(signature.inputs)

    def reject_negative(*values: tf.Tensor) -> dict[str, tf.Tensor]:
        # ONNX Runtime counts a negative id from the end, but rejects an id past the end.
        largest = [tf.where(value < 0, value.dtype.max, value) for value in values]
        return signature.function(*largest)

    function = tf.function(reject_negative, input_signature=inputs, autograph=False)
    with words_stored(quantize):
        model, _ = tf2onnx.convert.from_function(function, input_signature=inputs, opset=OPSET)
    _keep_weights_outside(model.graph)
    if quantize == "none":
        _share_embedding(model.graph)
    else:
        _multiply_in_8_bits(model.graph)
    _sort(model.graph, {}, [each.name for each in (*model.graph.input, *model.graph.output)])
    for each in (*model.graph.input, *model.graph.output):
        for name, size in zip(axes, each.type.tensor_type.shape.dim, strict=False):
            if not size.HasField("dim_value"):
                size.dim_param = name
    onnx.helper.set_model_props(model, dict(metadata))
    return model.SerializeToString(deterministic=True)


def with_archive(content: bytes, files: Mapping[str, bytes]) -> bytes:
    """Appends a ZIP archive to an ONNX file, as a field that protocol buffer readers skip."""
    size = len(with_files(b"", with_checksum(content, files)))
    graph = content + _varint(ARCHIVE << 3 | BYTES) + _varint(size)
    return with_files(graph, with_checksum(graph, files))


def _varint(number: int) -> bytes:
    """Encodes a number as a protocol buffers varint: 7 bits per byte, the lowest first."""
    high, low = divmod(number, 128)
    return bytes([low | 128]) + _varint(high) if high else bytes([low])


def _keep_weights_outside(graph: Any) -> None:
    """Moves loop-invariant weights out of loops, so that the body reads them from the outer graph.

    tf2onnx passes a loop's weights from step to step. ONNX Runtime would copy them in each step,
    and could neither fold nor quantize their matmuls.
    """
    for loop in (node for node in graph.node if node.op_type == "Loop"):
        (body,) = (each.g for each in loop.attribute if each.name == "body")
        # A body's first inputs are a counter and a condition; its first output is a condition.
        invariant = [
            index
            for index in range(len(loop.output))
            if body.output[index + 1].name == body.input[index + 2].name
        ]
        outside = {body.input[index + 2].name: loop.input[index + 2] for index in invariant}
        after = {loop.output[index]: loop.input[index + 2] for index in invariant}
        _rename(body.node, outside)
        _rename(graph.node, after)
        for index in reversed(invariant):
            del body.input[index + 2], body.output[index + 1]
            del loop.input[index + 2], loop.output[index]


def _share_embedding(graph: Any) -> None:
    """Stores the word embedding matrix once, although the masked-LM head uses its transpose.

    tf2onnx stores the transpose as a second constant. Instead, ONNX Runtime can run a Transpose
    node when it loads the file. Only constants can be quantized, so 8-bit files contain the matrix
    and its transpose.
    """
    import onnx

    tables = {node.input[0] for node in graph.node if node.op_type == "Gather"}
    matrices = {
        each.name: onnx.numpy_helper.to_array(each)
        for each in graph.initializer
        if len(each.dims) == 2
    }
    for table, name in itertools.product(sorted(tables & matrices.keys()), matrices):
        if name not in tables and np.array_equal(matrices[table].T, matrices[name]):
            (twin,) = (each for each in graph.initializer if each.name == name)
            graph.initializer.remove(twin)
            graph.node.append(onnx.helper.make_node("Transpose", [table], [name], perm=[1, 0]))


def _multiply_in_8_bits(graph: Any) -> None:
    """Quantizes matmuls with constant matrices to 8 bits.

    Each column of a matrix and each row of its input has its own scale, so a row's outputs don't
    depend on the other rows of the batch. (`DynamicQuantizeLinear` uses one scale for all rows.) 0
    stays exactly 0; otherwise, gelu outputs, most of which are close to 0, would all be off in the
    same direction. CPUs without VNNI add two adjacent products in 16 bits, so the range of weights
    is limited to prevent overflow.
    """
    import onnx

    matrices = {
        each.name: onnx.numpy_helper.to_array(each)
        for each in graph.initializer
        if len(each.dims) == 2 and each.data_type == onnx.TensorProto.FLOAT
    }
    constants: dict[str, Any] = {
        "8_bits/axis": np.array([-1]),
        "8_bits/none": np.float32(0),
        "8_bits/steps": np.float32(STEPS),
        "8_bits/least": np.float32(1e-30),
        "8_bits/one": np.float32(1),
        "8_bits/zero": np.uint8(0),
    }

    def replace(graph: Any) -> None:
        nodes: list[Any] = []
        rows: dict[str, tuple[str, str, str]] = {}

        def add(operator: str, *inputs: str, output: str = "", **attributes: int) -> str:
            output = output or f"8_bits/{operator}/{inputs[0]}/{len(nodes)}"
            nodes.append(onnx.helper.make_node(operator, inputs, [output], **attributes))
            return output

        def in_8_bits(values: str) -> tuple[str, str, str]:
            """Decomposes `values` into `(whole + lowest) * step`, with two scalars per row."""
            axis, none = "8_bits/axis", "8_bits/none"
            low = add("Min", add("ReduceMin", values, axis, keepdims=1), none)
            high = add("Max", add("ReduceMax", values, axis, keepdims=1), none)
            step = add("Div", add("Sub", high, low), "8_bits/steps")
            step = add("Max", step, "8_bits/least")
            lowest = add("Round", add("Div", low, step))
            above = add("Sub", add("Div", values, step), lowest)
            return add("QuantizeLinear", above, "8_bits/one", "8_bits/zero"), lowest, step

        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    replace(attribute.g)
            if node.op_type != "MatMul" or node.input[1] not in matrices:
                nodes.append(node)
                continue
            values, name = node.input
            columns, scale = eight_bits(matrices[name])
            constants[f"{name}/8_bits"], constants[f"{name}/scale"] = columns, scale
            constants[f"{name}/sum"] = columns.sum(axis=0, dtype=np.float32)
            if values not in rows:
                rows[values] = in_8_bits(values)
            whole, lowest, step = rows[values]
            product = add("MatMulInteger", whole, f"{name}/8_bits")
            product = add("Cast", product, to=onnx.TensorProto.FLOAT)
            product = add("Add", product, add("Mul", lowest, f"{name}/sum"))
            add("Mul", add("Mul", product, step), f"{name}/scale", output=node.output[0])
        kept = [copy.deepcopy(node) for node in nodes]
        del graph.node[:]
        graph.node.extend(kept)

    replace(graph)
    graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()
    )


def eight_bits(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns a matrix in int8 `[K, N]`, and the scale of each column, float32 `[N]`.

    The sum of two adjacent weights with the same sign, each times `STEPS`, fits into 16 bits.
    """
    pairs = np.pad(matrix, [(0, len(matrix) % 2), (0, 0)]).reshape(-1, 2, matrix.shape[1])
    sums = [np.maximum(sign * pairs, 0).sum(axis=1).max(axis=0) for sign in (1, -1)]
    most = (2**15 - 1) // STEPS - 1  # Rounding may add one half to each weight.
    largest = np.max([np.abs(matrix).max(axis=0) / 127, *(each / most for each in sums)], axis=0)
    scale = np.maximum(largest, 1e-30).astype(np.float32)
    return np.round(matrix / scale).astype(np.int8), scale


def _rename(nodes: Any, names: Mapping[str, str]) -> None:
    for node in nodes:
        for index, name in enumerate(node.input):
            node.input[index] = names.get(name, name)


def _sort(
    graph: Any,
    names: dict[str, str],
    lasting: Collection[str] = (),
    visit_outside: Callable[[str], None] = lambda name: None,
) -> None:
    """Sorts and renames nodes and constants by use, because tf2onnx's order changes between runs.

    Args:
        names: dict from old names to new ones. This function adds the names in the graph.
        lasting: names that don't change.
        visit_outside: function that renames a value from outside this graph.
    """
    makers = {name: node for node in graph.node for name in node.output}
    constants = {each.name: each for each in graph.initializer}
    nodes: list[Any] = []
    used: list[Any] = []

    def visit(name: str) -> None:
        if not name or name in names:
            return
        if name in constants:
            used.append(constants[name])
            made = [name]
        elif name in makers:
            node = makers[name]
            for each in node.input:
                visit(each)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    _sort(attribute.g, names, (), visit)
            nodes.append(node)
            made = node.output
        else:
            visit_outside(name)
            return
        rename(*made)

    def rename(*values: str) -> None:
        for value in values:
            if value:  # Unused outputs have no name.
                names[value] = value if value in lasting else f"v{len(names)}"

    rename(*(each.name for each in graph.input))
    for each in graph.output:
        visit(each.name)
    graph.name, graph.doc_string = "albert", ""
    for each in nodes:
        each.name = f"{each.op_type}_{names[each.output[0]]}"
        each.output[:] = [names.get(name, name) for name in each.output]
    _rename(nodes, names)
    for each in (*used, *graph.input, *graph.output):
        each.name = names[each.name]
    for each in (*graph.input, *graph.output):
        for size in each.type.tensor_type.shape.dim:
            size.ClearField("dim_param")  # numbered by tf2onnx
    for field, values in ((graph.node, nodes), (graph.initializer, used)):
        copies = [copy.deepcopy(each) for each in values]
        del field[:]
        field.extend(copies)
    del graph.value_info[:]

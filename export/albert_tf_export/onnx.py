"""Exports ONNX files, which take ids, for ONNX Runtime and the many hosts that read ONNX."""

import copy
import itertools
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf

from albert_tf.exported import model_files, with_checksum
from albert_tf.files import user_path
from albert_tf.models.base import PreTrainedModel
from albert_tf.options import accepts_keywords
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf_export import check as checks
from albert_tf_export.graphs import words_stored
from albert_tf_export.metadata import label_lines, with_files
from albert_tf_export.options import (
    OnnxOptions,
    Quantize,
    check_counts,
    check_model,
    in_precision,
)
from albert_tf_export.report import Report
from albert_tf_export.samples import numeric, sample
from albert_tf_export.signatures import (
    Signature,
    classes,
    ids_signature,
    masked_signature,
)
from albert_tf_export.tflite import written_with_companions

OPSET: Final = 18  # the newest that tf2onnx 1.17 writes
ARCHIVE: Final = 2000  # number of a field that ONNX's ModelProto doesn't have
LARGEST: Final = 254  # of the 8 bits of a row: with both ends rounded, 255 steps may be 256
BYTES: Final = 2  # wire type of protocol buffers
PACKAGES: Final = ("keras", "tensorflow", "onnx", "onnxruntime", "tf2onnx")


@accepts_keywords(OnnxOptions)
def export_onnx(
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    path: str | os.PathLike[str],
    options: OnnxOptions,
) -> Report:
    """Writes an .onnx file, runs it in a fresh process, and compares its outputs with Keras.

    It takes `input_ids`, `attention_mask` and `token_type_ids`, int32 `[batch, length]`, or
    `[batch, choices, length]` for multiple choice, of any size, and returns numbers alone
    (`signatures.py` lists them). It carries `config.json` and the tokenizer's files, so that
    `albert_tf.pipeline` reads it. The names of classes are in `my-model.onnx.labels.txt` beside
    `my-model.onnx`, and in the file's metadata as `labels`, a class a line; the report is in
    `my-model.onnx.export.json`. With `predictions` it also takes the positions to score,
    `masked_lm_positions`, int32 `[batch, predictions]`.

    Args:
        model: a task's model, with any dtype policy.
        tokenizer: the model's tokenizer, for the comparison.
        path: file to write.
    Returns:
        A `Report`: size, SHA-256, differences from Keras, time and memory.
    Raises:
        UserError: the arguments don't fit together, a package is missing, or `path` exists.
        ParityError: the outputs differ from those of Keras; the file is removed.
        OSError: it can't be written.
    """
    path = user_path(path)
    predictions = options.predictions
    max_length = min(tokenizer.model_max_length, model.config.max_position_embeddings)
    pairs = check_model(model, tokenizer, max_length, None)
    check_counts(model, None, predictions)
    labels = classes(model)
    metadata = {"labels": label_lines(labels)} if labels else {}
    with written_with_companions(path, options.force, labels) as (file, report_file):
        model = in_precision(model, "float32")
        signature = (
            masked_signature(model, unroll="last", predictions=predictions)
            if predictions
            else ids_signature(model, unroll="last", strings=False)
        )
        axes = ("batch", "choices", "length") if model.task.has_choices else ("batch", "length")
        convert(signature, axes, options.quantize, metadata, file)
        embedding = model.sentence_embedding()
        files = model_files(model.config, model.task.model, tokenizer, embedding)
        file.write_bytes(with_archive(file.read_bytes(), files))
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
    path: Path,
) -> None:
    """Writes an ONNX file, with the same bytes for the same model and packages.

    Args:
        signature: its function.
        axes: names of the first axes of inputs and outputs that have no fixed size.
        metadata: names and values that the file gets beside the graph.
        path: file to write.
    """
    import onnx
    import tf2onnx

    inputs = list(signature.inputs)
    function = tf.function(_refusing_negative(signature), input_signature=inputs, autograph=False)
    with words_stored(quantize):
        made, _ = tf2onnx.convert.from_function(function, input_signature=inputs, opset=OPSET)
    _keep_weights_outside(made.graph)
    if quantize == "none":
        _share_embedding(made.graph)
    else:
        _multiply_in_8_bits(made.graph)
    _sort(made.graph, {}, [each.name for each in (*made.graph.input, *made.graph.output)])
    for each in (*made.graph.input, *made.graph.output):
        for name, size in zip(axes, each.type.tensor_type.shape.dim, strict=False):
            if not size.HasField("dim_value"):
                size.dim_param = name
    onnx.helper.set_model_props(made, dict(metadata))
    path.write_bytes(made.SerializeToString(deterministic=True))


def with_archive(content: bytes, files: Mapping[str, bytes]) -> bytes:
    """Returns an ONNX file that is also a ZIP archive of files: its last field is their archive.

    Its number is none of ONNX's, and readers of protocol buffers skip fields that they don't know.
    """
    size = len(with_files(b"", with_checksum(content, files)))
    graph = content + _varint(ARCHIVE << 3 | BYTES) + _varint(size)
    return with_files(graph, with_checksum(graph, files))


def _varint(number: int) -> bytes:
    """Returns a number as protocol buffers write it: 7 bits a byte, the lowest first."""
    high, low = divmod(number, 128)
    return bytes([low | 128]) + _varint(high) if high else bytes([low])


def _refusing_negative(signature: Signature) -> Any:
    """Turns negative ids into ones that no table has: ONNX counts them from a table's end."""

    def function(*values: tf.Tensor) -> dict[str, tf.Tensor]:
        largest = [tf.where(value < 0, value.dtype.max, value) for value in values]
        return signature.function(*largest)

    return function


def _keep_weights_outside(graph: Any) -> None:
    """Lets the loops of a graph read what they don't change from the graph around them.

    tf2onnx passes a loop's weights from step to step. ONNX Runtime copies them in each, and neither
    folds nor quantizes their products.
    """
    for loop in (node for node in graph.node if node.op_type == "Loop"):
        (body,) = (each.g for each in loop.attribute if each.name == "body")
        # A body takes a counter and a condition first, and returns a condition first.
        unchanged = [
            place
            for place in range(len(loop.output))
            if body.output[place + 1].name == body.input[place + 2].name
        ]
        outside = {body.input[place + 2].name: loop.input[place + 2] for place in unchanged}
        after = {loop.output[place]: loop.input[place + 2] for place in unchanged}
        _rename(body.node, outside)
        _rename(graph.node, after)
        for place in reversed(unchanged):
            del body.input[place + 2], body.output[place + 1]
            del loop.input[place + 2], loop.output[place]


def _share_embedding(graph: Any) -> None:
    """Stores the embedding of words once where masked words are scored with its transpose.

    tf2onnx transposes constants. ONNX Runtime does it again when it loads the file; it quantizes
    constants alone, so files in 8 bits have both.
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
    """Replaces the products with constant matrices by products of 8 by 8 bits.

    Each column of a matrix has a scale, and each row of what it multiplies one of its own, so that
    other rows of a batch don't change an answer. (`DynamicQuantizeLinear` has one for all rows.) 0
    stays 0: most outputs of gelu are near it, and would all be off to the same side.
    CPUs without VNNI add two neighbouring products in 16 bits: weights are as large as allows that.
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
        "8_bits/steps": np.float32(LARGEST),
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
            """Adds `values = (whole + lowest) * step`, the last two of each row."""
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

    Two products of neighbouring weights of one sign, with at most `LARGEST`, fit into 16 bits.
    """
    pairs = np.pad(matrix, [(0, len(matrix) % 2), (0, 0)]).reshape(-1, 2, matrix.shape[1])
    sums = [np.maximum(sign * pairs, 0).sum(axis=1).max(axis=0) for sign in (1, -1)]
    most = (2**15 - 1) // LARGEST - 1  # Rounding adds one half to each.
    largest = np.max([np.abs(matrix).max(axis=0) / 127, *(each / most for each in sums)], axis=0)
    scale = np.maximum(largest, 1e-30).astype(np.float32)
    return np.round(matrix / scale).astype(np.int8), scale


def _rename(nodes: Any, names: Mapping[str, str]) -> None:
    for node in nodes:
        for place, name in enumerate(node.input):
            node.input[place] = names.get(name, name)


def _sort(
    graph: Any,
    names: dict[str, str],
    lasting: Collection[str] = (),
    visit_outside: Callable[[str], None] = lambda name: None,
) -> None:
    """Sorts and names nodes and constants by their use: tf2onnx's order changes from run to run.

    Args:
        names: new names by old ones; gets those of the graph's values.
        lasting: names that don't change.
        visit_outside: names a value that isn't of this graph.
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
        elif name not in makers:
            visit_outside(name)
            return
        else:
            node = makers[name]
            for each in node.input:
                visit(each)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    _sort(attribute.g, names, (), visit)
            nodes.append(node)
        rename(*(makers[name].output if name in makers else [name]))

    def rename(*values: str) -> None:
        for value in values:
            if value:  # an output that isn't needed has no name
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
            size.ClearField("dim_param")  # a number of tf2onnx
    for field, values in ((graph.node, nodes), (graph.initializer, used)):
        copies = [copy.deepcopy(each) for each in values]
        del field[:]
        field.extend(copies)
    del graph.value_info[:]

"""Counts in place of clocks: imports, graphs and files of the tiny classifier don't grow unnoticed.

A change of a count needs a reason, which the commit gives. To update it, copy the number that the
failed test shows into the table below.
"""

import os
import subprocess
import sys

import pytest
from ai_edge_litert import schema_py_generated as schema

from tests.export.conftest import archive_start

# The same for all versions of Python and of the packages in requirements.txt.
EXACT = {
    "modules of ours, import albert_tf": 2,  # the other one lists the tasks
    "packages, import albert_tf": 0,
    "packages, albert-tf --help": 0,
    "packages besides Keras' and TensorFlow's, AlbertModel": 0,
    "variables, SavedModel": 27,
    # Of the layers in the loop, of the last one, and of the embedding.
    "products with their bias, SavedModel": 11,
    "products with their bias and gelu, SavedModel": 2,
    "packed weights, TFLite": 9,
}
# May depend on the versions, so each bound is a little above the number that was counted: 47,
# 1,368, 491,580 and 54,942; 103, 54 and 88,000; 69,456.
AT_MOST = {
    "modules of ours, albert-tf --help": 49,
    "operations, SavedModel": 1400,
    "bytes of graphs, SavedModel": 500_000,
    "bytes of weights, SavedModel": 56_000,
    "operators, TFLite": 105,
    "constants, TFLite": 56,
    "bytes of the graph, TFLite": 90_000,
    "bytes of the arena, TFLite": 75_000,
}

# Prints operations of the graph that TensorFlow's optimizer makes, with oneDNN on any processor.
FUSED = """
import sys, collections
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.core.util import event_pb2
folder = sys.argv[1]
serve = tf.saved_model.load(folder).signatures["serving_default"]
inputs = {name: tf.ones((2, 16), tf.int32) for name in serve.structured_input_signature[1]}
with tf.summary.create_file_writer(f"{folder}.log").as_default():
    tf.summary.trace_on(graph=True)
    serve(**inputs)
    tf.summary.trace_export("graph", step=0)
fused = collections.Counter()
for record in tf.data.TFRecordDataset(tf.io.gfile.glob(f"{folder}.log/*")):
    for value in event_pb2.Event.FromString(record.numpy()).summary.value:
        metadata = config_pb2.RunMetadata.FromString(value.tensor.string_val[0])
        for graph in metadata.function_graphs:
            for node in graph.post_optimization_graph.node:
                fused[tuple(node.attr["fused_ops"].list.s)] += node.op == "_FusedMatMul"
print(fused[b"BiasAdd",], fused[b"BiasAdd", b"GeluApproximate"])
"""

IMPORTS = """
import sys
def added(before):
    names = sys.modules.keys() - before
    packages = ("albert_tf", "albert_tf_export")
    ours = {name for name in names if name.partition(".")[0] in packages}
    others = {name.partition(".")[0] for name in names - ours} - sys.stdlib_module_names
    return len(ours), len({name for name in others if not name.startswith("_")})
before = set(sys.modules)
"""

# Prints the bytes that a call adds to the C library's heap: LiteRT doesn't say how large its arena
# is. Without XNNPACK, whose packed weights would count, and whose packing depends on the processor.
ARENA = """
import ctypes, sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
class Heap(ctypes.Structure):
    names = "arena ordblks smblks hblks mapped usmblks fsmblks used fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]
look = ctypes.CDLL(None).mallinfo2
look.restype = Heap
def allocated():
    heap = look()
    return heap.used + heap.mapped
kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
interpreter = Interpreter(sys.argv[1], num_threads=1, experimental_op_resolver_type=kernels)
run = interpreter.get_signature_runner()
inputs = {name: np.ones((1, 16), np.int32) for name in run.get_input_details()}
before = allocated()
run(**inputs)
print(allocated() - before)
"""


def counted(code, *arguments):
    """Returns the numbers that a fresh Python prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1"}
    output = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment
    ).stdout
    return [int(number) for number in output.split()]


def of_imports():
    ours, packages, besides = counted(
        IMPORTS + "import albert_tf; print(*added(before))\n"
        "import keras, tensorflow; before = set(sys.modules)\n"
        "albert_tf.AlbertModel; print(added(before)[1])"
    )
    help_ours, help_packages = counted(
        IMPORTS
        + "import albert_tf.cli; albert_tf.cli._parser().format_help(); print(*added(before))"
    )
    return {
        "modules of ours, import albert_tf": ours,
        "packages, import albert_tf": packages,
        "modules of ours, albert-tf --help": help_ours,
        "packages, albert-tf --help": help_packages,
        "packages besides Keras' and TensorFlow's, AlbertModel": besides,
    }


def of_saved_model(folder):
    from tensorflow.core.protobuf import saved_model_pb2

    content = (folder / "saved_model.pb").read_bytes()
    graph = saved_model_pb2.SavedModel.FromString(content).meta_graphs[0].graph_def
    nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
    (weights,) = folder.glob("variables/variables.data-*")
    with_bias, with_gelu = counted(FUSED, folder)
    return {
        "products with their bias, SavedModel": with_bias,
        "products with their bias and gelu, SavedModel": with_gelu,
        "operations, SavedModel": len(nodes),
        "variables, SavedModel": sum(node.op == "VarHandleOp" for node in nodes),
        "bytes of graphs, SavedModel": len(content),
        "bytes of weights, SavedModel": weights.stat().st_size,
    }


def of_tflite(file):
    content = file.read_bytes()
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content))
    builtin = [max(each.builtinCode, each.deprecatedBuiltinCode) for each in model.operatorCodes]

    def is_constant(graph, index):
        return index >= 0 and model.buffers[graph.tensors[index].buffer].data is not None

    products = (schema.BuiltinOperator.FULLY_CONNECTED, schema.BuiltinOperator.BATCH_MATMUL)
    operators = [(graph, each) for graph in model.subgraphs for each in graph.operators]
    return {
        "operators, TFLite": len(operators),
        # The runtime packs a product's constant weights, for each product anew.
        "packed weights, TFLite": sum(
            builtin[each.opcodeIndex] in products and is_constant(graph, each.inputs[1])
            for graph, each in operators
        ),
        "constants, TFLite": sum(
            each.data is not None and len(each.data) > 0 for each in model.buffers
        ),
        "bytes of the graph, TFLite": archive_start(file),
        "bytes of the arena, TFLite": counted(ARENA, file)[0],
    }


@pytest.mark.slow
def test_counts(classifier, tokenizer, tmp_path):
    """Exports in fresh processes: Keras numbers the names of a process's models, in all nodes."""
    for part in (classifier, tokenizer):
        part.save_pretrained(tmp_path / "model")
    for output in ("saved-model", "model.tflite"):
        command = [sys.executable, "-m", "albert_tf.cli", "export", output.removeprefix("model.")]
        command += ["--model", "model", "--output", output, "--ids-only", "--no-check"]
        subprocess.run(command, check=True, cwd=tmp_path)
    found = {
        **of_imports(),
        **of_saved_model(tmp_path / "saved-model"),
        **of_tflite(tmp_path / "model.tflite"),
    }
    assert {name: found[name] for name in EXACT} == EXACT
    assert not {name: (found[name], most) for name, most in AT_MOST.items() if found[name] > most}
    assert found.keys() == EXACT.keys() | AT_MOST.keys()

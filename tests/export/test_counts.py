"""Counts in place of clocks: graphs and files of the tiny classifier don't grow unnoticed.

A change of a count needs a reason, which the commit gives. To update it, copy the number that the
failed test shows into the table below.
"""

import os
import subprocess
import sys

import pytest
from ai_edge_litert import schema_py_generated as schema

from albert_tf.bfloat16 import CPUINFO
from tests.export.conftest import archive_start, unpacked

# Without AVX-512, oneDNN rejects bfloat16, and TensorFlow fuses no layer norm. CPUINFO is on Linux.
HAS_AVX512 = CPUINFO.exists() and "avx512f" in CPUINFO.read_text("utf-8").split()
# The same for all versions of Python and of the packages in requirements.txt.
EXACT = {
    "variables, SavedModel": 27,
    # Of the layers in the loop, of the last one, and of the embedding.
    "products with their bias, SavedModel": 11,
    "products with their bias and gelu, SavedModel": 2,
    "layer norms of one operation, SavedModel in bfloat16": 5 if HAS_AVX512 else 0,
    "packed weights, TFLite": 9,
}
# May depend on the versions, so each bound is a little above the number that was counted: 1,368,
# 491,580 and 54,942; 103, 54 and 88,000.
AT_MOST = {
    "operations, SavedModel": 1400,
    "bytes of graphs, SavedModel": 500_000,
    "bytes of weights, SavedModel": 56_000,
    "operators, TFLite": 105,
    "constants, TFLite": 56,
    "bytes of the graph, TFLite": 90_000,
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
                fused["layer norm"] += node.op == "_MklLayerNorm"
                fused[tuple(node.attr["fused_ops"].list.s)] += node.op == "_FusedMatMul"
print(fused[b"BiasAdd",], fused[b"BiasAdd", b"GeluApproximate"], fused["layer norm"])
"""


def fused_operations(folder):
    """Returns the numbers of products with bias, of those with gelu as well, and of layer norms."""
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1"}
    command = [sys.executable, "-c", FUSED, folder]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    return map(int, done.stdout.split())


def of_saved_model(folder):
    from tensorflow.core.protobuf import saved_model_pb2

    content = (folder / "saved_model.pb").read_bytes()
    graph = saved_model_pb2.SavedModel.FromString(content).meta_graphs[0].graph_def
    nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
    (weights,) = folder.glob("variables/variables.data-*")
    with_bias, with_gelu, _ = fused_operations(folder)
    *_, layer_norms = fused_operations(folder.with_name("bfloat16"))
    return {
        "layer norms of one operation, SavedModel in bfloat16": layer_norms,
        "products with their bias, SavedModel": with_bias,
        "products with their bias and gelu, SavedModel": with_gelu,
        "operations, SavedModel": len(nodes),
        "variables, SavedModel": sum(node.op == "VarHandleOp" for node in nodes),
        "bytes of graphs, SavedModel": len(content),
        "bytes of weights, SavedModel": weights.stat().st_size,
    }


def of_tflite(file):
    model = unpacked(file)
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
    }


@pytest.mark.slow
def test_counts(classifier, tokenizer, tmp_path):
    """Exports in fresh processes: Keras numbers the names of a process's models, in all nodes."""
    for part in (classifier, tokenizer):
        part.save_pretrained(tmp_path / "model")
    for output, form in (
        ("saved-model", ["saved-model"]),
        ("bfloat16", ["saved-model", "--precision", "bfloat16"]),
        ("model.tflite", ["tflite"]),
    ):
        command = [sys.executable, "-m", "albert_tf.cli", "export", *form]
        command += ["--model", "model", "--output", output, "--ids-only", "--no-check"]
        subprocess.run(command, check=True, cwd=tmp_path)
    found = of_saved_model(tmp_path / "saved-model") | of_tflite(tmp_path / "model.tflite")
    assert {name: found[name] for name in EXACT} == EXACT
    assert not {name: (found[name], most) for name, most in AT_MOST.items() if found[name] > most}
    assert found.keys() == EXACT.keys() | AT_MOST.keys()

"""Counts in place of clocks: imports, graphs and files of the tiny classifier don't grow unnoticed.

A change of a count needs a reason, which the commit gives. To update it, copy the number that the
failed test shows into the table below.
"""

import subprocess
import sys

import pytest
from ai_edge_litert import schema_py_generated as schema
from albert_tf_export import export_saved_model, export_tflite

# The same for all versions of Python and of the packages in requirements.txt.
EXACT = {
    "modules of ours, import albert_tf": 1,
    "packages, import albert_tf": 0,
    "packages, albert-tf --help": 0,
    "packages besides Keras' and TensorFlow's, AlbertModel": 0,
    "variables, SavedModel": 27,
    "packed weights, TFLite": 9,
}
# May depend on the versions, so each bound is a little above the number that was found: 47, 2,464,
# 890,414 and 55,009; 103, 54 and 87,974.
AT_MOST = {
    "modules of ours, albert-tf --help": 50,
    "operations, SavedModel": 2500,
    "bytes of graphs, SavedModel": 900_000,
    "bytes of weights, SavedModel": 56_000,
    "operators, TFLite": 105,
    "constants, TFLite": 56,
    "bytes, TFLite": 90_000,
}

IMPORTS = """
import sys
def added(before):
    names = sys.modules.keys() - before
    ours = {name for name in names if name.partition(".")[0] == "albert_tf"}
    others = {name.partition(".")[0] for name in names - ours} - sys.stdlib_module_names
    return len(ours), len({name for name in others if not name.startswith("_")})
before = set(sys.modules)
"""


def counted(code):
    """Returns the numbers that a fresh Python prints."""
    command = [sys.executable, "-c", IMPORTS + code]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [int(number) for number in output.split()]


def of_imports():
    ours, packages, besides = counted(
        "import albert_tf; print(*added(before))\n"
        "import keras, tensorflow; before = set(sys.modules)\n"
        "albert_tf.AlbertModel; print(added(before)[1])"
    )
    help_ours, help_packages = counted(
        "import albert_tf.cli; albert_tf.cli._parser().format_help(); print(*added(before))"
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
    return {
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
        "bytes, TFLite": len(content),
    }


@pytest.fixture(scope="module")
def found(written):
    return {
        **of_imports(),
        **of_saved_model(written(export_saved_model, ids_only=True)),
        **of_tflite(written(export_tflite, ids_only=True)),
    }


def test_counts(found):
    assert {name: found[name] for name in EXACT} == EXACT


def test_bounds(found):
    assert not {name: (found[name], most) for name, most in AT_MOST.items() if found[name] > most}
    assert found.keys() == EXACT.keys() | AT_MOST.keys()

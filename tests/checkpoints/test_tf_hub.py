import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import google, tf_hub
from albert_tf.checkpoints.finder import find
from albert_tf.checkpoints.google import to_google
from albert_tf.checkpoints.tf_hub import GraphHints, read_hints
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from tests.checkpoints.modules import save_garden_module, save_tf1_module
from tests.checkpoints.tensors import BLOCK, assert_equal, garden_variables, google_variables


@pytest.fixture
def config(small_config):
    return dataclasses.replace(small_config, id2label=None)


@pytest.mark.parametrize(
    ("heads", "hidden_act"), [((), "gelu"), (("predictions",), "gelu_new")], ids=str
)
def test_a_saved_model_of_model_garden(config, tmp_path, monkeypatch, heads, hidden_act):
    config = dataclasses.replace(config, hidden_act=hidden_act)
    variables = google_variables(config, *heads)
    save_garden_module(tmp_path, config, garden_variables(config, variables))
    for owner in (tf.saved_model, tf.compat.v1.saved_model):
        monkeypatch.setattr(owner, "load", None)  # nothing of a graph runs
    monkeypatch.setattr(tf, "import_graph_def", None)
    found = find(tmp_path).read()
    assert found.config == config
    assert_equal(found.tensors, google.as_checkpoint(config, variables, "").tensors)


@pytest.mark.parametrize(
    ("changes", "scope"),
    [
        ({}, ""),
        ({"hidden_act": "relu", "num_hidden_groups": 2, "inner_group_num": 2}, "module/"),
        ({"hidden_act": "tanh", "embedding_size": 20}, ""),
    ],
)
def test_a_module_of_tensorflow_1(config, tmp_path, changes, scope):
    """A configuration in the module's assets takes precedence over the graph."""
    config = dataclasses.replace(config, **changes)
    variables = google_variables(config, "predictions", "sop_classifier")
    folder = save_tf1_module(tmp_path / "albert_base", config, variables, scope)
    assert find(folder).format == "tf-hub"
    found = find(folder).read()
    assert found.config == config, "measured: this module has no configuration"
    assert_equal(found.tensors, google.as_checkpoint(config, variables, "").tensors)
    assert found.origin == f"{folder} (SavedModel)"
    for place, layers in ((".", 7), ("assets", 8)):
        stated = dataclasses.replace(config, num_hidden_layers=layers, hidden_dropout_prob=0.1)
        (folder / place / "albert_config.json").write_text(json.dumps(to_google(stated)))
        assert find(folder).read().config == stated


NOTHING = GraphHints(None, None, None)


@pytest.mark.parametrize("size", ["base", "large", "xlarge", "xxlarge"])
def test_published_sizes_need_no_graph(size, tmp_path):
    expected = AlbertConfig.from_size(size)
    hidden, inside = expected.hidden_size, expected.intermediate_size
    shapes = {
        "bert/embeddings/word_embeddings": (30000, 128),
        "bert/embeddings/position_embeddings": (512, 128),
        "bert/embeddings/token_type_embeddings": (2, 128),
        f"{BLOCK}attention_1/self/query/kernel": (hidden, hidden),
        f"{BLOCK}ffn_1/intermediate/dense/kernel": (hidden, inside),
    }
    variables = {name: np.broadcast_to(0.0, shape) for name, shape in shapes.items()}
    assert tf_hub.infer_config(variables, NOTHING, tmp_path) == expected
    other = tf_hub.infer_config(variables, GraphHints(5, 8, "relu"), tmp_path)
    assert (other.num_hidden_layers, other.num_attention_heads, other.hidden_act) == (5, 8, "relu")


@pytest.mark.parametrize(
    ("hints", "message"),
    [
        (NOTHING, "reveal num_hidden_layers, num_attention_heads, hidden_act. Copy the module's"),
        (GraphHints(3, None, "relu"), "doesn't reveal num_attention_heads. Copy the module's"),
        (GraphHints(3, 7, "relu"), "sizes inferred from .*hidden_size must be a multiple"),
    ],
)
def test_another_size_that_shows_too_little(config, tmp_path, hints, message):
    with pytest.raises(UserError, match=message):
        tf_hub.infer_config(google_variables(config), hints, tmp_path)


def test_another_kind_of_model(tmp_path):
    module = tf.Module()
    module.kernel = tf.Variable(tf.ones([2, 3]), name="layer_0/kernel")
    tf.saved_model.save(module, tmp_path)
    assert read_hints(tmp_path) == NOTHING
    with pytest.raises(
        UserError, match=f"{tmp_path} isn't an ALBERT module: .*layer_0/kern.*word_embeddings'"
    ):
        find(tmp_path).read()
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert read_hints(tmp_path) == NOTHING


@pytest.fixture
def hints(tmp_path):
    """Returns a function that reads the graph of functions with these calls, starting at "f0"."""
    from tensorflow.core.protobuf import saved_model_pb2

    def read(calls):
        model = saved_model_pb2.SavedModel()
        graph = model.meta_graphs.add().graph_def
        graph.node.add(op="PartitionedCall").attr["f"].func.name = "f0"
        for name, called in calls.items():
            function = graph.library.function.add()
            function.signature.name = name
            for other in called:
                node = function.node_def.add(op=other)
                if other in calls:
                    node.attr["f"].func.name = other
        (tmp_path / "saved_model.pb").write_bytes(model.SerializeToString())
        return read_hints(tmp_path)

    return read


def test_functions_that_call_the_next_twice(hints):
    calls = {f"f{number}": [f"f{number + 1}"] * 2 for number in range(40)}
    assert hints({**calls, "f40": ["Softmax"]}).blocks == 2**40


@pytest.mark.parametrize("calls", [1, 3, 3000])
def test_functions_in_a_ring(hints, calls):
    ring = {f"f{number}": [f"f{(number + 1) % calls}"] for number in range(calls)}
    with pytest.raises((ValueError, RecursionError), match="calls itself|recursion"):
        hints(ring)


def test_a_shape_that_claims_terabytes():
    tensor = tf.make_tensor_proto([4])
    tensor.tensor_shape.dim[0].size = 10**13
    node = tf.compat.v1.NodeDef(op="Const", name="x/query/Reshape/shape")
    node.attr["value"].tensor.CopyFrom(tensor)
    assert tf_hub._heads([node]) is None

import dataclasses
import json
import shutil

import numpy as np
import pytest

from albert_tf.checkpoints import google, hub_module, tf_checkpoint
from albert_tf.checkpoints.finder import find
from albert_tf.checkpoints.google import to_google
from albert_tf.checkpoints.hub_module import GraphHints, read_hints
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError

NOTHING = GraphHints(None, None, None)


@pytest.fixture
def config(small_config):
    return dataclasses.replace(small_config, id2label=None)


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        np.testing.assert_array_equal(found[name], tensor, err_msg=name)


@pytest.mark.parametrize("scope", ["", "module/"])
def test_a_module_of_tensorflow_1(tf1_module, google_variables, config, tmp_path, scope):
    variables = google_variables(config, "pretraining")
    folder = tf1_module(tmp_path / "albert_base", config, variables, scope)
    assert find(folder).format == "tf-hub"
    found = find(folder).read()
    assert found.config == config, "measured: this module has no configuration"
    assert_equal(found.tensors, google.as_checkpoint(config, variables, "").tensors)
    assert found.origin == f"{folder} (TF-Hub module)"


def test_groups_and_equal_widths(tf1_module, google_variables, config, tmp_path):
    config = dataclasses.replace(
        config, num_hidden_groups=3, inner_group_num=2, embedding_size=20, hidden_act="relu"
    )
    folder = tf1_module(tmp_path / "module", config, google_variables(config))
    assert find(folder).read().config == config


def test_a_configuration_takes_precedence(tf1_module, google_variables, config, tmp_path):
    folder = tf1_module(tmp_path / "module", config, google_variables(config))
    for place, layers in ((".", 7), ("assets", 8)):
        stated = dataclasses.replace(config, num_hidden_layers=layers, hidden_dropout_prob=0.1)
        (folder / place / "albert_config.json").write_text(json.dumps(to_google(stated)))
        assert find(folder).read().config == stated


@pytest.mark.parametrize("with_mlm", [False, True])
def test_a_saved_model_of_model_garden(garden_module, garden_variables, config, tmp_path, with_mlm):
    variables = garden_variables(config, with_mlm)
    folder = garden_module(tmp_path / "albert_en_base", config, variables)
    found = find(folder).read()
    assert found.config == config
    block = "encoder.albert_layer_groups.0.albert_layers.0"
    for name, expected in {
        "embeddings.word_embeddings.weight": variables["word_embeddings/embeddings"],
        "encoder.embedding_hidden_mapping_in.weight": variables["embedding_projection/kernel"].T,
        f"{block}.attention.query.weight": (
            variables["transformer/self_attention/query/kernel"].reshape(20, 20).T
        ),
        f"{block}.attention.value.bias": (
            variables["transformer/self_attention/value/bias"].reshape(20)
        ),
        f"{block}.attention.dense.weight": (
            variables["transformer/self_attention/attention_output/kernel"].reshape(20, 20).T
        ),
        f"{block}.full_layer_layer_norm.weight": variables["transformer/output_layer_norm/gamma"],
    }.items():
        np.testing.assert_array_equal(found.tensors[name], expected)
    assert ("predictions.bias" in found.tensors) == with_mlm
    assert len(found.tensors) == len(variables), "every variable has another name"
    assert not [name for name in found.tensors if "/" in name], "and none is unknown"


def test_nothing_of_the_graph_is_loaded(
    garden_module, garden_variables, config, tmp_path, monkeypatch
):
    import tensorflow as tf

    folder = garden_module(tmp_path / "module", config, garden_variables(config))

    def refuse(*args, **kwargs):
        raise AssertionError("a graph was loaded")

    monkeypatch.setattr(tf.saved_model, "load", refuse)
    monkeypatch.setattr(tf, "import_graph_def", refuse)
    monkeypatch.setattr(tf.compat.v1.saved_model, "load", refuse)
    find(folder).read()


@pytest.mark.parametrize("size", ["base", "large", "xlarge", "xxlarge"])
def test_published_sizes_need_no_graph(size, tmp_path):
    expected = AlbertConfig.from_size(size)
    variables = {
        name: np.broadcast_to(np.float32(0), shape)
        for name, shape in {
            "bert/embeddings/word_embeddings": (30000, 128),
            "bert/embeddings/position_embeddings": (512, 128),
            "bert/embeddings/token_type_embeddings": (2, 128),
            f"{hub_module._BLOCK}/attention_1/self/query/kernel": (expected.hidden_size,) * 2,
            f"{hub_module._BLOCK}/ffn_1/intermediate/dense/kernel": (
                expected.hidden_size,
                expected.intermediate_size,
            ),
        }.items()
    }
    assert hub_module.inferred_config(variables, NOTHING, tmp_path) == expected
    other = hub_module.inferred_config(variables, GraphHints(5, 8, "relu"), tmp_path)
    assert (other.num_hidden_layers, other.num_attention_heads, other.hidden_act) == (5, 8, "relu")


def test_another_size_that_shows_too_little(google_variables, config, tmp_path):
    variables = google_variables(config)
    for facts, message in (
        (NOTHING, "doesn't show num_hidden_layers, num_attention_heads, hidden_act. Put its"),
        (
            GraphHints(3, None, "relu"),
            "doesn't show num_attention_heads. Put its albert_config.json",
        ),
        (
            GraphHints(3, 7, "relu"),
            "must be an ALBERT's. .*hidden_size must be a multiple",
        ),
    ):
        with pytest.raises(UserError, match=message):
            hub_module.inferred_config(variables, facts, tmp_path)


def test_another_kind_of_model(tmp_path):
    import tensorflow as tf

    module = tf.Module()
    module.kernel = tf.Variable(tf.ones([2, 3]), name="layer_0/kernel")
    tf.saved_model.save(module, tmp_path)
    with pytest.raises(
        UserError,
        match="hold an ALBERT's weights. Received: .*word_embeddings', but .*layer_0/kern",
    ):
        find(tmp_path).read()


def test_missing_and_damaged_variables(garden_module, garden_variables, config, tmp_path):
    folder = garden_module(tmp_path / "module", config, garden_variables(config))
    data = folder / "variables" / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-500])
    with pytest.raises(UserError, match="must be whole. Received: .*variables"):
        find(folder).read()
    shutil.rmtree(folder / "variables")
    with pytest.raises(UserError, match="needs its .index file"):
        find(folder).read()


def test_an_object_checkpoint_of_model_garden(garden_variables, config, tmp_path):
    import tensorflow as tf

    module = tf.Module()
    module.kept = [tf.Variable(a, name=name) for name, a in garden_variables(config).items()]
    tf.train.Checkpoint(model=module).write(tmp_path / "bert_model.ckpt")
    (tmp_path / "albert_config.json").write_text(json.dumps(to_google(config)))
    found = find(tmp_path).read()
    assert "pooler.weight" in found.tensors
    assert not [name for name in found.tensors if "/" in name]
    assert tf_checkpoint.read_variables(tmp_path / "bert_model.ckpt").keys() == (
        garden_variables(config).keys()
    )


@pytest.mark.parametrize(
    ("hidden_act", "layers", "inner"), [("gelu_new", 3, 1), ("relu", 4, 2), ("tanh", 3, 1)]
)
def test_a_graph_of_tensorflow_1(
    tf1_module, google_variables, small_config, tmp_path, hidden_act, layers, inner
):
    config = dataclasses.replace(
        small_config, hidden_act=hidden_act, num_hidden_layers=layers, inner_group_num=inner
    )
    folder = tf1_module(tmp_path / "module", config, google_variables(config))
    assert read_hints(folder) == GraphHints(layers * inner, 5, hidden_act)


@pytest.mark.parametrize("approximate", [True, False])
def test_functions_of_tensorflow_2(
    garden_module, garden_variables, small_config, tmp_path, approximate
):
    variables = garden_variables(small_config)
    folder = garden_module(tmp_path / "module", small_config, variables, approximate)
    assert read_hints(folder) == GraphHints(3, None, "gelu_new" if approximate else "gelu")


def test_a_graph_without_attention(tmp_path):
    import tensorflow as tf

    module = tf.Module()
    module.double = tf.function(lambda x: 2 * x, input_signature=[tf.TensorSpec([None])])
    tf.saved_model.save(module, tmp_path)
    assert read_hints(tmp_path) == GraphHints(None, None, None)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert read_hints(tmp_path) == GraphHints(None, None, None)


def test_a_damaged_file(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff\xff")
    with pytest.raises(UserError, match="must be a whole SavedModel. Received: .* Copy it again"):
        read_hints(tmp_path)


@pytest.fixture
def graph(tmp_path):
    """Returns a function that writes a graph whose functions call the functions given for each."""
    from tensorflow.core.protobuf import saved_model_pb2

    def write(calls):
        model = saved_model_pb2.SavedModel()
        definition = model.meta_graphs.add().graph_def
        for name, called in {"": ["f0"], **calls}.items():
            nodes = definition.node
            if name:
                function = definition.library.function.add()
                function.signature.name = name
                nodes = function.node_def
            for other in called:
                node = nodes.add(op="PartitionedCall" if other in calls else other)
                if other in calls:
                    node.attr["f"].func.name = other
        (tmp_path / "saved_model.pb").write_bytes(model.SerializeToString())
        return tmp_path

    return write


def test_functions_that_call_the_next_twice(graph):
    calls = {f"f{number}": [f"f{number + 1}"] * 2 for number in range(40)}
    assert read_hints(graph({**calls, "f40": ["Softmax"]})).blocks == 2**40


@pytest.mark.parametrize("calls", [1, 3, 3000])
def test_functions_in_a_ring(graph, calls):
    ring = {f"f{number}": [f"f{(number + 1) % calls}"] for number in range(calls)}
    with pytest.raises(UserError, match="must be a whole SavedModel. .*(calls itself|recursion)"):
        read_hints(graph(ring))


def test_a_shape_that_claims_terabytes(graph):
    from tensorflow.core.protobuf import saved_model_pb2

    path = graph({"f0": ["Softmax"]}) / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    node = model.meta_graphs[0].graph_def.node.add(op="Const", name="x/query/Reshape/shape")
    node.attr["value"].tensor.dtype = 3
    node.attr["value"].tensor.tensor_shape.dim.add(size=10**13)
    node.attr["value"].tensor.int_val.append(4)
    path.write_bytes(model.SerializeToString())
    assert read_hints(path.parent).heads is None

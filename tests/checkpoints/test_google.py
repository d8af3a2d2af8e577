import dataclasses
import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from albert_tf.checkpoints import google, names, tf_checkpoint
from albert_tf.checkpoints.finder import find
from albert_tf.checkpoints.google import GraphHints, layers_in_other_groups, read_hints, to_google
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError

HEADS = ("pretraining", "classifier", "squad_v1", "squad_v2")


@pytest.fixture
def model(small_config, google_variables):
    """A model with every head, as a reader gives it."""
    config = dataclasses.replace(small_config, num_hidden_groups=3, inner_group_num=2)
    return google.as_checkpoint(config, google_variables(config, *HEADS), "made here")


@pytest.fixture
def written(model, tmp_path):
    google.write(tmp_path / "model", model.config, model.tensors)
    return tmp_path / "model"


@pytest.fixture
def config(small_config):
    return dataclasses.replace(small_config, id2label=None)


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        np.testing.assert_array_equal(found[name], tensor, err_msg=name)


def converted(golden, name):
    path = golden / "C_hf" / "converted_from_tf1" / name / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    return {tensor.removeprefix("albert."): array for tensor, array in tensors.items()}


@pytest.mark.references("B_original_tf1/*/pretrain")
def test_the_originals_checkpoints_equal_transformers_conversion(golden, reference):
    folder = reference.parent
    expected = converted(golden, folder.name)
    found = find(reference).read()
    assert found.config == AlbertConfig.from_json_file(folder / "albert_config.json")
    assert_equal(found.tensors, expected)


def test_a_training_checkpoint_without_its_slots(golden, tmp_path):
    folder = golden / "D_optimizers" / "lamb_lookup_c1"
    for path in folder.iterdir():
        shutil.copy(path, tmp_path)
    shutil.copy(golden / "B_original_tf1" / "c1_base_gelu" / "albert_config.json", tmp_path)
    found = find(tmp_path).read().tensors
    assert found.keys() == converted(golden, "c1_base_gelu").keys()
    stored = tf.train.load_checkpoint(folder)
    for variable, (name, transposed) in names.google(find(tmp_path).read().config).items():
        if name in found:
            after = stored.get_tensor(variable)
            np.testing.assert_array_equal(found[name], after.T if transposed else after)


@pytest.mark.parametrize(
    "layout",
    ["google_albert_base_zh", "albert_tiny_zh_google", "albert_tiny_zh_google_lcqmc_finetuned"],
)
def test_published_layouts(golden, layout, tmp_path):
    """Names, shapes and configuration are of published checkpoints, the values are made here."""
    path = golden / "A_checkpoint_layouts" / "checkpoint_layouts.json"
    facts = json.loads(path.read_text())[layout]
    variables = {
        variable["name"]: np.full(variable["shape"], number, variable["dtype"])
        for number, variable in enumerate(facts["variables"])
    }
    tf_checkpoint.write_variables(tmp_path / "model.ckpt-best", variables)
    (tmp_path / "albert_config.json").write_text(json.dumps(facts["config"]))
    found = find(tmp_path).read()
    table = names.google(found.config)
    weights = {
        table[name][0]: array
        for name, array in variables.items()
        if not name.endswith(("adam_m", "adam_v", "global_step"))
    }
    assert {name: np.unique(array) for name, array in weights.items()} == {
        name: np.unique(array) for name, array in found.tensors.items()
    }
    assert len(weights) == facts["num_variables"] - facts["num_optimizer_slots"] - 1


def test_round_trip_is_bit_equal(model, written):
    found = find(written).read()
    assert_equal(found.tensors, model.tensors)
    assert found.config == model.config
    assert found.config.num_labels == 3
    assert found.config.answerability
    assert found.origin == f"{written / 'model.ckpt'} (Google's TensorFlow 1 checkpoint)"


def test_the_original_loads_a_written_checkpoint(model, written, google_variables):
    expected = google_variables(model.config, *HEADS)
    assert dict(tf.train.list_variables(written)) == {
        "global_step": [],
        **{name: list(array.shape) for name, array in expected.items()},
    }
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, array in expected.items():
            tf.compat.v1.get_variable(name, array.shape, use_resource=False)
        saver = tf.compat.v1.train.Saver()
        saver.restore(session, tf.train.latest_checkpoint(str(written)))
        restored = session.run({v.op.name: v for v in tf.compat.v1.global_variables()})
    assert_equal(restored, expected)
    assert sorted(path.name for path in written.iterdir()) == [
        "albert_config.json",
        "checkpoint",
        "model.ckpt.data-00000-of-00001",
        "model.ckpt.index",
    ]


def test_equal_widths_need_no_projection(small_config, google_variables, tmp_path):
    config = dataclasses.replace(small_config, embedding_size=20, id2label=None)
    variables = google_variables(config)
    found = google.as_checkpoint(config, variables, "made here")
    projection = "encoder.embedding_hidden_mapping_in"
    np.testing.assert_array_equal(found.tensors[f"{projection}.weight"], np.eye(20))
    np.testing.assert_array_equal(found.tensors[f"{projection}.bias"], np.zeros(20))
    google.write(tmp_path / "model", config, found.tensors)
    assert tf_checkpoint.read_variables(tmp_path / "model" / "model.ckpt").keys() == (
        variables.keys()
    )
    assert_equal(find(tmp_path / "model").read().tensors, found.tensors)
    found.tensors[f"{projection}.bias"][3] = 0.5
    with pytest.raises(UserError, match="no projection where embedding_size equals hidden_size"):
        google.write(tmp_path / "other", config, found.tensors)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("share", ["attention", "ffn", "none"])
def test_layers_that_share_less_become_groups(small_config, google_variables, share, tmp_path):
    config = dataclasses.replace(small_config, share=share, id2label=None)
    given = google.as_checkpoint(config, google_variables(config), "made here")
    google.write(tmp_path / "model", config, given.tensors)
    found = find(tmp_path / "model").read()
    assert found.config == dataclasses.replace(config, share="all", num_hidden_groups=3)
    assert_equal(found.tensors, given.tensors)


def test_a_scope_around_a_module(small_config, google_variables, tmp_path, written):
    config = dataclasses.replace(small_config, id2label=None)
    variables = google_variables(config)
    scoped = {f"module/{name}": array for name, array in variables.items()}
    tf_checkpoint.write_variables(tmp_path / "model.ckpt", scoped)
    shutil.copy(written / "albert_config.json", tmp_path)
    expected = google.as_checkpoint(config, variables, "")
    assert_equal(find(tmp_path / "model.ckpt").read().tensors, expected.tensors)


def test_unknown_variables_keep_their_names(model, tmp_path, written):
    variables = tf_checkpoint.read_variables(written / "model.ckpt")
    variables["bert/encoder/layer_0/output/dense/bias"] = np.ones(20, "float32")
    tf_checkpoint.write_variables(written / "model.ckpt", variables)
    found = find(written).read().tensors
    assert found.keys() - model.tensors.keys() == {"bert/encoder/layer_0/output/dense/bias"}


def test_writing_weights_unknown_to_the_original(model, tmp_path):
    with pytest.raises(UserError, match="Received: predictions.extra, which it has not"):
        google.write(
            tmp_path / "model", model.config, {**model.tensors, "predictions.extra": np.zeros(3)}
        )
    assert not (tmp_path / "model").exists()


def test_groups_that_the_original_rounds_differently(
    small_config, google_variables, tmp_path, caplog
):
    """For 22 layers in 22 groups the original's formula gives layer 15 group 14."""
    config = dataclasses.replace(small_config, id2label=None, num_hidden_layers=22)
    google.write(
        tmp_path / "m", config, google.as_checkpoint(config, google_variables(config), "").tensors
    )
    path = tmp_path / "m" / "albert_config.json"
    find(tmp_path / "m").read()
    assert "rounds layers" not in caplog.text
    path.write_text(json.dumps({**json.loads(path.read_text()), "num_hidden_groups": 22}))
    find(tmp_path / "m").read()
    assert "rounds layers into other groups" in caplog.text


@pytest.mark.parametrize("hidden_act", ["gelu_new", "relu", "tanh"])
def test_configurations_round_trip(small_config, hidden_act):
    config = dataclasses.replace(small_config, hidden_act=hidden_act, id2label=None)
    assert AlbertConfig.from_dict(to_google(config)) == config


def test_keys_are_those_of_published_files(golden, small_config):
    published = golden / "B2_google_exported_graph" / "albert_config.json"
    assert to_google(small_config).keys() == json.loads(published.read_text()).keys()


def test_the_tanh_approximation_is_googles_gelu(small_config):
    assert to_google(small_config)["hidden_act"] == "gelu"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_act": "gelu"}, "activations gelu_new, relu, tanh. Received: hidden_act='gelu'"),
        ({"hidden_act": "silu"}, "Received: hidden_act='silu'. Keep this model in another format"),
        ({"layer_norm_eps": 1e-6}, "has layer_norm_eps=1e-12. Received: 1e-06"),
        (
            {"num_hidden_layers": 22, "num_hidden_groups": 22},
            "num_hidden_layers=22 in 22 groups, where its rounding gives layer 15 another",
        ),
        ({"num_hidden_layers": 22, "share": "ffn"}, "22 in 22 groups"),
    ],
)
def test_configurations_that_the_original_lacks(small_config, change, message):
    with pytest.raises(UserError, match=message):
        to_google(dataclasses.replace(small_config, **change))


def test_rounding_agrees_with_both_formulas_run_apart(golden):
    facts = json.loads((golden / "B_original_tf1" / "group_index_rounding.json").read_text())
    for pair in facts["pairs_where_original_or_hf_deviates_from_exact"]:
        layers, groups = pair["L"], pair["G"]
        exact = [layer * groups // layers for layer in range(layers)]
        original, theirs = (
            exact if pair[who] == "exact" else pair[who] for who in ("original", "hf")
        )
        config = AlbertConfig(num_hidden_layers=layers, num_hidden_groups=groups)
        assert layers_in_other_groups(config) == [
            layer for layer in range(layers) if original[layer] != theirs[layer]
        ]
    assert layers_in_other_groups(AlbertConfig(num_hidden_layers=17, num_hidden_groups=13)) == []


@pytest.fixture
def folder(tmp_path, small_config):
    """The files of a checkpoint, empty, and a configuration."""
    for ending in ("index", "data-00000-of-00001"):
        (tmp_path / f"model.ckpt-best.{ending}").touch()
    (tmp_path / "albert_config.json").write_text(json.dumps(to_google(small_config)))
    return tmp_path


@pytest.mark.parametrize(
    "name", ["albert_config.json", "bert_config.json", "config.json", "albert_config_tiny.json"]
)
@pytest.mark.parametrize("up", [False, True])
def test_a_configuration_beside_or_one_folder_up(folder, small_config, name, up):
    inner = folder / "inner"
    inner.mkdir()
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "albert_config.json").rename((folder if up else inner) / name)
    found = google.read_config(google.find_config((inner, folder)))
    assert found.hidden_size == small_config.hidden_size
    assert found.hidden_act == "gelu_new", "Google's gelu is the tanh approximation"


def test_several_configurations(folder):
    (folder / "albert_config.json").rename(folder / "albert_config_base.json")
    (folder / "albert_config_tiny.json").write_text("{}")
    with pytest.raises(
        UserError, match=r"albert_config_base.json, .*albert_config_tiny.json. Name"
    ):
        google.read_config(google.find_config((folder,)))
    (folder / "albert_config.json").write_text((folder / "albert_config_base.json").read_text())
    assert google.read_config(google.find_config((folder,))).hidden_size == 20


def test_no_configuration(folder):
    (folder / "albert_config.json").unlink()
    (folder / "tokenizer_config.json").write_text("{}")
    with pytest.raises(UserError, match=f"albert_config.json, beside it .* Received: {folder}"):
        find(folder / "model.ckpt-best").read()


def test_berts_configuration(folder, small_config):
    values = to_google(small_config)
    del values["embedding_size"]
    (folder / "albert_config.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match="has embedding_size. Received: .* as BERT's are"):
        google.read_config(google.find_config((folder,)))


def test_no_identity_is_made_for_a_width_that_no_tensor_has():
    """A word table of one row may claim 65,536 columns; an identity of them takes 17 GB."""
    width = 65_536
    config = AlbertConfig(
        vocab_size=1,
        embedding_size=width,
        hidden_size=width,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
    variables = {"bert/embeddings/word_embeddings": np.zeros((1, width), "float32")}
    found = google.as_checkpoint(config, variables, "here").tensors
    assert found.keys() == {"embeddings.word_embeddings.weight"}


ZH_BLOCK = "bert/encoder/layer_shared/"
ZH_NAMES = {  # brightmart/albert_zh, modeling.py, by Google's names within a block
    **{f"attention_1/self/{part}": f"attention/self/{part}" for part in ("query", "key", "value")},
    "attention_1/output/dense": "attention/output/dense",
    "LayerNorm": "attention/output/LayerNorm",
    "ffn_1/intermediate/dense": "intermediate/dense",
    "ffn_1/intermediate/output/dense": "output/dense",
    "LayerNorm_1": "output/LayerNorm",
}


def test_albert_zh(google_variables, config, tmp_path):
    """Words are projected without a bias, then added to positions of the width H."""
    generator = np.random.default_rng(7)
    table, projection = (generator.standard_normal(shape) for shape in ((31, 6), (6, 20)))
    whole = dataclasses.replace(config, embedding_size=20)
    variables = google_variables(whole, "pretraining")
    theirs = {}
    for name, array in variables.items():
        part, _, kind = name.removeprefix(google._BLOCK).rpartition("/")
        theirs[f"{ZH_BLOCK}{ZH_NAMES[part]}/{kind}" if google._BLOCK in name else name] = array
    theirs["bert/embeddings/word_embeddings"] = table.astype("float32")
    theirs["bert/embeddings/word_embeddings_2"] = projection.astype("float32")
    tf_checkpoint.write_variables(tmp_path / "albert_model.ckpt", theirs)
    stated = {**to_google(config), "ln_type": "postln"}
    (tmp_path / "albert_config_tiny.json").write_text(json.dumps(stated))

    found = find(tmp_path).read()
    assert found.config == whole
    words = found.tensors.pop("embeddings.word_embeddings.weight")
    np.testing.assert_allclose(words, table @ projection, atol=1e-5)
    expected = google.as_checkpoint(whole, variables, "").tensors
    del expected["embeddings.word_embeddings.weight"]
    assert_equal(found.tensors, expected)


@pytest.mark.parametrize(
    "layout", ["brightmart_albert_tiny_zh", "brightmart_albert_tiny_zh_jadepeng_copy"]
)
def test_published_layouts_of_albert_zh(golden, layout):
    path = golden / "A_checkpoint_layouts" / "checkpoint_layouts.json"
    facts = json.loads(path.read_text())[layout]
    variables = {
        variable["name"]: np.zeros(variable["shape"], "float32") for variable in facts["variables"]
    }
    assert google.is_albert_zh(variables)
    config, renamed = google.from_albert_zh(AlbertConfig.from_dict(facts["config"]), variables)
    table = names.google(config)
    assert config.embedding_size == config.hidden_size == 312
    expected = [name for name in table if name.startswith(("bert/", "cls/pred", "cls/seq"))]
    assert sorted(renamed) == sorted(name for name in expected if "mapping_in" not in name)
    assert renamed["bert/embeddings/word_embeddings"].shape == (21128, 312)


@pytest.mark.parametrize(("rows", "width"), [(10**6, 10**6), (10**6, 20), (31, 40)])
def test_tables_whose_product_would_be_larger_than_the_model(config, rows, width):
    """Two tables of a few megabytes may have a product of terabytes."""
    tables = {
        "bert/embeddings/word_embeddings": np.zeros((rows, 1), "float32"),
        "bert/embeddings/word_embeddings_2": np.zeros((1, width), "float32"),
    }
    with pytest.raises(UserError, match=r"and weights \[H, H\] .* Received: \("):
        google.from_albert_zh(config, tables)


GARDEN_BLOCK = "bert/encoder/transformer/group_0/inner_group_0/attention_1/"


@pytest.mark.parametrize("prefix", ["", "albert_encoder/", "keras_layer/bert_model/"])
@pytest.mark.parametrize(
    ("theirs", "googles"),
    [
        ("word_embeddings/embeddings", "bert/embeddings/word_embeddings"),
        ("embeddings/layer_norm/gamma", "bert/embeddings/LayerNorm/gamma"),
        ("transformer/output/bias", f"{GARDEN_BLOCK[:-12]}ffn_1/intermediate/output/dense/bias"),
        ("transformer/output_layer_norm/beta", f"{GARDEN_BLOCK[:-12]}LayerNorm_1/beta"),
        ("transformer/self_attention_output/bias", f"{GARDEN_BLOCK}output/dense/bias"),
        ("bert/cls/predictions/output_bias/bias", "cls/predictions/output_bias"),
        ("bert/cls/predictions/transform/dense/kernel", "cls/predictions/transform/dense/kernel"),
    ],
)
def test_names_of_model_garden(prefix, theirs, googles):
    (name,) = google.from_model_garden({prefix + theirs: np.ones((3, 2))})
    assert name == googles


def test_unknown_names_of_model_garden_stay():
    given = {"transformer/layer_0/output/bias": np.ones(3), "pooler/extra": np.ones(2)}
    assert google.from_model_garden(given) == given


NOTHING = GraphHints(None, None, None)


@pytest.mark.parametrize("scope", ["", "module/"])
def test_a_module_of_tensorflow_1(tf1_module, google_variables, config, tmp_path, scope):
    variables = google_variables(config, "pretraining")
    folder = tf1_module(tmp_path / "albert_base", config, variables, scope)
    assert find(folder).format == "tf-hub"
    found = find(folder).read()
    assert found.config == config, "measured: this module has no configuration"
    assert_equal(found.tensors, google.as_checkpoint(config, variables, "").tensors)
    assert found.origin == f"{folder} (TF-Hub module)"


@pytest.mark.parametrize("hidden_act", ["relu", "tanh"])
def test_groups_and_equal_widths(tf1_module, google_variables, config, tmp_path, hidden_act):
    config = dataclasses.replace(
        config, num_hidden_groups=3, inner_group_num=2, embedding_size=20, hidden_act=hidden_act
    )
    folder = tf1_module(tmp_path / "module", config, google_variables(config))
    assert find(folder).read().config == config


def test_a_configuration_takes_precedence(tf1_module, google_variables, config, tmp_path):
    folder = tf1_module(tmp_path / "module", config, google_variables(config))
    for place, layers in ((".", 7), ("assets", 8)):
        stated = dataclasses.replace(config, num_hidden_layers=layers, hidden_dropout_prob=0.1)
        (folder / place / "albert_config.json").write_text(json.dumps(to_google(stated)))
        assert find(folder).read().config == stated


@pytest.mark.parametrize(("with_mlm", "hidden_act"), [(False, "gelu"), (True, "gelu_new")])
def test_a_saved_model_of_model_garden(
    garden_module, garden_variables, config, tmp_path, with_mlm, hidden_act
):
    config = dataclasses.replace(config, hidden_act=hidden_act)
    variables = garden_variables(config, with_mlm)
    folder = garden_module(tmp_path / "module", config, variables, hidden_act == "gelu_new")
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
            f"{google._BLOCK}attention_1/self/query/kernel": (expected.hidden_size,) * 2,
            f"{google._BLOCK}ffn_1/intermediate/dense/kernel": (
                expected.hidden_size,
                expected.intermediate_size,
            ),
        }.items()
    }
    assert google.inferred_config(variables, NOTHING, tmp_path) == expected
    other = google.inferred_config(variables, GraphHints(5, 8, "relu"), tmp_path)
    assert (other.num_hidden_layers, other.num_attention_heads, other.hidden_act) == (5, 8, "relu")


def test_another_size_that_shows_too_little(google_variables, config, tmp_path):
    variables = google_variables(config)
    for facts, message in (
        (NOTHING, "doesn't show num_hidden_layers, num_attention_heads, hidden_act. Put its"),
        (
            GraphHints(3, None, "relu"),
            "doesn't show num_attention_heads. Put its albert_config.json",
        ),
        (GraphHints(3, 7, "relu"), "must be an ALBERT's. .*hidden_size must be a multiple"),
    ):
        with pytest.raises(UserError, match=message):
            google.inferred_config(variables, facts, tmp_path)


def test_another_kind_of_model(tmp_path):
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
    with pytest.raises(UserError, match="whole checkpoint. Received variables"):
        find(folder).read()
    shutil.rmtree(folder / "variables")
    with pytest.raises(UserError, match="needs its .index file"):
        find(folder).read()


def test_an_object_checkpoint_of_model_garden(garden_variables, config, tmp_path):
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


def test_a_graph_without_attention(tmp_path):
    module = tf.Module()
    module.double = tf.function(lambda x: 2 * x, input_signature=[tf.TensorSpec([None])])
    tf.saved_model.save(module, tmp_path)
    assert read_hints(tmp_path) == GraphHints(None, None, None)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert read_hints(tmp_path) == GraphHints(None, None, None)


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
    with pytest.raises((ValueError, RecursionError), match="calls itself|recursion"):
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

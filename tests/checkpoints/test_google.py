import dataclasses
import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from albert_tf.checkpoints import google, names, tf_checkpoint
from albert_tf.checkpoints.finder import find
from albert_tf.checkpoints.google import layers_in_other_groups, to_google
from albert_tf.config import AlbertConfig, unnamed_labels
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


@pytest.mark.references(*(f"B_original_tf1/*/{head}" for head in HEADS[1:]))
def test_the_body_below_the_originals_heads(golden, reference):
    expected = converted(golden, reference.parent.name)
    tensors = find(reference).read().tensors
    body = {tensor: array for tensor, array in expected.items() if tensor in tensors}
    assert len(body) == len(expected) - 7, "all but the heads of pretraining"
    assert_equal({tensor: tensors[tensor] for tensor in body}, body)


@pytest.mark.parametrize(
    ("head", "labels", "tensors"),
    [
        ("classifier", 3, {"classifier.weight": (3, 32), "classifier.bias": (3,)}),
        ("regression", 1, {"classifier.weight": (1, 32), "classifier.bias": (1,)}),
        ("race", 1, {"classifier.weight": (1, 32), "classifier.bias": (1,)}),
        ("squad_v1", 2, {"qa_outputs.weight": (2, 32), "qa_outputs.bias": (2,)}),
        (
            "squad_v2",
            2,
            {
                "start_logits.dense.weight": (1, 32),
                "start_logits.dense.bias": (1,),
                "end_logits.dense_0.weight": (32, 64),
                "end_logits.dense_0.bias": (32,),
                "end_logits.LayerNorm.weight": (32,),
                "end_logits.LayerNorm.bias": (32,),
                "end_logits.dense_1.weight": (1, 32),
                "end_logits.dense_1.bias": (1,),
                "answer_class.dense_0.weight": (32, 64),
                "answer_class.dense_0.bias": (32,),
                "answer_class.dense_1.weight": (1, 32),
            },
        ),
    ],
)
def test_the_originals_heads(golden, head, labels, tensors):
    found = find(golden / "B_original_tf1" / "c1_base_gelu" / head).read()
    assert {
        name: array.shape
        for name, array in found.tensors.items()
        if names.part(name) in names.HEADS
    } == tensors
    assert found.config.num_labels == labels
    assert found.config.answerability == (head == "squad_v2")


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
    import tensorflow as tf

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


def test_the_prefix_of_a_task_models_tensors(small_config, google_variables, tmp_path):
    config = dataclasses.replace(small_config, id2label=unnamed_labels(3))
    tensors = google.as_checkpoint(config, google_variables(config, "classifier"), "").tensors
    stored = {names.stored_name(name): array for name, array in tensors.items()}
    assert "albert.pooler.weight" in stored
    google.write(tmp_path / "model", config, stored, prefix="model.ckpt-7")
    assert tf_checkpoint.find_prefix(tmp_path / "model" / "model.ckpt-7")
    assert_equal(find(tmp_path / "model").read().tensors, tensors)


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


def test_a_full_disk_leaves_nothing(model, tmp_path, files_of_at_most):
    with files_of_at_most(2_000), pytest.raises(OSError, match="can't be written"):
        google.write(tmp_path / "model", model.config, model.tensors)
    assert list(tmp_path.iterdir()) == []


def test_an_occupied_folder_stays(model, written):
    with pytest.raises(UserError, match="The output must not exist yet"):
        google.write(written, model.config, model.tensors)
    google.write(written, model.config, model.tensors, prefix="again", force=True)
    assert (written / "again.index").is_file()
    assert not (written / "model.ckpt.index").exists()


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

import dataclasses
import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from albert_tf.checkpoints import google, names, tf_checkpoint, weights
from albert_tf.checkpoints.finder import find
from albert_tf.checkpoints.google import layers_in_other_groups, to_google
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from tests.checkpoints.tensors import BLOCK, assert_equal, draw, garden_variables, google_variables

PROJECTION = "encoder.embedding_hidden_mapping_in"


@pytest.fixture
def config(small_config):
    return dataclasses.replace(small_config, id2label=None)


@pytest.fixture
def written(small_config, tmp_path):
    """A checkpoint with every head, its configuration and its tensors."""
    config = small_config.replace(num_hidden_groups=3, inner_group_num=2, answerability=True)
    tensors = draw(config, *names.HEADS)
    google.write(tmp_path / "model", config, tensors)
    return tmp_path / "model", config, tensors


def converted(golden, name):
    path = golden / "C_hf" / "converted_from_tf1" / name / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    return {tensor.removeprefix("albert."): array for tensor, array in tensors.items()}


@pytest.mark.references("B_original_tf1/*/pretrain")
def test_the_originals_checkpoints_equal_transformers_conversion(golden, reference):
    folder = reference.parent
    found = find(reference).read()
    assert found.config == AlbertConfig.from_json_file(folder / "albert_config.json")
    assert_equal(found.tensors, converted(golden, folder.name))


def test_a_training_checkpoint_without_its_slots(golden, tmp_path):
    folder = golden / "D_optimizers" / "lamb_lookup_c1"
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    shutil.copy(golden / "B_original_tf1" / "c1_base_gelu" / "albert_config.json", tmp_path)
    found = find(tmp_path).read()
    assert found.tensors.keys() == converted(golden, "c1_base_gelu").keys()
    stored = tf.train.load_checkpoint(folder)
    for variable, (name, transposed) in names.google(found.config).items():
        if name in found.tensors:
            after = stored.get_tensor(variable)
            np.testing.assert_array_equal(found.tensors[name], after.T if transposed else after)


FINETUNED = "albert_tiny_zh_google_lcqmc_finetuned"
LAYOUTS = ["google_albert_base_zh", "albert_tiny_zh_google", "brightmart_albert_tiny_zh"]


@pytest.mark.parametrize("layout", [*LAYOUTS, FINETUNED])
def test_published_layouts(golden, layout, tmp_path):
    """Names, shapes, and configuration are those of published checkpoints; all values are zero."""
    path = golden / "A_checkpoint_layouts" / "checkpoint_layouts.json"
    facts = json.loads(path.read_text())[layout]
    variables = {
        variable["name"]: np.zeros(variable["shape"], variable["dtype"])
        for variable in facts["variables"]
    }
    tf_checkpoint.write_variables(tmp_path / "model.ckpt-best", variables)
    (tmp_path / "albert_config.json").write_text(json.dumps(facts["config"]))
    found = find(tmp_path).read()
    heads = set() if layout == FINETUNED else {"predictions", "sop_classifier"}
    assert {names.part(name) for name in found.tensors} == {None, "pooler", *heads}
    assert not [*weights.misfits(found.config, names.shapes(found.config), found.tensors)]


def test_round_trip_is_bit_equal(written):
    folder, config, tensors = written
    found = find(folder).read()
    assert_equal(found.tensors, tensors)
    assert found.config == config
    assert (config.num_labels, config.answerability) == (3, True)
    assert found.origin == f"{folder / 'model.ckpt'} (TensorFlow checkpoint)"


def test_the_original_loads_a_written_checkpoint(small_config, tmp_path):
    config, folder = small_config.replace(num_hidden_groups=2), tmp_path / "model"
    google.write(folder, config, draw(config, *names.HEADS))
    expected = google_variables(config, *names.HEADS)
    expected["global_step"] = np.zeros((), "int64")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = {
            name: tf.compat.v1.get_variable(name, array.shape, array.dtype, use_resource=False)
            for name, array in expected.items()
        }
        saver = tf.compat.v1.train.Saver()
        saver.restore(session, tf.train.latest_checkpoint(str(folder)))
        assert_equal(session.run(variables), expected)
    assert sorted(path.name for path in folder.iterdir()) == [
        "albert_config.json",
        "checkpoint",
        "model.ckpt.data-00000-of-00001",
        "model.ckpt.index",
    ]


def test_variables_of_another_program(config, tmp_path):
    google.write(tmp_path, config, draw(config))
    tf.train.Checkpoint(tf.Variable([0.0], name="dense/kernel")).write(tmp_path / "model.ckpt")
    with pytest.raises(UserError, match="no variables .* Received: dense/kernel, …. Load it"):
        find(tmp_path).read()


def test_equal_widths_need_no_projection(config, tmp_path):
    config = dataclasses.replace(config, embedding_size=20)
    variables = google_variables(config)
    tensors = google.as_checkpoint(config, variables, "made here").tensors
    np.testing.assert_array_equal(tensors[f"{PROJECTION}.weight"], np.eye(20))
    np.testing.assert_array_equal(tensors[f"{PROJECTION}.bias"], np.zeros(20))
    google.write(tmp_path / "model", config, tensors)
    assert_equal(tf_checkpoint.read_variables(tmp_path / "model" / "model.ckpt"), variables)
    tensors[f"{PROJECTION}.bias"][3] = 0.5
    with pytest.raises(UserError, match=r"embedding_size equals hidden_size \(20\)"):
        google.write(tmp_path / "other", config, tensors)
    assert not (tmp_path / "other").exists()


def test_no_identity_is_made_for_a_width_that_no_matrix_has(config):
    """A word embedding matrix of one row may claim E=65,536, whose identity would take 17 GB."""
    config = dataclasses.replace(config, embedding_size=20)
    variables = {"bert/embeddings/word_embeddings": np.zeros((1, 20), "float32")}
    found = google.as_checkpoint(config, variables, "here").tensors
    assert found.keys() == {"embeddings.word_embeddings.weight"}


@pytest.mark.parametrize("share", ["attention", "ffn", "none"])
def test_layers_that_share_less_become_groups(config, share, tmp_path):
    config = dataclasses.replace(config, share=share)
    tensors = draw(config)
    google.write(tmp_path / "model", config, tensors)
    found = find(tmp_path / "model").read()
    assert found.config == dataclasses.replace(config, share="all", num_hidden_groups=3)
    assert_equal(found.tensors, tensors)


def test_weights_unknown_to_the_original(written, tmp_path):
    _, config, tensors = written
    name = "bert/encoder/layer_0/output/dense/bias"
    variables = google_variables(config) | {name: np.ones(20, "float32")}
    assert name in google.as_checkpoint(config, variables, "here").tensors
    with pytest.raises(UserError, match="no variable for predictions.extra"):
        google.write(tmp_path / "new", config, {**tensors, "predictions.extra": np.zeros(3)})
    assert not (tmp_path / "new").exists()


def test_groups_that_the_original_rounds_differently(config, tmp_path, caplog):
    """With 22 layers in 22 groups, the original's formula assigns layer 15 to group 14."""
    config = dataclasses.replace(config, num_hidden_layers=22)
    google.write(tmp_path, config, draw(config))
    find(tmp_path).read()
    assert "different groups" not in caplog.text
    values = {**to_google(config), "num_hidden_groups": 22}
    (tmp_path / "albert_config.json").write_text(json.dumps(values))
    find(tmp_path).read()
    assert f"{tmp_path / 'model.ckpt'}: " in caplog.text and "different groups" in caplog.text


def test_configurations_are_as_published_and_round_trip(golden, config):
    published = golden / "B2_google_exported_graph" / "albert_config.json"
    for ours, theirs in {"gelu_new": "gelu", "relu": "relu", "tanh": "tanh"}.items():
        config = dataclasses.replace(config, hidden_act=ours)
        values = to_google(config)
        assert values.keys() == json.loads(published.read_text()).keys()
        assert values["hidden_act"] == theirs
        assert AlbertConfig.from_dict(values) == config


def test_configurations_that_the_original_lacks(small_config):
    many = {"num_hidden_layers": 22}
    for change, message in (
        ({"hidden_act": "gelu"}, "gelu_new, relu, tanh. Received: hidden_act='gelu'"),
        ({"layer_norm_eps": 1e-6}, "layer_norm_eps=1e-12. Received: 1e-06"),
        ({**many, "num_hidden_groups": 22}, "=22 in 22 groups, .* layer 15 to a different group"),
        ({**many, "share": "ffn"}, "22 in 22 groups"),
    ):
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


@pytest.mark.parametrize("folder", ["run", "."])
def test_a_configuration_beside_or_one_folder_up(tmp_path, folder):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "tokenizer_config.json").touch()
    names = ["albert_config.json", "albert_config_tiny.json"]
    for name in names if folder == "." else [*names, "bert_config.json", "config.json"]:
        path = tmp_path / folder / name
        path.touch()
        assert google.find_config((tmp_path / "run", tmp_path)) == path
        path.unlink()


def test_several_configurations(tmp_path):
    for size in ("base", "tiny"):
        (tmp_path / f"albert_config_{size}.json").touch()
    with pytest.raises(UserError, match="config_base.json, .*config_tiny.json. Rename"):
        google.find_config((tmp_path,))
    (tmp_path / "albert_config.json").touch()
    assert google.find_config((tmp_path,)) == tmp_path / "albert_config.json"


def test_berts_configuration_and_none(written):
    folder, config, _ = written
    values = to_google(config)
    del values["embedding_size"]
    (folder / "albert_config.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match=f"{folder}.* has no embedding_size"):
        find(folder).read()
    (folder / "albert_config.json").unlink()
    with pytest.raises(UserError, match=f"{folder} contains no configuration.* albert_config.json"):
        find(folder).read()


ZH_NAMES = {  # brightmart/albert_zh, modeling.py, by Google's names within a block
    **{f"attention_1/self/{part}": f"attention/self/{part}" for part in ("query", "key", "value")},
    "attention_1/output/dense": "attention/output/dense",
    "LayerNorm": "attention/output/LayerNorm",
    "ffn_1/intermediate/dense": "intermediate/dense",
    "ffn_1/intermediate/output/dense": "output/dense",
    "LayerNorm_1": "output/LayerNorm",
}


def test_albert_zh(config):
    """Words are projected without a bias, then added to positions of the width H."""
    generator = np.random.default_rng(7)
    table, projection = (generator.standard_normal(shape) for shape in ((31, 6), (6, 20)))
    whole = dataclasses.replace(config, embedding_size=20)
    variables = google_variables(whole, "predictions", "sop_classifier")
    theirs = {}
    for name, array in variables.items():
        part, _, kind = name.removeprefix(BLOCK).rpartition("/")
        shared = f"bert/encoder/layer_shared/{ZH_NAMES.get(part)}/{kind}"
        theirs[shared if name.startswith(BLOCK) else name] = array
    theirs["bert/embeddings/word_embeddings"] = table
    theirs["bert/embeddings/word_embeddings_2"] = projection

    found, renamed = google.from_albert_zh(config, theirs)
    assert found == whole
    assert_equal(renamed, {**variables, "bert/embeddings/word_embeddings": table @ projection})


@pytest.mark.parametrize(("rows", "width"), [(10**6, 10**6), (10**6, 20)])
def test_tables_whose_product_would_be_larger_than_the_model(config, rows, width):
    """Two matrices of a few megabytes may have a product of terabytes."""
    words = "bert/embeddings/word_embeddings"
    shapes = {words: (rows, 1), f"{words}_2": (1, width)}
    tables = {name: np.zeros(shape, "float32") for name, shape in shapes.items()}
    with pytest.raises(UserError, match=rf"\({rows}, 1\), \(1, {width}\), and hidden_size="):
        google.from_albert_zh(config, tables)


def test_names_of_model_garden():
    ffn = f"{BLOCK}ffn_1/intermediate/output/dense/bias"
    for theirs, googles in {
        "albert_encoder/word_embeddings/embeddings": "bert/embeddings/word_embeddings",
        "keras_layer/bert_model/transformer/output/bias": ffn,
        "transformer/self_attention_output/bias": f"{BLOCK}attention_1/output/dense/bias",
        "transformer/layer_0/output/bias": "transformer/layer_0/output/bias",  # unknown
    }.items():
        assert google.from_model_garden({theirs: np.ones((3, 2))}).keys() == {googles}


def test_an_object_checkpoint_of_model_garden(config, tmp_path):
    variables = google_variables(config)
    module = tf.Module()
    module.kept = [
        tf.Variable(array, name=name) for name, array in garden_variables(config, variables).items()
    ]
    tf.train.Checkpoint(model=module).write(tmp_path / "bert_model.ckpt")
    (tmp_path / "albert_config.json").write_text(json.dumps(to_google(config)))
    expected = google.as_checkpoint(config, variables, "").tensors
    assert_equal(find(tmp_path).read().tensors, expected)

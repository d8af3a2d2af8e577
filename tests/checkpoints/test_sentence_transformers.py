"""Folders of sentence-transformers; `tests/pipelines/test_sentence_transformers.py` has its own."""

import json
import shutil
from typing import get_args

import numpy as np
import pytest

from albert_tf.checkpoints import sentence_transformers
from albert_tf.checkpoints.conversion import convert
from albert_tf.checkpoints.finder import find
from albert_tf.checkpoints.options import Pooling
from albert_tf.checkpoints.sentence_transformers import (
    FILE_NAMES,
    NORMALIZE,
    POOLER,
    POOLINGS,
    Dense,
    SentenceEmbedding,
    chosen,
)
from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification, AlbertModel

# B, T, H = 2, 5, 3; the second text has 3 tokens.
STATES = np.arange(30, dtype="float32").reshape(2, 5, 3) % 7 - 2
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], "float32")
TANH = "torch.nn.modules.activation.Tanh"


@pytest.fixture
def dense():
    generator = np.random.default_rng(5)
    weight = generator.normal(size=(4, 3)).astype("float32")
    return Dense(weight, generator.normal(size=4).astype("float32"), TANH)


@pytest.fixture
def model(small_config, tmp_path):
    """The directory of an encoder without modules."""
    AlbertModel(small_config).save_pretrained(tmp_path / "plain")
    return tmp_path / "plain"


@pytest.fixture
def folder(model, small_config):
    """A directory whose vectors are the mean, of length 1."""
    embedding = SentenceEmbedding(("mean",), (NORMALIZE,), max_length=12)
    sentence_transformers.write(model, embedding, small_config.hidden_size)
    return model


def edit(path, **changes):
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, **changes}))


def expected(name, states):
    """The pooling of one text's states `[T, H]`, as its definition says."""
    weights = np.arange(1, len(states) + 1)[:, None]
    return {
        "cls": states[0],
        "max": states.max(axis=0),
        "mean": states.mean(axis=0),
        "mean_sqrt_len_tokens": states.sum(axis=0) / np.sqrt(len(states)),
        "weightedmean": (states * weights).sum(axis=0) / weights.sum(),
        "lasttoken": states[-1],
    }[name]


@pytest.mark.parametrize("name", POOLINGS)
@pytest.mark.parametrize("backend", ["numpy", "keras"])
def test_poolings(name, backend):
    ops = np
    if backend == "keras":
        from keras import ops
    found = np.asarray(SentenceEmbedding((name,))(STATES, MASK, ops))
    rows = [expected(name, STATES[0]), expected(name, STATES[1, :3])]
    np.testing.assert_allclose(found, rows, atol=1e-6)


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("linear.Identity", lambda x: x),
        ("activation.Tanh", np.tanh),
        ("activation.ReLU", lambda x: np.where(x > 0, x, 0)),
        ("activation.Sigmoid", lambda x: np.exp(x) / (1 + np.exp(x))),
    ],
)
def test_dense_then_normalize_then_truncation(dense, activation, function):
    layer = dense._replace(activation=f"torch.nn.modules.{activation}")
    found = SentenceEmbedding(("mean",), (layer, NORMALIZE), size=2)(STATES, MASK)
    values = function(STATES[0].mean(axis=0) @ layer.weight.T + layer.bias)
    np.testing.assert_allclose(found[0], (values / np.linalg.norm(values))[:2], atol=1e-6)


@pytest.mark.parametrize("name", POOLINGS)
def test_a_row_of_padding_alone_is_finite(name):
    assert np.isfinite(SentenceEmbedding((name,), (NORMALIZE,))(STATES, 0 * MASK)).all()


def test_a_vector_of_zeros_stays():
    found = SentenceEmbedding(("mean",), (NORMALIZE,))(0 * STATES, MASK)
    np.testing.assert_array_equal(found, np.zeros((2, 3)))


def test_options_name_every_pooling():
    assert set(get_args(Pooling)) == {*POOLINGS, POOLER}


def test_what_is_written_is_read(model, dense):
    whole = SentenceEmbedding(
        ("cls", "weightedmean"),
        (dense._replace(weight=np.ones((4, 40), "float32")), NORMALIZE),
        *(9, True, "Query: ", 3),
    )
    sentence_transformers.write(model, whole, 20)
    found = sentence_transformers.read(model)
    assert str(found) == str(whole)
    names = {path.relative_to(model).as_posix() for path in model.rglob("*") if path.is_file()}
    assert whole.files(20).keys() < names
    assert all(FILE_NAMES.fullmatch(name) for name in whole.files(20))
    without_bias = dense._replace(bias=None, activation="torch.nn.modules.linear.Identity")
    sentence_transformers.write(model, SentenceEmbedding(("mean",), (without_bias,)), 20)
    assert sentence_transformers.read(model).layers[0].bias is None


def test_a_folder_without_modules(model):
    assert sentence_transformers.read(model) is None
    assert AlbertModel.from_pretrained(model).sentence_embedding() is None


def test_weights_in_a_folder_of_their_own(folder, tmp_path):
    """Version 0 had them there, and a `config.json` of another kind beside."""
    nested = tmp_path / "nested"
    shutil.copytree(folder, nested / "0_Transformer")
    for name in ("1_Pooling", "2_Normalize", "modules.json", "config_sentence_transformers.json"):
        source = nested / "0_Transformer" / name
        if source.exists():
            shutil.move(source, nested / name)
    (nested / "config.json").write_text('{"__version__": "0.3.0"}')
    modules = json.loads((nested / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (nested / "modules.json").write_text(json.dumps(modules))
    assert find(nested).folder == nested / "0_Transformer"
    loaded = AlbertModel.from_pretrained(nested)
    assert loaded.sentence_embedding() == SentenceEmbedding(("mean",), (NORMALIZE,), max_length=12)


def test_models_keep_modules(folder, small_config, tmp_path):
    model = AlbertModel.from_pretrained(folder)
    model.with_depth(1).save_pretrained(tmp_path / "copy")
    assert sentence_transformers.read(tmp_path / "copy") == model.sentence_embedding()
    classifier = AlbertForSequenceClassification.from_pretrained(folder, num_labels=2)
    assert classifier.sentence_embedding() is None
    classifier.save_pretrained(tmp_path / "classifier")
    assert not (tmp_path / "classifier" / "modules.json").exists()


def test_convert(folder, tmp_path):
    report = convert(str(folder), tmp_path / "hf", format="hf")
    assert report["left_out"] == []
    assert sentence_transformers.read(tmp_path / "hf") == sentence_transformers.read(folder)
    report = convert(str(folder), tmp_path / "tf1", format="tf1")
    assert "modules.json" in report["left_out"]


@pytest.mark.parametrize(
    ("settings", "poolings"),
    [
        ({"pooling_mode": "max"}, ("max",)),
        ({"pooling_mode": ["mean", "cls"]}, ("mean", "cls")),
        ({}, ("mean",)),
        (
            {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
            ("cls", "mean"),
        ),
    ],
)
def test_settings_of_pooling_in_every_version(folder, settings, poolings):
    path = folder / "1_Pooling" / "config.json"
    path.write_text(json.dumps({"embedding_dimension": 20, **settings}))
    assert sentence_transformers.read(folder).poolings == poolings


def test_the_default_prompt(folder):
    edit(
        folder / "config_sentence_transformers.json",
        prompts={"query": "Q: ", "document": "D: "},
        default_prompt_name="query",
    )
    edit(folder / "sentence_bert_config.json", do_lower_case=True)
    assert sentence_transformers.read(folder).prepared("A Text") == "q: a text"


POOLING, PROMPTS = "1_Pooling/config.json", "config_sentence_transformers.json"


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        (POOLING, {"pooling_mode": "median"}, r"poolings of cls, .* Received: \['median'\]"),
        (POOLING, {"pooling_mode_median_tokens": True}, "Received: \\['pooling_mode_median_tok"),
        (POOLING, dict.fromkeys(("pooling_mode_mean_tokens",), False), "Received: \\[\\]"),
        (PROMPTS, {"model_type": "SparseEncoder"}, "model_type SentenceTransformer. Received: 'Sp"),
        (PROMPTS, {"truncate_dim": 0}, "as truncate_dim. Received: 0"),
        ("sentence_bert_config.json", {"max_seq_length": "x"}, "as max_seq_length. Received: 'x'"),
        (
            "sentence_bert_config.json",
            {"transformer_task": "fill-mask"},
            "transformer_task feature-extraction. Received: 'fill-mask'",
        ),
        (
            "sentence_bert_config.json",
            {"modality_config": {"text": {"method_output_name": "pooler_output"}}},
            "last_hidden_state as the output for text. Received: 'pooler_output'",
        ),
    ],
)
def test_what_is_refused(folder, file, changes, message):
    edit(folder / file, **changes)
    with pytest.raises(UserError, match=message):
        sentence_transformers.read(folder)


def test_a_prompt_that_is_not_pooled(folder):
    edit(folder / POOLING, include_prompt=False)
    assert sentence_transformers.read(folder).poolings == ("mean",)  # There is no prompt.
    edit(folder / PROMPTS, prompts={"query": "Q: "}, default_prompt_name="query")
    with pytest.raises(UserError, match="Received: include_prompt false"):
        sentence_transformers.read(folder)


@pytest.mark.parametrize(
    ("kind", "path", "message"),
    [
        ("sentence_transformers.models.WordWeights", "2_WordWeights", "Received: WordWeights"),
        ("custom.Normalize", "2_Normalize", "after Pooling. Received: custom.Normalize"),
        ("sentence_transformers.models.Dense", "../other", "beside it. Received: '../other'"),
        ("sentence_transformers.models.Dense", "a/b", "beside it. Received: 'a/b'"),
    ],
)
def test_modules_that_are_refused(folder, kind, path, message):
    modules = json.loads((folder / "modules.json").read_text())
    modules[2] |= {"type": kind, "path": path}
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UserError, match=message):
        sentence_transformers.read(folder)
    model = AlbertModel.from_pretrained(folder)  # Its weights are read nevertheless.
    with pytest.warns(UserWarning, match="has no modules of sentence-transformers"):
        model.save_pretrained(folder.parent / "saved")


@pytest.mark.parametrize("content", ["[", "{}", "[]", '[{"type": 1}]'])
def test_damaged_modules(folder, content):
    (folder / "modules.json").write_text(content)
    with pytest.raises(UserError, match=r"modules.json must have .* Received: "):
        sentence_transformers.read(folder)


def test_modules_in_another_order(folder):
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps([modules[0], modules[2], modules[1]]))
    with pytest.raises(UserError, match="Received: Transformer, Normalize, Pooling"):
        sentence_transformers.read(folder)


def test_dense_layers_that_are_refused(model, dense, small_config):
    layer = dense._replace(weight=np.ones((4, small_config.hidden_size), "float32"))
    embedding = SentenceEmbedding(("mean",), (layer,))
    path = model / "2_Dense" / "config.json"
    for changes, message in [
        ({"activation_function": "torch.nn.modules.activation.GELU"}, "Received: torch.*GELU"),
        ({"module_input_name": "token_embeddings"}, "Received: 'token_embeddings'"),
        ({"use_residual": True}, "Received: use_residual true"),
        ({"out_features": 5}, r"shapes .*\(5, "),
        ({"bias": False}, "Received: .*linear.bias"),
    ]:
        sentence_transformers.write(model, embedding, small_config.hidden_size)
        edit(path, **changes)
        with pytest.raises(UserError, match=message):
            sentence_transformers.read(model)
    sentence_transformers.write(model, embedding, small_config.hidden_size)
    (model / "2_Dense" / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"or pytorch_model.bin. Received: neither"):
        sentence_transformers.read(model)


def test_chosen():
    own = SentenceEmbedding(("cls",), (NORMALIZE,), max_length=3)
    assert chosen(lambda: own, "folder", None) == own
    assert chosen(lambda: own, "folder", False).layers == ()
    assert chosen(lambda: own, "max", None) == SentenceEmbedding(("max",))
    assert chosen(lambda: own, "max", True).layers == (NORMALIZE,)
    assert chosen(lambda: own, None, None) is None
    assert chosen(lambda: None, "folder", False) is None
    with pytest.raises(UserError, match="normalize needs a pooling. Received: none"):
        chosen(lambda: None, "folder", True)


def test_the_pooler_is_not_theirs():
    with pytest.raises(UserError, match="Received: pooler"):
        SentenceEmbedding((POOLER,)).files(3)

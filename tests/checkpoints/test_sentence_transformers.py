"""Folders of sentence-transformers; `tests/pipelines/test_sentence_transformers.py` has its own."""

import json
import shutil

import numpy as np
import pytest

from albert_tf.checkpoints import sentence_transformers
from albert_tf.checkpoints.conversion import convert
from albert_tf.checkpoints.finder import find
from albert_tf.checkpoints.sentence_transformers import (
    FILE_NAMES,
    POOLINGS,
    SentenceEmbedding,
    chosen,
)
from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification, AlbertModel

# B, T, H = 2, 5, 3; the second text has 3 tokens.
STATES = np.arange(30, dtype="float32").reshape(2, 5, 3) % 7 - 2
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], "float32")


@pytest.fixture(scope="module")
def saved(small_config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    AlbertModel(small_config).save_pretrained(folder)
    return folder


@pytest.fixture
def model(saved, tmp_path):
    """The directory of an encoder without modules."""
    return shutil.copytree(saved, tmp_path / "plain")


@pytest.fixture
def folder(model, small_config):
    """A directory whose vectors are the mean, of length 1."""
    embedding = SentenceEmbedding("mean", normalize=True, max_length=12)
    sentence_transformers.write(model, embedding, small_config.hidden_size)
    return model


def edit(path, **changes):
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, **changes}))


def expected(name, states):
    """The pooling of one text's states `[T, H]`, as its definition says."""
    return {"cls": states[0], "max": states.max(axis=0), "mean": states.mean(axis=0)}[name]


@pytest.mark.parametrize("name", POOLINGS)
@pytest.mark.parametrize("backend", ["numpy", "keras"])
def test_poolings(name, backend):
    ops = np
    if backend == "keras":
        from keras import ops
    found = np.asarray(SentenceEmbedding(name)(STATES, MASK, ops))
    rows = [expected(name, STATES[0]), expected(name, STATES[1, :3])]
    np.testing.assert_allclose(found, rows, atol=1e-6)


@pytest.mark.parametrize("name", POOLINGS)
def test_a_row_of_padding_alone_is_finite(name):
    assert np.isfinite(SentenceEmbedding(name, normalize=True)(STATES, 0 * MASK)).all()


def test_a_vector_of_zeros_stays():
    found = SentenceEmbedding("mean", normalize=True)(0 * STATES, MASK)
    np.testing.assert_array_equal(found, np.zeros((2, 3)))


@pytest.mark.parametrize("name", POOLINGS)
@pytest.mark.parametrize("normalize", [False, True])
def test_what_is_written_is_read(model, name, normalize):
    whole = SentenceEmbedding(name, normalize, max_length=9)
    sentence_transformers.write(model, whole, 20)
    assert sentence_transformers.read(model) == whole
    names = {path.relative_to(model).as_posix() for path in model.rglob("*") if path.is_file()}
    assert whole.files(20).keys() < names
    assert all(FILE_NAMES.fullmatch(name) for name in whole.files(20))


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
    assert loaded.sentence_embedding() == SentenceEmbedding("mean", normalize=True, max_length=12)


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
    ("settings", "pooling"),
    [
        ({"pooling_mode": "max"}, "max"),
        ({"pooling_mode": ["cls"]}, "cls"),
        ({}, "mean"),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, "cls"),
    ],
)
def test_settings_of_pooling_in_every_version(folder, settings, pooling):
    path = folder / "1_Pooling" / "config.json"
    path.write_text(json.dumps({"embedding_dimension": 20, **settings}))
    assert sentence_transformers.read(folder).pooling == pooling


POOLING, PROMPTS = "1_Pooling/config.json", "config_sentence_transformers.json"


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        (POOLING, {"pooling_mode": "lasttoken"}, r"pooling of mean, .* Received: \['lasttoken'\]"),
        (POOLING, {"pooling_mode": ["mean", "max"]}, r"Received: \['mean', 'max'\]"),
        (POOLING, {"pooling_mode": [{}]}, r"Received: \[{}\]"),
        (POOLING, {"pooling_mode_cls_token": True}, r"Received: \['cls', 'mean'\]"),
        (POOLING, {"pooling_mode_weightedmean_tokens": True}, "'pooling_mode_weightedmean_tok"),
        (POOLING, dict.fromkeys(("pooling_mode_mean_tokens",), False), "Received: \\[\\]"),
        (PROMPTS, {"model_type": "SparseEncoder"}, "model_type SentenceTransformer. Received: 'Sp"),
        (PROMPTS, {"truncate_dim": 128}, "no truncate_dim. Received: 128"),
        (PROMPTS, {"prompts": {"query": "Q: "}}, "no prompts. Received: {'query': 'Q: '}"),
        (PROMPTS, {"prompts": ["Q: "]}, r"no prompts. Received: \['Q: '\]"),
        (PROMPTS, {"default_prompt_name": "query"}, "Received: {}, default_prompt_name 'query'"),
        (
            "sentence_bert_config.json",
            {"do_lower_case": True},
            "do_lower_case false. Received: true",
        ),
        ("sentence_bert_config.json", {"max_seq_length": "x"}, "as max_seq_length. Received: 'x'"),
        (
            "sentence_bert_config.json",
            {"transformer_task": "fill-mask"},
            "transformer_task feature-extraction. Received: 'fill-mask'",
        ),
        ("sentence_bert_config.json", {"modality_config": 5}, "output for text. Received: 5"),
        (
            "sentence_bert_config.json",
            {"modality_config": {"text": {"method_output_name": "pooler_output"}}},
            "last_hidden_state as the output for text. Received: 'pooler_output'",
        ),
    ],
)
def test_settings_that_are_refused(folder, file, changes, message):
    edit(folder / file, **changes)
    with pytest.raises(UserError, match=message):
        sentence_transformers.read(folder)


def test_prompts_that_are_empty(folder):
    """sentence-transformers 5 names two that are."""
    edit(folder / PROMPTS, prompts={"query": "", "document": ""}, default_prompt_name="query")
    assert sentence_transformers.read(folder).pooling == "mean"


@pytest.mark.parametrize(
    ("kind", "path", "message"),
    [
        ("sentence_transformers.models.Dense", "2_Dense", "Received: Transformer, Pooling, Dense"),
        ("sentence_transformers.models.WordWeights", "2_WordWeights", "Pooling, WordWeights"),
        ("custom.Normalize", "2_Normalize", "Pooling, custom.Normalize"),
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


def test_chosen():
    own = SentenceEmbedding("cls", normalize=True, max_length=3)
    assert chosen(lambda: own, "folder", None) == own
    assert chosen(lambda: own, "folder", False) == SentenceEmbedding("cls", max_length=3)
    assert chosen(lambda: own, "max", None) == SentenceEmbedding("max")
    assert chosen(lambda: own, "max", True).normalize
    assert chosen(lambda: own, None, None) is None
    assert chosen(lambda: None, "folder", False) is None
    with pytest.raises(UserError, match="normalize needs a pooling. Received: none"):
        chosen(lambda: None, "folder", True)

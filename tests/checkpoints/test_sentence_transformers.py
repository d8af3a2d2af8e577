"""Sentence-transformers folders; tests/pipelines compares with the library itself."""

import json
import shutil
from functools import partial

import keras
import numpy as np
import pytest

from albert_tf.checkpoints import hugging_face, sentence_transformers
from albert_tf.checkpoints.conversion import convert
from albert_tf.checkpoints.finder import find
from albert_tf.checkpoints.sentence_transformers import (
    FILE_NAMES,
    POOLINGS,
    SentenceEmbedding,
    chosen,
)
from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification, AlbertForSimilarity, AlbertModel
from tests.checkpoints.tensors import draw

# B, T, H = 2, 5, 3; the second text has 3 tokens.
STATES = np.arange(30, dtype="float32").reshape(2, 5, 3) % 7 - 2
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], "float32")


@pytest.fixture(scope="module")
def small_config(small_config):
    return small_config.replace(num_hidden_layers=2)


@pytest.fixture
def plain(small_config, tmp_path):
    """Returns the directory of an encoder without modules."""
    hugging_face.write(tmp_path / "model", small_config, draw(small_config))
    return tmp_path / "model"


@pytest.fixture
def folder(plain):
    """Returns a directory with mean pooling and vectors of length 1."""
    embedding = SentenceEmbedding("mean", normalize=True, max_length=12)
    sentence_transformers.write(plain, embedding, 20)
    return plain


@pytest.mark.parametrize("ops", [np, keras.ops], ids=["numpy", "keras"])
@pytest.mark.parametrize("name", POOLINGS)
def test_poolings(name, ops):
    def expected(states):
        """Pools one text's states `[T, H]`, by definition."""
        return {"cls": states[0], "max": states.max(axis=0), "mean": states.mean(axis=0)}[name]

    found = np.asarray(SentenceEmbedding(name)(STATES, MASK, ops))
    np.testing.assert_allclose(found, [expected(STATES[0]), expected(STATES[1, :3])], atol=1e-6)


@pytest.mark.parametrize("name", POOLINGS)
def test_padding_alone_and_zeros_are_finite(name):
    embedding = SentenceEmbedding(name, normalize=True)
    assert np.isfinite(embedding(STATES, 0 * MASK)).all()
    np.testing.assert_array_equal(embedding(0 * STATES, MASK), np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("name", "normalize", "similarity"),
    [("mean", False, "dot"), ("max", True, "cosine"), ("cls", True, "cosine")],
)
def test_what_is_written_is_read(plain, name, normalize, similarity):
    whole = SentenceEmbedding(name, normalize, max_length=9, similarity=similarity)
    sentence_transformers.write(plain, whole, 20)
    assert sentence_transformers.read(plain) == whole
    for file in whole.files(20):
        assert (plain / file).is_file() and FILE_NAMES.fullmatch(file)


def test_a_folder_without_modules(plain):
    assert sentence_transformers.read(plain) is None
    assert AlbertModel.from_pretrained(plain).sentence_embedding() is None


def test_weights_in_a_folder_of_their_own(folder, tmp_path):
    """Version 0 stored them there, next to a different kind of `config.json`."""
    nested = tmp_path / "nested"
    shutil.copytree(folder, nested / "0_Transformer")
    for name in ("1_Pooling", "modules.json", "config_sentence_transformers.json"):
        shutil.move(nested / "0_Transformer" / name, nested / name)
    (nested / "config.json").write_text('{"__version__": "0.3.0"}')
    modules = json.loads((nested / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (nested / "modules.json").write_text(json.dumps(modules))
    assert find(nested).folder == nested / "0_Transformer"
    loaded = AlbertModel.from_pretrained(nested)
    assert loaded.sentence_embedding() == SentenceEmbedding("mean", normalize=True, max_length=12)


def test_encoders_keep_modules_and_other_models_do_not(folder, tmp_path):
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


POOLING, PROMPTS = "1_Pooling/config.json", "config_sentence_transformers.json"
SETTINGS = "sentence_bert_config.json"


def test_settings_of_pooling_in_every_version(folder):
    for pooling, settings in (
        ("max", {"pooling_mode": "max"}),
        ("cls", {"pooling_mode": ["cls"]}),
        ("mean", {}),
        ("cls", {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}),
    ):
        (folder / POOLING).write_text(json.dumps({"embedding_dimension": 20, **settings}))
        assert sentence_transformers.read(folder).pooling == pooling


def edit(path, **changes):
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, **changes}))


MODALITIES = {"text": {"method_output_name": "pooler_output"}}
REFUSED = [
    (POOLING, {"pooling_mode": "lasttoken"}, r"Received: \['lasttoken'\]"),
    (POOLING, {"pooling_mode": ["mean", "max"]}, r"Received: \['mean', 'max'\]"),
    (POOLING, {"pooling_mode": [{}]}, r"Received: \[{}\]"),
    (POOLING, {"pooling_mode_cls_token": True}, r"Received: \['cls', 'mean'\]"),
    (POOLING, {"pooling_mode_weightedmean_tokens": True}, "'pooling_mode_weightedmean_tok"),
    (POOLING, {"pooling_mode_mean_tokens": False}, r"Received: \[\]"),
    (PROMPTS, {"model_type": "SparseEncoder"}, "model_type .* Received: 'SparseEncoder'"),
    (PROMPTS, {"similarity_fn_name": "maxsim"}, "similarity_fn_name .* Received: 'maxsim'"),
    (PROMPTS, {"similarity_fn_name": ["dot"]}, r"similarity_fn_name .* Received: \['dot'\]"),
    (PROMPTS, {"truncate_dim": 128}, "no truncate_dim. Received: 128"),
    (PROMPTS, {"prompts": {"query": "Q: "}}, "no prompts. Received: {'query': 'Q: '}"),
    (PROMPTS, {"prompts": ["Q: "]}, r"no prompts. Received: \['Q: '\]"),
    (PROMPTS, {"default_prompt_name": "query"}, "Received: {}, default_prompt_name 'query'"),
    (SETTINGS, {"do_lower_case": True}, "do_lower_case false. Received: true"),
    (SETTINGS, {"max_seq_length": "x"}, "as max_seq_length. Received: 'x'"),
    (SETTINGS, {"transformer_task": "fill-mask"}, "feature-extraction. Received: 'fill-mask'"),
    (SETTINGS, {"modality_config": 5}, "output for text. Received: 5"),
    (SETTINGS, {"modality_config": MODALITIES}, "last_hidden_state .* Received: 'pooler_output'"),
]


def test_settings_that_are_refused(folder):
    for file, changes, message in REFUSED:
        before = (folder / file).read_text()
        edit(folder / file, **changes)
        with pytest.raises(UserError, match=message):
            sentence_transformers.read(folder)
        (folder / file).write_text(before)


def test_prompts_that_are_empty(folder):
    """sentence-transformers 5 names two that are."""
    edit(folder / PROMPTS, prompts={"query": "", "document": ""}, default_prompt_name="query")
    assert sentence_transformers.read(folder).pooling == "mean"


@pytest.mark.parametrize(
    ("name", "normalize", "is_cosine"),
    [
        (None, False, True),
        ("dot", True, True),  # of vectors of length 1
        ("dot_product", False, False),
        ("euclidean", True, False),
        ("manhattan", False, False),
    ],
)
def test_other_similarities(plain, name, normalize, is_cosine):
    """An encoder keeps the name; AlbertForSimilarity, which computes cosines, rejects it."""
    sentence_transformers.write(plain, SentenceEmbedding("mean", normalize), 20)
    edit(plain / PROMPTS, similarity_fn_name=name)
    stored = {None: "cosine", "dot_product": "dot"}.get(name, name)
    embedding = sentence_transformers.read(plain)
    again = json.loads(embedding.files(20)[PROMPTS])["similarity_fn_name"]
    assert again == embedding.similarity == stored
    if is_cosine:
        AlbertForSimilarity.from_pretrained(plain)
    else:
        with pytest.raises(UserError, match=f"similarity_fn_name '{stored}' in .*{plain}"):
            AlbertForSimilarity.from_pretrained(plain)


def test_modules_that_are_refused(folder):
    modules = json.loads((folder / "modules.json").read_text())
    for kind, path, message in (
        ("custom.Normalize", "2_Normalize", "Received: Transformer, Pooling, custom.Normalize"),
        ("sentence_transformers.models.Dense", "../other", "next to it. Received: '../other'"),
        ("sentence_transformers.models.Dense", "a/b", "next to it. Received: 'a/b'"),
        ("sentence_transformers.models.Dense", "2_Dense", "Received: Transformer, Pooling, Dense"),
    ):
        modules[2] |= {"type": kind, "path": path}
        (folder / "modules.json").write_text(json.dumps(modules))
        with pytest.raises(UserError, match=message) as refused:
            sentence_transformers.read(folder)
        assert "pooling=" not in str(refused.value)  # not every caller has that option
        with pytest.raises(UserError, match=f"{message}.*pooling='mean'"):
            chosen(partial(sentence_transformers.read, folder), "folder", None)
    model = AlbertModel.from_pretrained(folder)  # Its weights are read nevertheless.
    converted = partial(convert, folder, format="hf")
    for name, save in (("saved", model.save_pretrained), ("converted", converted)):
        with pytest.warns(UserWarning, match=f"aren't saved: .*{message}"):
            save(folder.parent / name)
        assert sentence_transformers.read(folder.parent / name) is None


@pytest.mark.parametrize("content", ["[", "{}", "[]", '[{"type": 1}]'])
def test_damaged_modules(folder, content):
    (folder / "modules.json").write_text(content)
    with pytest.raises(UserError, match=r"modules.json must contain .* Received: "):
        sentence_transformers.read(folder)


def test_chosen():
    own = SentenceEmbedding("cls", normalize=True, max_length=3)
    assert chosen(lambda: own, "folder", None) == own
    assert chosen(lambda: own, "folder", False) == SentenceEmbedding("cls", max_length=3)
    assert chosen(lambda: own, "max", None) == SentenceEmbedding("max")
    assert chosen(lambda: own, "max", True) == SentenceEmbedding("max", normalize=True)
    assert chosen(lambda: own, None, None) is None
    assert chosen(lambda: None, "folder", False) is None
    with pytest.raises(UserError, match="normalize requires pooling"):
        chosen(lambda: None, "folder", True)

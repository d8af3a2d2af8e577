import shutil
from itertools import pairwise

import numpy as np
import pytest

from albert_tf.checkpoints import sentence_transformers
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.errors import UserError
from albert_tf.models import AlbertModel
from albert_tf.pipelines import FeatureExtractionPipeline, pipeline
from albert_tf.text.tokenizer import AlbertTokenizer

pytestmark = pytest.mark.usefixtures("without_graphs")
LONG = "the old dog barked at the moon over paris and ada sat on a mat " * 2


def outputs(model, tokenizer, text):
    return model("feature-extraction")(dict(tokenizer(text, return_tensors="np")))


def test_states_of_every_place(pipe, model, tokenizer):
    expected = np.asarray(outputs(model, tokenizer, "the cat sat")["last_hidden_state"])
    found = pipe("feature-extraction")("the cat sat")
    assert isinstance(found[0][0][0], float)
    assert np.shape(found) == (1, 5, 20)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    array = pipe("feature-extraction", return_tensors=True)(["a", "the cat sat"])[1]
    assert array.dtype == "float32"
    np.testing.assert_allclose(array, expected, atol=1e-5)


def test_one_vector(pipe, model, tokenizer):
    expected = outputs(model, tokenizer, "the cat sat")
    states = np.asarray(expected["last_hidden_state"])[0]
    vectors = {"mean": states.mean(axis=0), "cls": states[0], "max": states.max(axis=0)}
    for pooling, vector in vectors.items():
        embed = pipe("feature-extraction", pooling=pooling)
        np.testing.assert_allclose(embed(["a", "the cat sat"])[1], vector, atol=1e-5)
        unit = vector / np.linalg.norm(vector)
        np.testing.assert_allclose(embed("the cat sat", normalize=True), unit, atol=1e-5)


@pytest.mark.parametrize(
    ("stride", "firsts"), [(0, [0, 10, 20]), (3, [0, 8, 15, 22]), (4, [0, 8, 14, 20, 26])]
)
def test_windows_join_where_they_know_most(pipe, model, tokenizer, stride, firsts):
    """30 pieces in windows of 10; each window gives the pieces from its entry of `firsts` on."""
    ids = tokenizer(LONG, add_special_tokens=False).input_ids
    assert len(ids) == 30
    found = pipe("feature-extraction", return_tensors=True)(LONG, max_length=12, stride=stride)
    assert found.shape == (1, 32, 20)
    for number, (first, end) in enumerate(pairwise([*firsts, 30])):
        start = number * (10 - stride)
        row = np.array([[2, *ids[start : start + 10], 3]])
        states = model("feature-extraction")({"input_ids": row})["last_hidden_state"][0]
        given = states[first - start + 1 : end - start + 1]
        np.testing.assert_allclose(found[0, first + 1 : end + 1], given, atol=1e-5)
        if number == 0:
            np.testing.assert_allclose(found[0, 0], states[0], atol=1e-5)
    np.testing.assert_allclose(found[0, -1], states[-1], atol=1e-5)


def test_any_model_lends_its_encoder(model, tokenizer, pipe):
    found = pipeline("feature-extraction", model("token-classification"), tokenizer)
    assert isinstance(found, FeatureExtractionPipeline)
    assert isinstance(found.model, AlbertModel)
    assert np.shape(found("the cat")) == (1, 4, 20)
    assert np.shape(pipe("feature-extraction")("")) == (1, 2, 20)


def test_half_precision_pools_in_float32(config, scrambled, words_vocabulary):
    """In bfloat16 the sum of a long text's states has lost its last digits."""
    config = config.replace(max_position_embeddings=128)
    model = scrambled(AlbertModel(config, dtype="mixed_bfloat16"))
    both = model, AlbertTokenizer(words_vocabulary, model_max_length=128)
    text = LONG * 4
    states = pipeline("feature-extraction", *both, return_tensors=True)(text)[0]
    found = pipeline("feature-extraction", *both, pooling="mean", return_tensors=True)(text)
    assert len(states) == 122
    assert states.dtype == found.dtype == "float32"
    np.testing.assert_allclose(found, states.mean(axis=0), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "median"}, "one of folder, None, mean, cls, max. Received: 'median'"),
        ({"normalize": True}, "normalize requires pooling"),
    ],
)
def test_options_out_of_range(pipe, options, message):
    with pytest.raises(UserError, match=message):
        pipe("feature-extraction", **options)


@pytest.fixture
def folder(saved, tmp_path):
    """A folder of sentence-transformers: texts of 9 tokens; unit vectors of maxima."""
    shutil.copytree(saved("feature-extraction"), tmp_path / "folder")
    embedding = SentenceEmbedding("max", normalize=True, max_length=9)
    sentence_transformers.write(tmp_path / "folder", embedding, 20)
    return tmp_path / "folder"


def test_a_folder_of_sentence_transformers(folder, pipe):
    embed = pipeline("feature-extraction", folder, return_tensors=True, truncation=True)
    plain = pipe("feature-extraction", return_tensors=True, truncation=True)
    whole = {"pooling": "max", "normalize": True, "max_length": 9}
    for options, meaning in (
        ({}, whole),
        ({"stride": 2}, {**whole, "stride": 2}),
        ({"max_length": 20}, {**whole, "max_length": 20}),
        ({"normalize": False}, {**whole, "normalize": False}),
        ({"pooling": "mean"}, {"pooling": "mean"}),
        ({"pooling": None}, {}),
    ):
        np.testing.assert_allclose(embed(LONG, **options), plain(LONG, **meaning), atol=1e-6)
    with pytest.warns(UserWarning, match="more than 9 tokens are truncated"):
        embed(LONG, truncation=None)


def test_a_folder_that_can_not_be_read(folder):
    path = folder / "1_Pooling" / "config.json"
    path.write_text('{"pooling_mode": "median"}')
    with pytest.raises(UserError, match=r"Received: \['median'\]. .*choose a pooling"):
        pipeline("feature-extraction", folder)
    assert len(pipeline("feature-extraction", folder, pooling="mean")("the cat")) == 20

import shutil

import numpy as np
import pytest

from albert_tf.checkpoints import sentence_transformers
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.errors import UserError
from albert_tf.models import AlbertModel
from albert_tf.pipelines import FeatureExtractionPipeline, pipeline

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


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_one_vector(pipe, model, tokenizer, pooling):
    expected = outputs(model, tokenizer, "the cat sat")
    states = np.asarray(expected["last_hidden_state"])[0]
    vector = {"mean": states.mean(axis=0), "cls": states[0], "max": states.max(axis=0)}[pooling]
    found = pipe("feature-extraction", pooling=pooling)(["a", "the cat sat"])
    assert len(found[1]) == 20
    np.testing.assert_allclose(found[1], vector, atol=1e-5)


@pytest.mark.parametrize("stride", [0, 3, 4])
def test_windows_join_where_they_know_most(pipe, model, tokenizer, stride):
    """30 pieces in windows of 10: each piece comes once, from the window farther from its edge."""
    ids = tokenizer(LONG, add_special_tokens=False).input_ids
    assert len(ids) == 30
    found = pipe("feature-extraction", return_tensors=True)(LONG, max_length=12, stride=stride)
    assert found.shape == (1, 32, 20)
    starts = range(0, 30 - stride, 10 - stride)
    windows = []
    for start in starts:
        row = np.array([[2, *ids[start : start + 10], 3]])
        states = model("feature-extraction")({"input_ids": row})["last_hidden_state"]
        windows.append(np.asarray(states)[0])
    np.testing.assert_allclose(found[0, 0], windows[0][0], atol=1e-5)
    np.testing.assert_allclose(found[0, -1], windows[-1][-1], atol=1e-5)
    for place in range(30):
        margins = {
            number: min(
                place - start + 100 * (start == 0),
                min(start + 10, 30) - 1 - place + 100 * (start + 10 >= 30),
            )
            for number, start in enumerate(starts)
            if start <= place < start + 10
        }
        best = [number for number in margins if margins[number] == max(margins.values())]
        assert any(
            np.allclose(found[0, place + 1], windows[number][place - starts[number] + 1], atol=1e-5)
            for number in best
        ), place


def test_any_model_lends_its_encoder(model, tokenizer, pipe):
    found = pipeline("feature-extraction", model("token-classification"), tokenizer)
    assert isinstance(found, FeatureExtractionPipeline)
    assert isinstance(found.model, AlbertModel)
    assert np.shape(found("the cat")) == (1, 4, 20)
    assert np.shape(pipe("feature-extraction")("")) == (1, 2, 20)


def test_an_unknown_pooling(pipe):
    with pytest.raises(UserError, match="one of folder, None, mean, cls, max. Received: 'median'"):
        pipe("feature-extraction", pooling="median")


def test_unit_length(pipe):
    plain = pipe("feature-extraction", pooling="max", return_tensors=True)
    vector = plain("the cat sat")
    np.testing.assert_allclose(
        plain("the cat sat", normalize=True), vector / np.linalg.norm(vector), atol=1e-6
    )
    with pytest.raises(UserError, match="normalize needs a pooling. Received: none"):
        pipe("feature-extraction", normalize=True)


@pytest.fixture
def folder(saved, tmp_path):
    """A folder of sentence-transformers: texts of 9 tokens; unit vectors of maxima."""
    shutil.copytree(saved("feature-extraction"), tmp_path / "folder")
    embedding = SentenceEmbedding("max", normalize=True, max_length=9)
    sentence_transformers.write(tmp_path / "folder", embedding, 20)
    return tmp_path / "folder"


def test_a_folder_of_sentence_transformers(folder, pipe, tokenizer):
    embed = pipeline("feature-extraction", folder, return_tensors=True)
    by_hand = pipe("feature-extraction", pooling="max", normalize=True, return_tensors=True)
    found, expected = embed("the cat sat"), by_hand("the cat sat")
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(
        embed(LONG, truncation=True), by_hand(LONG, max_length=9, truncation=True), atol=1e-6
    )
    with pytest.warns(UserWarning, match="more than 9 tokens are truncated"):
        embed(LONG)
    windows = by_hand(LONG, max_length=9, stride=2)
    np.testing.assert_allclose(embed(LONG, stride=2), windows, atol=1e-6)


def test_options_override_the_folder(folder, pipe):
    embed = pipeline("feature-extraction", folder, return_tensors=True)
    plain = pipe("feature-extraction", return_tensors=True)
    for options in ({"pooling": None}, {"pooling": "mean"}, {"pooling": "cls", "normalize": True}):
        expected = plain(LONG, **options, truncation=True)
        np.testing.assert_allclose(embed(LONG, **options, truncation=True), expected, atol=1e-6)
    unscaled = plain("the cat sat", pooling="max")
    np.testing.assert_allclose(embed("the cat sat", normalize=False), unscaled, atol=1e-6)
    longer = plain(LONG, pooling="max", normalize=True, max_length=20, truncation=True)
    found = embed(LONG, max_length=20, truncation=True)
    np.testing.assert_allclose(found, longer, atol=1e-6)


def test_a_folder_that_can_not_be_read(folder):
    path = folder / "1_Pooling" / "config.json"
    path.write_text('{"pooling_mode": "median"}')
    with pytest.raises(UserError, match=r"Received: \['median'\]. Choose a pooling of your own"):
        pipeline("feature-extraction", folder)
    assert len(pipeline("feature-extraction", folder, pooling="mean")("the cat")) == 20

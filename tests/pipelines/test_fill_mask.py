import logging

import numpy as np
import pytest
from scipy.special import softmax

from albert_tf.errors import UserError
from albert_tf.pipelines import pipeline

LONG = "the old dog barked at the moon over paris and ada sat on a mat "


def probabilities(model, ids, place):
    logits = model("fill-mask")({"input_ids": np.array([ids])})["logits"]
    return softmax(np.asarray(logits)[0, place])


def test_the_likeliest_pieces(pipe, model, tokenizer):
    ids = tokenizer("the [MASK] sat").input_ids
    found = pipe("fill-mask")("the [MASK] sat")
    expected = probabilities(model, ids, 2)
    best = np.argsort(-expected)[:5]
    assert [each["token"] for each in found] == best.tolist()
    np.testing.assert_allclose([each["score"] for each in found], expected[best], atol=1e-6)
    for each in found:
        assert each["token_str"] == tokenizer.decode([each["token"]])
        assert each["sequence"] == tokenizer.decode([ids[1], each["token"], ids[3]], True)


def test_several_masks_are_filled_apart(pipe):
    fill = pipe("fill-mask", top_k=2)
    found = fill("the [MASK] sat on a [MASK]")
    assert [len(each) for each in found] == [2, 2]
    assert found[1][0]["sequence"].startswith("[CLS] the[MASK] sat")
    alone = fill("the [MASK] sat " + LONG * 4)
    first, _ = fill("the [MASK] sat " + LONG * 4 + "a [MASK]")  # in windows of their own
    assert [each["token"] for each in first] == [each["token"] for each in alone]


def test_a_predicted_pad_leaves_nothing(pipe, tokenizer):
    for found in pipe("fill-mask")("the [MASK] sat on a [MASK]", targets=[tokenizer.pad_token_id]):
        assert found[0]["token_str"] == "<pad>"
        assert "<pad>" not in found[0]["sequence"]


def test_targets(pipe, tokenizer, caplog):
    fill = pipe("fill-mask")
    everything = {each["token_str"]: each["score"] for each in fill("a [MASK]", top_k=63)}
    with caplog.at_level(logging.WARNING):
        found = fill("a [MASK]", targets=["▁cat", "▁dog", "▁cat"])
    assert not caplog.records
    assert {each["token_str"] for each in found} == {"cat", "dog"}
    assert found[0]["score"] >= found[1]["score"]
    for each in found:
        assert each["score"] == pytest.approx(everything[each["token_str"]], abs=1e-6)
    number = tokenizer.convert_tokens_to_ids("▁dog")
    assert fill("a [MASK]", targets=[number])[0]["token"] == number


def test_targets_that_are_no_words(pipe, caplog):
    fill = pipe("fill-mask")
    assert fill("a [MASK]", targets="dogs")[0]["token_str"] == "dog"
    assert "'dogs' isn't a token, and is replaced with its first token, '▁dog'" in caplog.text
    assert fill("a [MASK]", targets="[SEP]dog")[0]["token_str"] == "[SEP]"
    caplog.clear()
    fill("a [MASK]", targets="a")
    assert "The target 'a' continues a word. Pass '▁a'" in caplog.text


@pytest.mark.parametrize(("before", "after"), [(0, 3), (2, 3), (4, 3), (4, 0)])
@pytest.mark.filterwarnings("ignore:A sequence of .* exceeds model_max_length")
def test_a_mask_beyond_the_length_is_seen_from_a_window(pipe, model, tokenizer, before, after):
    text = LONG * before + "the [MASK] sat " + LONG * after
    ids = tokenizer(text, truncation=False).input_ids
    assert len(ids) > 32
    found = pipe("fill-mask")(text)
    place = ids.index(tokenizer.mask_token_id)
    start = min(max(place - 1 - 15, 0), len(ids) - 2 - 30)  # pieces before the window
    window = [2, *ids[1 + start : 31 + start], 3]
    expected = probabilities(model, window, place - start)
    assert found[0]["token"] == expected.argmax()
    assert found[0]["score"] == pytest.approx(expected.max(), abs=1e-5)
    assert len(tokenizer(found[0]["sequence"]).input_ids) > 32


def test_truncation(pipe, model, tokenizer):
    text = "the [MASK] sat " + LONG * 3
    found = pipe("fill-mask")(text, truncation=True)
    expected = probabilities(model, tokenizer(text, truncation=True).input_ids, 2)
    assert found[0]["score"] == pytest.approx(expected.max(), abs=1e-5)


def test_a_full_stop_follows_the_mask_closely(pipe, model, tokenizer):
    found = pipe("fill-mask")("a [MASK].")
    ids = [2, tokenizer.convert_tokens_to_ids("▁a"), 4, tokenizer.convert_tokens_to_ids("."), 3]
    assert found[0]["score"] == pytest.approx(probabilities(model, ids, 2).max(), abs=1e-5)
    assert found[0]["sequence"].endswith(".")


def test_a_model_for_pretraining_fills_too(model, tokenizer):
    found = pipeline("fill-mask", model("sentence-order"), tokenizer)("the [MASK] sat")
    ids = np.array([tokenizer("the [MASK] sat").input_ids])
    logits = model("sentence-order")({"input_ids": ids})["prediction_logits"]
    expected = softmax(np.asarray(logits)[0, 2])
    assert found[0]["score"] == pytest.approx(expected.max(), abs=1e-6)


@pytest.mark.parametrize(
    ("text", "options", "received"),
    [
        ("", {}, "Received: ''"),
        ("[mask]", {}, "'.mask.'"),
        (LONG * 3 + "[MASK]", {"truncation": True}, "after truncation"),
    ],
)
def test_no_mask(pipe, text, options, received):
    with pytest.raises(UserError, match=received):
        pipe("fill-mask")(text, **options)


def test_targets_in_numpy_and_alone(pipe, tokenizer):
    fill = pipe("fill-mask", top_k=np.int64(2))
    cat, dog = tokenizer.convert_tokens_to_ids(["▁cat", "▁dog"])
    for targets in (np.array([cat, dog]), np.array(["▁cat", "▁dog"])):
        assert {each["token"] for each in fill("a [MASK]", targets=targets)} == {cat, dog}
    for target in (cat, 0):
        assert [each["token"] for each in fill("a [MASK]", targets=target)] == [target]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": []}, "targets must not be empty"),
        ({"targets": np.array([])}, "targets must not be empty"),
        ({"targets": [""]}, "must be a token .*Received: ''"),
        ({"targets": [-1]}, "must be in .* Received: -1"),
        ({"targets": [99999]}, "must be in .* Received: 99999"),
        ({"targets": "🙂zz"}, "must be a token .*Received: '🙂zz'"),
        ({"targets": [1.5]}, "must be a token or its id. Received: 1.5"),
        ({"stride": 4}, "Unknown option stride"),
    ],
    ids=str,
)
def test_options_out_of_range(pipe, options, message):
    with pytest.raises((UserError, TypeError), match=message):
        pipe("fill-mask")("a [MASK]", **options)


def test_transformers_name_for_no_truncation(pipe):
    fill = pipe("fill-mask")
    text = "the [MASK] sat " + LONG * 4
    assert fill(text, truncation="do_not_truncate") == fill(text, truncation=False)

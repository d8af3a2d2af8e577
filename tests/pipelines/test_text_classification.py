import dataclasses

import numpy as np
import pytest
from scipy.special import expit, softmax

from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.pipelines import pipeline

LONG = "the old dog barked at the moon over paris and ada sat on a mat. " * 3


def logits(model, tokenizer, *texts, **options):
    features = tokenizer(*texts, return_tensors="np", **options)
    features = {name: features[name] for name in ("input_ids", "token_type_ids", "attention_mask")}
    return np.asarray(model("text-classification")(features)["logits"])


def test_scores_are_the_models(pipe, model, tokenizer):
    expected = softmax(logits(model, tokenizer, "the cat", "a dog"), axis=-1)[0]
    found = pipe("text-classification")(("the cat", "a dog"), top_k=None)
    names = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    assert [each["label"] for each in found] == [names[place] for place in np.argsort(-expected)]
    np.testing.assert_allclose([each["score"] for each in found], -np.sort(-expected), atol=1e-6)
    assert sum(each["score"] for each in found) == pytest.approx(1)


def test_forms_of_results(pipe):
    classify = pipe("text-classification")
    best = classify("the cat")[0]
    assert set(best) == {"label", "score"}
    assert classify(["the cat"]) == [best]
    assert classify("the cat", top_k=1) == [best]
    assert classify(["the cat"], top_k=1) == [[best]]
    assert classify({"text": "the cat"}) == best
    assert classify(("the cat", None)) == best


def test_several_labels_at_once(config, tokenizer, scrambled):
    names = {0: "dull", 1: "long", 2: "warm"}
    changes = {"id2label": names, "problem_type": "multi_label_classification"}
    found = scrambled(AlbertForSequenceClassification(dataclasses.replace(config, **changes)))
    classify = pipeline("text-classification", found, tokenizer)
    scores = {each["label"]: each["score"] for each in classify("the cat", top_k=None)}
    features = dict(tokenizer("the cat", return_tensors="np"))
    expected = expit(np.asarray(found(features)["logits"]))[0]
    np.testing.assert_allclose([scores[name] for name in names.values()], expected, atol=1e-6)


def test_windows_are_averaged(pipe, model, tokenizer):
    cut = {"truncation": True, "max_length": 20, "stride": 6}
    found = pipe("text-classification")(LONG, top_k=None, **cut)
    each = logits(model, tokenizer, LONG, return_overflowing_tokens=True, padding=True, **cut)
    assert len(each) == 4
    expected = softmax(each, axis=-1).mean(axis=0)
    np.testing.assert_allclose([one["score"] for one in found], -np.sort(-expected), atol=1e-6)


def test_written_out_special_tokens_are_text(pipe):
    classify = pipe("text-classification")
    pair, text = classify(("the cat", "a dog")), classify("the cat[SEP]a dog")[0]
    assert pair["score"] != pytest.approx(text["score"], abs=1e-4)


@pytest.mark.parametrize("top_k", [0, -1, "all", 1.5])
def test_top_k_out_of_range(pipe, top_k):
    with pytest.raises(UserError, match=f"top_k must be 1 or more, .* Received: {top_k!r}"):
        pipe("text-classification", top_k=top_k)


def test_an_unknown_function(pipe):
    with pytest.raises(UserError, match="one of sigmoid, softmax, none. Received: 'tanh'"):
        pipe("text-classification", function_to_apply="tanh")


PAIRS = [("the cat sat", "who barked"), ("ada lives in paris", "a dog"), ("her dog", "the moon")]


def test_labels_are_those_of_pretraining(pipe, model, tokenizer):
    found = pipe("sentence-order")([*PAIRS, *(pair[::-1] for pair in PAIRS)])
    assert {each["label"] for each in found} <= {"in_order", "swapped"}
    for pair, each in zip(PAIRS, found, strict=False):
        outputs = model("sentence-order")(dict(tokenizer(*pair, return_tensors="np")))
        probabilities = softmax(np.asarray(outputs["sop_logits"])[0])
        assert each["score"] == pytest.approx(
            probabilities[["in_order", "swapped"].index(each["label"])]
        )
        assert each["score"] == pytest.approx(probabilities.max(), abs=1e-6)


def test_one_pair_gives_one_dict(pipe):
    order = pipe("sentence-order")
    one = order(PAIRS[0])
    assert order({"text": PAIRS[0][0], "text_pair": PAIRS[0][1]}) == one
    assert order(PAIRS[:1]) == [one]


def test_a_text_alone(pipe):
    with pytest.raises(UserError, match="needs a pair of texts: .* Received: one text, 'the cat'"):
        pipe("sentence-order")("the cat")

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit, softmax

from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.pipelines import pipeline

pytestmark = pytest.mark.usefixtures("without_graphs")
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
    assert classify(b"the cat") == classify(tf.constant("the cat")) == [best]
    assert classify(["the cat"]) == [best]
    assert classify("the cat", top_k=1) == classify("the cat", top_k=np.int64(1)) == [best]
    assert classify(["the cat"], top_k=1) == [[best]]
    assert classify({"text": "the cat"}) == best
    assert classify(("the cat", None)) == best


@pytest.mark.parametrize(
    ("count", "problem_type", "function"),
    [(1, None, lambda logits: logits), (3, "multi_label_classification", expit)],
)
def test_what_becomes_of_the_logits(config, tokenizer, scrambled, count, problem_type, function):
    """Covers all functions except softmax, which `test_scores_are_the_models` covers."""
    names = {number: f"label {number}" for number in range(count)}
    changed = config.replace(id2label=names, problem_type=problem_type)
    model = scrambled(AlbertForSequenceClassification(changed))
    classify = pipeline("text-classification", model, tokenizer)
    found = {each["label"]: each["score"] for each in classify("the cat", top_k=None)}
    raw = np.asarray(model(dict(tokenizer("the cat", return_tensors="np")))["logits"])[0]
    np.testing.assert_allclose([found[name] for name in names.values()], function(raw), atol=1e-6)


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_k": "all"}, "top_k must be at least 1, .* Received: 'all'"),
        ({"function_to_apply": "tanh"}, "one of sigmoid, softmax, none. Received: 'tanh'"),
    ],
)
def test_options_out_of_range(pipe, options, message):
    with pytest.raises(UserError, match=message):
        pipe("text-classification", **options)


PAIRS = [("the cat sat", "who barked"), ("ada lives in paris", "a dog"), ("her dog", "the moon")]


def test_the_order_of_a_pair(pipe, model, tokenizer):
    order, labels = pipe("sentence-order"), ["in_order", "swapped"]
    found = order(PAIRS)
    for pair, each in zip(PAIRS, found, strict=True):
        outputs = model("sentence-order")(dict(tokenizer(*pair, return_tensors="np")))
        probabilities = softmax(np.asarray(outputs["sop_logits"])[0])
        assert each["label"] == labels[probabilities.argmax()]
        assert each["score"] == pytest.approx(probabilities.max(), abs=1e-6)
    one = order({"text": PAIRS[0][0], "text_pair": PAIRS[0][1]})
    assert one == order(PAIRS[0]) == order(PAIRS[:1])[0]
    with pytest.raises(UserError, match="text pair.* Received: a single text, 'the cat'"):
        order("the cat")

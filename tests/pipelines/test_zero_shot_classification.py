import numpy as np
import pytest
from scipy.special import softmax

from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.pipelines import pipeline

pytestmark = pytest.mark.usefixtures("without_graphs")
NLI = {0: "ENTAILMENT", 1: "neutral", 2: "Contradiction"}
LABELS = ["dog", "paris", "moon"]


@pytest.fixture(scope="module")
def nli(config, scrambled):
    """Returns a function from names of labels to a model with random weights."""
    models = {}

    def made(names):
        key = tuple(names.values())
        if key not in models:
            model = AlbertForSequenceClassification(config.replace(id2label=names))
            models[key] = scrambled(model)
        return models[key]

    return made


def logits(model, tokenizer, text, template="This example is {}."):
    hypotheses = [template.format(label) for label in LABELS]
    texts = [text] * len(LABELS)
    features = tokenizer(
        texts, hypotheses, padding=True, truncation="only_first", return_tensors="np"
    )
    return np.asarray(model(dict(features))["logits"])


def test_one_label_of_several(nli, tokenizer):
    model = nli(NLI)
    classify = pipeline("zero-shot-classification", model, tokenizer)
    found = classify("the old dog barked", LABELS)
    expected = softmax(logits(model, tokenizer, "the old dog barked")[:, 0])
    order = np.argsort(-expected)
    assert list(found) == ["sequence", "labels", "scores"]
    assert found["sequence"] == "the old dog barked"
    assert found["labels"] == [LABELS[index] for index in order]
    np.testing.assert_allclose(found["scores"], expected[order], atol=1e-6)
    assert classify(["the old dog barked"], candidate_labels="dog, paris,moon") == [found]
    template = "it {{is}} {} here"
    found = classify("the cat", LABELS, hypothesis_template=template)
    expected = softmax(logits(model, tokenizer, "the cat", template)[:, 0])
    np.testing.assert_allclose(found["scores"], -np.sort(-expected), atol=1e-6)


@pytest.mark.parametrize(
    ("names", "contradiction", "entailment"),
    [(NLI, 2, 0), ({0: "not_entailment", 1: "entailment"}, 0, 1)],
)
def test_labels_that_may_hold_together(nli, tokenizer, names, contradiction, entailment):
    model = nli(names)
    classify = pipeline("zero-shot-classification", model, tokenizer, multi_label=True)
    found = classify("the cat", LABELS)
    against = logits(model, tokenizer, "the cat")[:, [contradiction, entailment]]
    expected = softmax(against, axis=-1)[:, 1]
    np.testing.assert_allclose(found["scores"], -np.sort(-expected), atol=1e-6)
    alone = classify("the cat", ["dog"], multi_label=False)["scores"]
    np.testing.assert_allclose(alone, expected[:1], atol=1e-6)


def test_a_long_text_is_cut_and_its_hypothesis_is_not(nli, tokenizer):
    model, long = nli(NLI), "the old dog barked at the moon. " * 9
    classify = pipeline("zero-shot-classification", model, tokenizer)
    with pytest.warns(UserWarning, match="truncated(?!.*stride)"):
        found = classify(long, LABELS, truncation=None)
    with pytest.raises(UserError, match="truncation=False(?!.*stride)"):
        classify(long, LABELS, truncation=False)
    expected = softmax(logits(model, tokenizer, long)[:, 0])
    np.testing.assert_allclose(found["scores"], -np.sort(-expected), atol=1e-6)


def test_what_is_refused(nli, tokenizer):
    with pytest.raises(UserError, match="a label 'entailment'. Received: yes, no"):
        pipeline("zero-shot-classification", nli({0: "yes", 1: "no"}), tokenizer)
    classify = pipeline("zero-shot-classification", nli(NLI), tokenizer)
    for labels in ([], "", "dog,,moon", ["dog", "dog"]):
        with pytest.raises(UserError, match="candidate_labels must be"):
            classify("the cat", labels)
    for template in ("This is it.", "It is {{}}.", "{} or {}", "{} {0}", "{:>9}", "{} }", 7):
        with pytest.raises(UserError, match="hypothesis_template must contain {}"):
            classify("the cat", LABELS, hypothesis_template=template)
    with pytest.raises(TypeError, match="Unknown option stride"):
        classify("the cat", LABELS, stride=8)
    three = nli({0: "entailment", 1: "neutral", 2: "other"})
    with pytest.raises(UserError, match="'contradiction'. Received: entailment, neutral, other"):
        pipeline("zero-shot-classification", three, tokenizer)("the cat", LABELS, multi_label=True)

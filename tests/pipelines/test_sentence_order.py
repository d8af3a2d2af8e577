import numpy as np
import pytest
from scipy.special import softmax

from albert_tf.errors import UserError

PAIRS = [("the cat sat", "who barked"), ("ada lives in paris", "a dog"), ("her dog", "the moon")]


def test_labels_are_those_of_pretraining(pipe, model, tokenizer):
    found = pipe("sentence-order")([*PAIRS, *(pair[::-1] for pair in PAIRS)])
    assert {each["label"] for each in found} <= {"in_order", "swapped"}
    for pair, each in zip(PAIRS, found, strict=False):
        outputs = model("sentence-order")(dict(tokenizer(*pair, return_tensors="np")))
        odds = softmax(np.asarray(outputs["sop_logits"])[0])
        assert each["score"] == pytest.approx(odds[["in_order", "swapped"].index(each["label"])])
        assert each["score"] == pytest.approx(odds.max(), abs=1e-6)


def test_one_pair_gives_one_dict(pipe):
    order = pipe("sentence-order")
    one = order(PAIRS[0])
    assert order({"text": PAIRS[0][0], "text_pair": PAIRS[0][1]}) == one
    assert order(PAIRS[:1]) == [one]


def test_a_text_alone(pipe):
    with pytest.raises(UserError, match="needs a pair of texts: .* Received: one text, 'the cat'"):
        pipe("sentence-order")("the cat")

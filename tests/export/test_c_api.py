"""A C program with TF Serving's loader gives the logits of Keras for strings."""

import numpy as np
import pytest
from albert_tf_export import export_saved_model


def strings(*texts):
    return np.array([text.encode() for text in texts], object)


def test_serves_strings(written, serve, texts, logits):
    folder = written(export_saved_model)
    answer = serve(folder, "serving_default", "logits", "probabilities")(text=strings(*texts))
    np.testing.assert_allclose(answer["logits"], logits, rtol=0, atol=2e-6)
    np.testing.assert_allclose(answer["probabilities"].sum(axis=1), 1, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_serves_a_tagger(checked, serve):
    """Its outputs have an axis of words, as long as the longest row."""
    folder = checked(export_saved_model, "token-classification").path
    answer = serve(folder, "serving_default", "words", "starts", "end_bytes")
    found = answer(text=strings("the film was slow", "slow"))
    assert found["words"].tolist() == [[b"the", b"film", b"was", b"slow"], [b"slow", *[b""] * 3]]
    assert found["starts"].tolist() == [[0, 4, 9, 13], [0] * 4]
    assert found["end_bytes"].tolist() == [[3, 8, 12, 17], [4, 0, 0, 0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"library": "nowhere.so"}, "nowhere.so: "),
        ({"folder": "nowhere"}, "nowhere: Could not find SavedModel"),
        ({"output": "absent:0"}, "must have the requested tensor. Received: absent:0"),
    ],
)
def test_says_what_is_wrong(serve, written, change, message):
    call = {"folder": written(export_saved_model), "output": "logits"} | change
    answer = serve(call.pop("folder"), "serving_default", call.pop("output"), **call)
    with pytest.raises(RuntimeError, match=f"(?s)ended with status 1. .*{message}"):
        answer(text=strings("a"))

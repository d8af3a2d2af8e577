import pytest

from albert_tf.pipelines.inputs import Texts, as_text, as_texts


class Tensor:
    """A tensor of strings gives bytes by `numpy()`."""

    def numpy(self):
        return "é".encode()


def test_texts_in_every_form():
    assert as_text("é") == as_text("é".encode()) == as_text(Tensor()) == "é"
    assert as_texts("a") == Texts("a", None)
    pair = Texts("a", "b")
    assert as_texts(("a", "b")) == as_texts({"text": "a", "text_pair": "b"}) == pair
    assert as_texts({"text": b"a", "text_pair": Tensor()}) == Texts("a", "é")
    assert as_texts({"text": "a"}) == as_texts({"text": "a", "text_pair": None}) == Texts("a")


@pytest.mark.parametrize("given", [None, 3, ["a"]])
def test_no_text(given):
    with pytest.raises(TypeError, match="A word must be a str. Received: .* of type"):
        as_text(given, "A word")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "A text must be a str. Received: None of type NoneType"),
        (("a", 3), "A text_pair must be a str. Received: 3"),
        (("a", "b", "c"), "A pair of texts is a tuple of two"),
        (["a", "b"], "A pair of texts is a tuple of two, or a dict with text and text_pair"),
        ({"first": "a"}, "must have the keys text and text_pair. Received: 'first'"),
        ({}, "must have the keys text and text_pair. Received: an empty one"),
    ],
)
def test_no_texts(given, message):
    with pytest.raises(TypeError, match=message):
        as_texts(given)

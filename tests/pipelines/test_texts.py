import warnings

import pytest

from albert_tf.errors import UserError
from albert_tf.pipelines.texts import (
    TextOptions,
    Texts,
    as_text,
    as_texts,
    row_length,
    text_windows,
)

SHORT = Texts("the cat sat")
LONG = Texts("the old dog barked at the moon over paris")  # 9 pieces
PAIR = Texts("who sat", "the old dog barked at the moon")  # 2 and 7 pieces


def rows(tokenizer, *texts, longest=8, **options):
    found = text_windows(tokenizer, texts, TextOptions(**options), longest)
    return [[each.features["input_ids"] for each in windows] for windows in found]


def pieces(tokenizer, text):
    return tokenizer(text, add_special_tokens=False).input_ids


def test_what_fits_is_one_row(tokenizer):
    mixed = [SHORT, Texts("who", "ada"), SHORT]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = rows(tokenizer, *mixed)
    assert found == [[tokenizer(*texts).input_ids] for texts in mixed]


def test_what_is_too_long_is_cut_with_a_warning(tokenizer):
    with pytest.warns(UserWarning, match="more than 8 pieces are truncated.*stride=64"):
        found = rows(tokenizer, LONG)
    assert found == [[[2, *pieces(tokenizer, LONG.text)[:6], 3]]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rows(tokenizer, LONG, truncation=True) == found


def test_what_is_too_long_is_refused(tokenizer):
    with pytest.raises(UserError, match="must have at most 8 pieces. Received: a longer one"):
        rows(tokenizer, LONG, truncation=False)


def test_windows(tokenizer):
    ids = pieces(tokenizer, LONG.text)
    assert rows(tokenizer, SHORT, LONG, stride=2) == [
        [tokenizer(SHORT.text).input_ids],
        [[2, *ids[:6], 3], [2, *ids[4:9], 3]],
    ]


def test_windows_of_a_pair(tokenizer):
    first, second = (pieces(tokenizer, text) for text in PAIR)
    found = rows(tokenizer, PAIR, stride=0)
    assert found == [
        [[2, *first, 3, *second[start : start + 3], 3] for start in (0, 3, 6)],
    ]
    with pytest.raises(UserError, match="'only_first' must be able to make the texts fit"):
        rows(tokenizer, PAIR, stride=0, truncation="only_first")


def test_lengths_and_strides_out_of_range(tokenizer):
    assert row_length(7, 8) == 7
    for length in (2, 9):
        with pytest.raises(UserError, match=f"at least 3, and at most 8, .* Received: {length}"):
            row_length(length, 8)
    with pytest.raises(UserError, match="stride must be 0 or more. Received: -1"):
        TextOptions(stride=-1)
    with pytest.raises(UserError, match="smaller than the pieces of a window. Received: stride=6"):
        rows(tokenizer, LONG, stride=6)


def test_a_first_text_that_leaves_no_window(tokenizer):
    long_first = Texts(PAIR.text_pair, PAIR.text)
    for stride in (0, 3):
        with pytest.raises(UserError, match="must have room for.*Received: 7 pieces, stride="):
            rows(tokenizer, long_first, stride=stride)
    with pytest.raises(UserError, match="Received: 2 pieces, stride=3, 8 a window"):
        rows(tokenizer, PAIR, stride=3)
    assert len(rows(tokenizer, long_first, truncation=True)[0]) == 1


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
        (("a", "b", "c"), "A pair of texts must be a tuple of two"),
        (["a", "b"], "A pair of texts must be a tuple of two, or a dict with text and text_pair"),
        ({"first": "a"}, "must have the keys text and text_pair. Received: 'first'"),
        ({}, "must have the keys text and text_pair. Received: an empty one"),
    ],
)
def test_no_texts(given, message):
    with pytest.raises(TypeError, match=message):
        as_texts(given)

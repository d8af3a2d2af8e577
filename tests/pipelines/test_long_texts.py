import warnings

import pytest

from albert_tf.errors import UserError
from albert_tf.pipelines.inputs import Texts
from albert_tf.pipelines.long_texts import LengthOptions, encode, row_length

SHORT = Texts("the cat sat")
LONG = Texts("the old dog barked at the moon over paris")  # 9 pieces
PAIR = Texts("who sat", "the old dog barked at the moon")  # 2 and 7 pieces


def rows(tokenizer, *texts, longest=8, **options):
    found = encode(tokenizer, texts, LengthOptions(**options), longest)
    return [[row.features["input_ids"] for row in each] for each in found]


def pieces(tokenizer, text):
    return tokenizer(text, add_special_tokens=False).input_ids


def test_what_fits_is_one_row(tokenizer):
    mixed = [SHORT, Texts("who", "ada"), SHORT]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = rows(tokenizer, *mixed)
    assert found == [[tokenizer(*texts).input_ids] for texts in mixed]


def test_what_is_too_long_is_cut_with_a_warning(tokenizer):
    with pytest.warns(UserWarning, match="more than 8 pieces are cut.*stride=64"):
        found = rows(tokenizer, LONG)
    assert found == [[[2, *pieces(tokenizer, LONG.text)[:6], 3]]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rows(tokenizer, LONG, truncation=True) == found


def test_what_is_too_long_is_refused(tokenizer):
    with pytest.raises(UserError, match="must have 8 pieces at most. Received: a longer one"):
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
    assert row_length(LengthOptions(max_length=7), 8) == 7
    for length in (2, 9):
        with pytest.raises(UserError, match=f"between 3 and 8, .* Received: {length}"):
            row_length(LengthOptions(max_length=length), 8)
    with pytest.raises(UserError, match="stride must be 0 or more. Received: -1"):
        LengthOptions(stride=-1)
    with pytest.raises(UserError, match="smaller than the pieces of a window. Received: stride=6"):
        rows(tokenizer, LONG, stride=6)


def test_a_first_text_that_leaves_no_window(tokenizer):
    long_first = Texts(PAIR.text_pair, PAIR.text)
    for stride in (0, 3):
        with pytest.raises(UserError, match="the first must fit.*Received: 7 pieces, stride="):
            rows(tokenizer, long_first, stride=stride)
    with pytest.raises(UserError, match="Received: 2 pieces, stride=3, 8 a window"):
        rows(tokenizer, PAIR, stride=3)
    assert len(rows(tokenizer, long_first, truncation=True)[0]) == 1

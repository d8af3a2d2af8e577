"""Rows of different lengths brought to one."""

import pytest

from albert_tf.text.call_arguments import checked_side, padding_strategy
from albert_tf.text.encoding import pad_rows
from albert_tf.text.tokenizer import AlbertTokenizer

FEATURES = {
    "input_ids": [[7, 8, 9], [5]],
    "offset_mapping": [[(0, 1), (1, 2), (3, 4)], [(0, 2)]],
    "labels": [1, 0],
}


def test_sides():
    right = pad_rows(FEATURES, "longest", 0, 2, pad_id=6)
    assert right["input_ids"] == [[7, 8, 9, 6], [5, 6, 6, 6]]
    left = pad_rows(FEATURES, "max_length", 5, pad_id=6, side="left")
    assert left["input_ids"] == [[6, 6, 7, 8, 9], [6, 6, 6, 6, 5]]
    assert left["offset_mapping"][1] == [(0, 0)] * 4 + [(0, 2)]
    assert left["labels"] == right["labels"] == [1, 0]
    assert pad_rows(FEATURES, "do_not_pad", 9, pad_id=6) == FEATURES


def test_the_tokenizers_side(tokenizer):
    texts, left = ["a", "the old hill"], AlbertTokenizer(tokenizer.model_bytes, padding_side="left")
    width = len(tokenizer(texts[1]).input_ids)
    rest = [0] * (width - 3)
    encoding = left(texts, padding=True)
    assert encoding.attention_mask[0] == [*rest, 1, 1, 1]
    assert encoding.input_ids[0] == [*rest, *tokenizer("a").input_ids]
    assert left(texts, padding=True, padding_side="right") == tokenizer(texts, padding=True)
    assert left.pad([left(text) for text in texts]) == encoding
    assert left.settings["padding_side"] == "left"
    tokenizer_of_others = AlbertTokenizer(tokenizer.model_bytes)
    tokenizer_of_others.padding_side = "left"
    assert tokenizer_of_others(texts, padding=True) == encoding


def test_wrong_values(tokenizer):
    with pytest.raises(ValueError, match="must be 'right' or 'left'. Received: 'both'"):
        checked_side("both")
    with pytest.raises(ValueError, match="must be 'right' or 'left'. Received: 'top'"):
        tokenizer("a", padding=True, padding_side="top")
    with pytest.raises(ValueError, match="padding must be one of True, False, .* Received: 'left'"):
        padding_strategy("left")

"""Padding on both sides, and the padding of encodings."""

import pytest

from albert_tf.text.padding import RaggedRows
from albert_tf.text.tokenizer import AlbertTokenizer


def test_padding_on_the_left(tokenizer):
    texts = ["a", "the old hill"]
    right = tokenizer(texts, padding=True)
    on_left = AlbertTokenizer(tokenizer.model_bytes, padding_side="left")
    left = on_left(texts, padding=True)
    width = len(right.input_ids[0])
    rest = [None] * (width - 3)
    assert left.input_ids[0] == [0] * (width - 3) + tokenizer("a").input_ids
    assert left.attention_mask[0] == [0] * (width - 3) + [1] * 3
    assert right.sequence_ids(0) == [None, 0, None, *rest]
    assert left.sequence_ids(0) == [*rest, None, 0, None]
    assert (right.char_to_token(0, 0), left.char_to_token(0, 0)) == (1, width - 2)
    with pytest.raises(IndexError, match=r"\[0, 2\). Received: 2"):
        right.word_ids(2)
    rows = [on_left(text) for text in texts]
    assert on_left.pad(rows) == left
    assert on_left.pad(rows, padding_side="right") == right
    on_left.padding_side = "right"
    assert on_left(texts, padding=True) == right


def test_rows_as_lists_and_arrays():
    rows = RaggedRows.of([[5, 6, 7], [], [8]])._replace(width=4, padding=9, side="left")
    assert rows.lists() == rows.array().tolist() == [[9, 5, 6, 7], [9] * 4, [9, 9, 9, 8]]
    with pytest.raises(ValueError, match="from 0 to 3"):
        RaggedRows.of([[5, 6, 7], []]).array()

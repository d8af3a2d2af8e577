import json

import numpy as np

from albert_tf.data.pretraining.words import WordTable, word_starts, word_table
from albert_tf.text.tokenizer import AlbertTokenizer


def test_pieces_that_begin_a_word():
    """Follows the original: numbers and punctuation are words."""
    begin = ["▁the", "▁", ".", ",", "-", "'", "1912", "5%", "é", "<unk>", "£", "?'"]
    go_on = ["ing", "s", "th", "B", "e-", ".com"]
    assert word_starts(begin).all()
    assert not word_starts(go_on).any()


def test_pieces_of_wordpiece():
    pieces = ["[PAD]", "the", "##ing", "##s", ".", "中"]
    assert word_starts(pieces).tolist() == [True, True, False, False, True, True]


def test_the_published_vocabulary(golden, published_vocabulary):
    """Compares each piece with the original's function."""
    listing = json.loads((golden / "F_pretraining_data/is_start_piece.json").read_text("utf-8"))
    tokenizer = AlbertTokenizer(published_vocabulary)
    starts = word_table(tokenizer).starts
    # Ids that the references lack have private-use characters as pieces.
    pieces = tokenizer.convert_ids_to_tokens(range(len(starts)))
    known = {number for number, piece in enumerate(pieces) if piece < chr(0x100000)}
    assert len(known) > 2900
    expected = known & set(listing["non_start_piece_ids"])
    assert known & set(np.flatnonzero(~starts).tolist()) == expected


def test_no_special_piece_is_drawn_at_random(tiny_tokenizer):
    table = word_table(tiny_tokenizer)
    assert table.random_ids.tolist() == list(range(5, tiny_tokenizer.vocab_size))
    assert table[2:] == (0, 2, 3, 4)
    read = WordTable.from_json(json.loads(json.dumps(table.as_json())))
    for name, one, other in zip(table._fields, table, read, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
    assert read.starts.dtype == bool and read.random_ids.dtype == np.int32

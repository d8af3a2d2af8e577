import json

import numpy as np

from albert_tf.data.pretraining.words import word_starts, word_table
from albert_tf.text.tokenizer import AlbertTokenizer


def test_pieces_that_begin_a_word():
    """The original's rule: numbers and punctuation are words of their own."""
    begin = ["▁the", "▁", ".", ",", "-", "'", "1912", "5%", "é", "<unk>", "£", "?'"]
    go_on = ["ing", "s", "th", "B", "e-", ".com"]
    assert word_starts(begin).all()
    assert not word_starts(go_on).any()


def test_pieces_of_wordpiece():
    pieces = ["[PAD]", "the", "##ing", "##s", ".", "中"]
    assert word_starts(pieces).tolist() == [True, True, False, False, True, True]


def test_the_published_vocabulary(golden, real_data):
    """Each of the 30,000 pieces as the original's own function has it."""
    listing = json.loads((golden / "F_pretraining_data/is_start_piece.json").read_text("utf-8"))
    table = word_table(AlbertTokenizer(real_data / "spiece.model"))
    assert np.flatnonzero(~table.starts).tolist() == listing["non_start_piece_ids"]


def test_no_special_piece_is_drawn_at_random(tiny_tokenizer):
    table = word_table(tiny_tokenizer)
    assert table.random_ids.tolist() == list(range(5, tiny_tokenizer.vocab_size))
    assert table[2:] == (0, 2, 3, 4)

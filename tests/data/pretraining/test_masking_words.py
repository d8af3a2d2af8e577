import json
from pathlib import Path

import numpy as np
import pytest

from albert_tf.data.pretraining.masking import WordTable, word_starts, word_table
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import train_vocabulary

LANGUAGES = Path(__file__).resolve().parents[2] / "languages"


def test_the_original_s_words():
    """Numbers and punctuation are words."""
    begin = ["▁the", "▁", ".", ",", "-", "'", "1912", "5%", "é", "<unk>", "£", "?'"]
    go_on = ["ing", "s", "th", "B", "e-", ".com"]
    assert word_starts(begin, "original").all()
    assert not word_starts(go_on, "original").any()


def test_words_after_spaces():
    begin = ["▁про", "▁", ".", ",", "£", "?'", "第", "の", "ガス", "ก", "▁đại", "ក"]
    go_on = ["ing", "ют", "é", "ст-", "1912", "5%", "ей.", "्या", "ា", "้า", "가", "ιών"]
    assert word_starts(begin, "spaces").all()
    assert not word_starts(go_on, "spaces").any()


@pytest.mark.parametrize(("language", "share"), [("ru", 0.6), ("hi", 0.5), ("vi", 0.8)])
def test_words_of_languages_with_spaces(language, share):
    """By the original's rule nearly each token of these languages is a word."""
    text = (LANGUAGES / f"{language}.txt").read_text("utf-8")
    tokenizer = AlbertTokenizer(train_vocabulary(text.splitlines(), 400, keep_accents=True))
    table, ids = word_table(tokenizer), tokenizer(text, add_special_tokens=False)["input_ids"]
    assert table.rule == "spaces"
    words = text.split()
    begun = table.starts[ids].sum()
    assert len(words) <= begun < 1.4 * len(words), "marks of punctuation are words, too"
    assert begun < share * word_starts(tokenizer.convert_ids_to_tokens(ids), "original").sum()


def test_pieces_of_wordpiece():
    pieces = ["[PAD]", "the", "##ing", "##s", ".", "中"]
    assert word_starts(pieces, "wordpiece").tolist() == [True, True, False, False, True, True]


def test_the_published_vocabulary(golden, published_vocabulary):
    """Compares each piece with the original's function."""
    listing = json.loads((golden / "F_pretraining_data/is_start_piece.json").read_text("utf-8"))
    tokenizer = AlbertTokenizer(published_vocabulary)
    table = word_table(tokenizer)
    assert table.rule == "original"
    starts = table.starts
    # Ids that the references lack have private-use characters as pieces.
    pieces = tokenizer.convert_ids_to_tokens(range(len(starts)))
    known = {number for number, piece in enumerate(pieces) if piece < chr(0x100000)}
    assert len(known) > 2900
    expected = known & set(listing["non_start_piece_ids"])
    assert known & set(np.flatnonzero(~starts).tolist()) == expected


def test_no_special_piece_is_drawn_at_random(tiny_tokenizer):
    table = word_table(tiny_tokenizer)
    assert table.random_ids.tolist() == list(range(5, tiny_tokenizer.vocab_size))
    assert table[2:] == (0, 2, 3, 4, "spaces")
    read = WordTable.from_json(json.loads(json.dumps(table.as_json())))
    for name, one, other in zip(table._fields, table, read, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
    assert read.starts.dtype == bool and read.random_ids.dtype == np.int32


def test_a_table_without_a_rule_is_the_original_s(tiny_tokenizer):
    """As build-data wrote it before."""
    stored = word_table(tiny_tokenizer).as_json()
    del stored["rule"]
    assert WordTable.from_json(stored).rule == "original"

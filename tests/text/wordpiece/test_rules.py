"""BERT's cleaning, character by character."""

import pytest

from albert_tf.text.wordpiece.rules import Rules, is_chinese, is_punctuation


@pytest.mark.parametrize(
    ("character", "becomes"),
    [
        ("a", "a"),
        ("A", "a"),
        ("É", "e"),
        ("İ", "i"),
        ("\u0301", ""),
        ("ß", "ß"),
        ("Σ", "σ"),
        ("가", "\u1100\u1161"),
        ("ﬁ", "ﬁ"),
        ("，", " ， "),
        ("$", " $ "),
        ("€", "€"),
        ("中", " 中 "),
        ("の", "の"),
        ("\U0002f800", " 丽 "),
        ("\t", " "),
        ("\u3000", " "),
        ("\u2028", " "),
        ("\x0b", ""),
        ("\x85", ""),
        ("\u200d", ""),
        ("\ufffd", ""),
        ("\ue000", ""),
        ("\u0378", "\u0378"),
    ],
)
def test_characters(character, becomes):
    assert Rules()(character) == becomes


def test_options():
    assert Rules(lower_case=False)("É") == "E"
    assert Rules(strip_accents=False)("É") == "é"
    assert Rules(strip_accents=False)("İ") == "i\u0307"
    assert Rules(split_chinese=False)("中") == "中"


def test_punctuation_is_asciis_symbols_and_unicodes():
    assert all(map(is_punctuation, "!+^`~，。…「·"))
    assert not any(map(is_punctuation, "a1￥€°の"))


def test_chinese_is_without_kana_and_hangul():
    assert all(map(is_chinese, "一\u9fff㐀豈\U00020000\U0002ceaf"))
    assert not any(map(is_chinese, "のア가。\u3005"))


def test_table_has_every_character_but_unassigned_planes():
    table = dict(Rules().table())
    assert len(table) > 300_000
    assert (table["中"], table["\U0010fffd"], table["\U000e0001"]) == (" 中 ", "", "")
    assert "\0" not in table
    assert not any(0xD800 <= ord(character) < 0xE000 for character in table)

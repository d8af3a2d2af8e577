"""The rules in the model agree with plain Python, except for a few known cases."""

import random

import pytest
import sentencepiece

from albert_tf.text.normalization import Normalization
from albert_tf.text.vocabulary import bake


def normalized(unbaked, text, **options):
    processor = sentencepiece.SentencePieceProcessor(model_proto=bake(unbaked, **options))
    return processor.normalize(text).replace("▁", " ").removeprefix(" ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  A\t\tb\u00a0\u3000C\u2028\x1fd\u0085 ", "a b c d"),
        ("CAFÉ cafe\u0301", "cafe cafe"),
        ("ﬁne ½ №", "fine 1⁄2 no"),
        ("İstanbul STRASSE ẞ ß", "istanbul strasse ß ß"),
        ("가각 ㄱㅏ ｶﾞ", "가각 가 カ"),
        ("``it''", "``it''"),
        ("\u200bzero\ufeffwidth", "zero width"),
    ],
)
def test_examples(unbaked, text, expected):
    assert normalized(unbaked, text) == expected


@pytest.mark.slow
def test_options(unbaked):
    assert normalized(unbaked, "``É'' ab'", quotes="huggingface") == '"e" ab\''
    assert normalized(unbaked, "É E\u0301", keep_accents=True) == "é é"
    assert normalized(unbaked, "É E\u0301", lower_case=False) == "E E"
    assert normalized(unbaked, "É E\u0301", lower_case=False, keep_accents=True) == "É É"


def test_final_sigma_is_an_ordinary_sigma(unbaked):
    """Python's lower() depends on the letter's position in its word; a table of strings can't."""
    assert "ΟΔΟΣ".lower() == "οδος"
    assert normalized(unbaked, "ΟΔΟΣ") == Normalization()("ΟΔΟΣ") == "οδοσ"
    assert normalized(unbaked, "οδος") == "οδος"


def test_hangul_finals_join_in_every_form(unbaked, normalization):
    own = sentencepiece.SentencePieceProcessor(model_proto=unbaked)
    baked = sentencepiece.SentencePieceProcessor(model_proto=bake(unbaked))
    draw = random.Random(5)
    finals = [chr(point) for point in (*range(0x11A8, 0x11C3), 0x313B, 0x313C, 0xFFAB, 0xFFAC)]
    texts = [chr(draw.randrange(0xAC00, 0xD7A4)) + draw.choice(finals) for _ in range(2_000)]
    assert [baked.normalize(text) for text in texts] == [
        own.normalize(normalization(text)) for text in texts
    ]


def test_known_difference_accent_inside_a_hangul_syllable(unbaked, normalization):
    """Python drops the accent before the letters join; the table does not."""
    text = "\u1110\u0301\u1169"
    own = sentencepiece.SentencePieceProcessor(model_proto=unbaked)
    assert own.normalize(normalization(text)) == "▁토"
    assert normalized(unbaked, text) == "\u1110\u1169"

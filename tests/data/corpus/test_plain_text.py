import io

import pytest

from albert_tf.data.corpus.plain_text import cut, passages
from albert_tf.data.corpus.reading import Blocks


@pytest.mark.parametrize(
    ("text", "limit", "before", "after"),
    [
        ("one\ntwo three", 9, "one", "\ntwo three"),
        ("one\ntwo three", 3, "one", "\ntwo three"),
        ("one two three", 9, "one two", " three"),
        ("one\ttwo three", 6, "one", "\ttwo three"),
        ("one\rtwothree", 6, "one", "\rtwothree"),
        ("onetwothree", 6, "onetwo", "three"),
        ("éééé", 5, "éé", "éé"),
        ("😀😀😀", 7, "😀", "😀😀"),
        ("😀😀😀", 8, "😀😀", "😀"),
    ],
)
def test_cut(text, limit, before, after):
    data = b"no\n " + text.encode()
    stop = cut(data, 4, limit)
    assert (data[4:stop].decode(), data[stop:].decode()) == (before, after)


def test_invalid_utf_8_is_cut_too():
    assert cut(b"\x80" * 20, 2, 5) == 7


@pytest.mark.parametrize("white", [chr(code) for code in range(0x110000) if chr(code).isspace()])
def test_a_line_of_any_white_space_is_blank(white):
    text = f"One.\n{white}{white}\nTwo."
    found = list(passages(Blocks(io.BytesIO(text.encode()), 0), 0, None, 100))
    second = 4 + len(f"\n{white}{white}\n".encode())
    assert found == [(0, b"One.", 0), (second, b"Two.", 0)]


def test_other_lines_are_not_blank():
    for code in range(33, 0x3100):
        if not chr(code).isspace():
            text = f"One.\n{chr(code)}\nTwo.".encode()
            assert list(passages(Blocks(io.BytesIO(text), 0), 0, None, 100)) == [(0, text, 0)]


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [(0, 8, ["One"]), (8, 9, ["Two"]), (0, 9, ["One", "Two"]), (9, 99, ["Six"]), (16, 17, ["Six"])],
)
def test_a_document_belongs_to_the_split_of_the_blank_line_before_it(start, end, found):
    text = b"\nOne\n\n \n\nTwo\n \n\n\nSix"
    assert text[8:9] == b"\n", "the blank line before Two"
    blocks = Blocks(io.BytesIO(text[max(0, start - 1) :]), max(0, start - 1))
    assert [part.decode() for _, part, _ in passages(blocks, start, end, 100)] == found

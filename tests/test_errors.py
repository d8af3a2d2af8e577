import sys

import pytest

from albert_tf.errors import (
    LINE_LENGTH,
    MOST,
    SHORT,
    UserError,
    check_tensorflow_text,
    escaped,
    listed,
    one_line,
    short_repr,
)


def test_names_are_listed_up_to_a_number():
    assert listed(["a", 2]) == "a, 2"
    assert listed(range(MOST)).endswith(f"{MOST - 2}, {MOST - 1}")
    assert listed(range(99_998)).endswith(f", {MOST - 1} and 99,978 more")
    long = "x" * 900
    assert listed([long, long, "y"]) == f"{long}, {'x' * 98}… and 1 more"
    assert listed(["z" * 9_000]) == "z" * (LINE_LENGTH // 2) + "…"


def test_a_value_is_shown_by_its_beginning():
    for value in ("plum", "it's", 12, -0.5, None, [1, "two"], {"a": (1,)}, b"\x00"):
        assert short_repr(value) == repr(value)
    assert short_repr("x" * 10**6) == "'" + "x" * (SHORT - 2) + "…"
    assert short_repr(list(range(10**6))) == "[0, 1, 2, 3, 4, 5, …]"
    assert short_repr(-(16**5_000)) == "a number with 20,001 bits"
    copies = ["lol"]
    for _ in range(40):
        copies = [copies] * 9
    assert short_repr(copies).startswith("[[[[…], […], […],")


def test_a_line_has_no_control_codes():
    text = "red \x1b[31m, bell \x07, C1 \x9b, left \u202e \u200f, half \udce9, tab \t.\n  New\r\n"
    shown = r"red \x1b[31m, bell \x07, C1 \x9b, left \u202e \u200f, half \udce9, tab \t. New"
    assert one_line(text) == shown
    assert escaped("one\ttwo\n\x1b[2J\u2028\u202eeno") == r"one\ttwo\n\x1b[2J\u2028\u202eeno"
    assert escaped(0.5) == "0.5"
    for plain in ("déjà vu — 漢字", "naïve 漢 שלום"):
        assert one_line(plain) == escaped(plain) == plain


def test_a_long_line_is_cut_in_the_middle():
    line = one_line("start " + "x" * 97_000 + " end")
    assert line.startswith("start xxx") and line.endswith("xxx end")
    assert " … (95,010 characters) … " in line
    assert len(line) < LINE_LENGTH + 50


def test_a_python_without_tensorflow_text(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    with pytest.raises(UserError, match=r"no wheel for Windows. .*ids_only=True"):
        check_tensorflow_text()
    with pytest.raises(UserError, match="^A vocab.txt requires .* Windows. Use another.$"):
        check_tensorflow_text("A vocab.txt", "Use another.")

from albert_tf.errors import LONGEST, MOST, listed, one_line


def test_names_are_listed_up_to_a_number():
    assert listed(["a", 2]) == "a, 2"
    assert listed(range(MOST)).endswith(f"{MOST - 2}, {MOST - 1}")
    assert listed(range(99_998)).endswith(f", {MOST - 1} and 99,978 more")


def test_a_line_has_no_control_codes():
    text = "red \x1b[31m, bell \x07, C1 \x9b, leftwards \u202e, half \udce9, tab \t.\n  New\r\n"
    escaped = r"red \x1b[31m, bell \x07, C1 \x9b, leftwards \u202e, half \udce9, tab \t. New"
    assert one_line(text) == escaped
    assert one_line("déjà vu — 漢字") == "déjà vu — 漢字"


def test_a_long_line_is_cut_in_the_middle():
    line = one_line("start " + "x" * 97_000 + " end")
    assert line.startswith("start xxx")
    assert line.endswith("xxx end")
    assert " … (95,010 characters) … " in line
    assert len(line) < LONGEST + 50

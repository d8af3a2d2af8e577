import argparse
import dataclasses
import re
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest

from albert_tf import cli
from albert_tf.cli.parsing import add_options, parsed_options
from albert_tf.errors import UserError
from albert_tf.options import FILE, Checked, declared, option, save_options
from tests.cli.conftest import OPTIONS


@dataclasses.dataclass(frozen=True)
class Baking(Checked):
    cake: str = option(help="name of the cake", metavar="CAKE", positional=True)
    oven: Path = option(help="place to bake it", original=("kiln",))
    egg_count: int = option(3, help="eggs to beat", group="dough", original=("num_eggs",))
    sugar: float | None = option(None, help="share of sugar, 100% at most")
    low_fat: bool = option(True, help="use of yoghurt", metavar="true|false")
    force: bool = option(False, help="replacement of a burnt cake")
    form: Literal["round", "square"] = option("round", help="form of the cake")
    layers: tuple[str, ...] = option(("jam", "cream"), help="fillings")
    wishes: tuple[str, ...] = option((), help="wish of a guest", repeated=True)


LEAST = ["plum", "--oven", "o"]


@pytest.fixture
def parser():
    parser = argparse.ArgumentParser(prog="bake")
    add_options(parser, Baking, config=True)
    return parser


@pytest.fixture
def parse(parser):
    def parse(*arguments):
        given = parser.parse_args([str(each) for each in arguments])
        return parsed_options(parser, Baking, given)

    return parse


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        ([], {}),
        (["--egg-count", "4"], {"egg_count": 4}),
        (["--egg_count=4"], {"egg_count": 4}),
        (["--num_eggs", "4"], {"egg_count": 4}),
        (["--num-eggs", "4"], {"egg_count": 4}),
        (["--low-fat=false"], {"low_fat": False}),
        (["--low_fat", "f"], {"low_fat": False}),
        (["--no-low-fat"], {"low_fat": False}),
        (["--nolow_fat"], {"low_fat": False}),
        (["--nolow_fat", "--low_fat"], {}),
        (["--force"], {"force": True}),
        (["--force", "--noforce"], {}),
        (["--layers", "a", "b", "--layers", "c"], {"layers": ("a", "b", "c")}),
        (["--wishes", "a", "--wishes=--b"], {"wishes": ("a", "--b")}),
    ],
)
def test_spellings(parse, arguments, changes):
    assert parse(*LEAST, *arguments) == Baking("plum", Path("o"), **changes)


def test_help_has_one_spelling(parser):
    text = " ".join(parser.format_help().split())
    assert text.startswith("usage: bake CAKE --oven PATH [options]")
    assert "dough: --egg-count N eggs to beat; default: 3" in text
    assert "100% at most --low-fat [true|false] use of yoghurt; default: true" in text
    assert "--layers TEXT [TEXT ...] fillings; default: jam cream" in text
    assert "--form {round,square}" in text
    assert not re.search("num.eggs|egg_count|no-?force|kiln", text)


def test_required_options(parse, capsys):
    with pytest.raises(SystemExit, match="2"):
        parse("--force")
    assert "the following arguments are required: CAKE, --oven" in capsys.readouterr().err


def test_a_file_that_flags_override(parse, tmp_path):
    path = tmp_path / "cake.yaml"
    path.write_text("cake: plum\nkiln: o\negg-count: 5\nsugar: 1e-4\nlayers: [jam]\nlow_fat: no\n")
    expected = Baking("plum", Path("o"), 5, 0.0001, False, layers=("jam",))
    assert parse("--config", path) == expected
    overridden = dataclasses.replace(expected, cake="pear", egg_count=6, layers=("a",))
    assert parse("pear", "--config", path, "--num_eggs", 6, "--layers", "a") == overridden


def test_a_saved_file_is_accepted_back(parse, tmp_path):
    baking = Baking("plum", Path("o"), 5, low_fat=False, force=True, layers=("jam", "é"))
    save_options(baking, tmp_path)
    assert parse("--config", tmp_path / FILE) == dataclasses.replace(baking, force=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eggcount: 5", "contains eggcount, .* Did you mean egg_count\\?"),
        ("sugar: 1\ncake: plum\nsugar: 2", "contains sugar more than once"),
        ("oven: o\nkiln: p", "contains kiln more than once"),
        ("plum", "`option: value` lines. Received: 'plum'."),
        ("a: [", "not valid YAML: while parsing"),
        ("sugar: 2001-99-99", "not valid YAML: month must be in 1..12."),
        ("sugar: !!bool maybe", "not valid YAML: 'maybe'."),
        (f"? 0x{'9' * 5_000}\n: plum", "contains a number with 20,000 bits, "),
        ("a: &a {sugar: 1}\nb: {<<: [*a, *a]}", "not valid YAML: .*tag:yaml.org,2002:merge"),
        ("cake: plum\noven: o\nsugar: [1]", "sugar must be a number. Received: \\[1\\]."),
    ],
)
def test_wrong_files(parse, tmp_path, text, message):
    (tmp_path / "cake.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        parse("--config", tmp_path / "cake.yaml")


def test_copies_of_copies_are_not_written_out(parse, tmp_path):
    """Nine levels of nine copies of a list: 400 bytes that stand for 3 GB of text."""
    lists = [f"- &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise("abcdefghi")]
    text = "\n".join(["cake: plum", "oven: o", "layers:", '- &a ["lol"]', *lists])
    (tmp_path / "cake.yaml").write_text(text)
    with pytest.raises(UserError, match=r"Received: \[+'lol'"):
        parse("--config", tmp_path / "cake.yaml")


@pytest.mark.parametrize("command", OPTIONS)
def test_the_help_shows_each_option_once(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main([*command.split(), "--help"])
    shown = re.findall("^  --([a-z0-9-]+)", capsys.readouterr().out, re.MULTILINE)
    options = declared(OPTIONS[command]).values()
    flags = [each.name.replace("_", "-") for each in options if not each.positional]
    assert sorted(flag for flag in shown if flag != "config") == sorted(flags)


# Options of text that is no path.
TEXTS = {
    *("choices_columns", "class_weights", "context", "encoding", "engine_option", "freeze"),
    *("group_column", "label_column", "label_separator", "labels", "language", "name", "question"),
    *("sentence_splitter", "target", "text", "text_column", "text_field", "text_pair_column"),
}


@pytest.mark.parametrize("command", OPTIONS)
def test_the_home_folder_in_each_path(command, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))  # of Windows
    for each in declared(OPTIONS[command]).values():
        if each.choices or each.kind not in (str, Path) or each.name in TEXTS:
            assert not each.is_path
            continue
        expected = each.kind(tmp_path / "a")
        assert each.converted("~/a") == ((expected,) if each.is_tuple else expected), each.name
        with pytest.raises(UserError, match="no user ~no-such-user"):
            each.converted("~no-such-user/a")


def test_the_home_folder_of_a_config_file(parse, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "cake.yaml").write_text("cake: plum\noven: ~/kitchen\n")
    assert parse("--config", "~/cake.yaml").oven == tmp_path / "kitchen"

import argparse

import pytest

from albert_tf.commands.corpus_options import add_corpus_options, add_option, corpus_options
from albert_tf.data.corpus.options import CorpusOptions


@pytest.fixture
def parse():
    def parse(*arguments):
        parser = argparse.ArgumentParser()
        add_corpus_options(parser)
        return parser.parse_args(arguments)

    return parse


def test_defaults_are_the_library_s(parse):
    options = parse("--input", "a.txt")
    assert corpus_options(options) == CorpusOptions()
    assert (options.input, options.sentence_splitter) == (["a.txt"], "sentencex")


def test_inputs_add_up(parse):
    options = parse("--input", "a.txt", "b.txt", "--lines", "sentences", "--input", "c.txt")
    assert options.input == ["a.txt", "b.txt", "c.txt"]
    assert corpus_options(options).lines == "sentences"


@pytest.mark.parametrize("dash", ["-", "_"])
def test_both_spellings(parse, dash):
    arguments = ["--text-field", "body", "--bad-lines", "skip", "--sentence-splitter", "re:split"]
    spelled = [word[:2] + word[2:].replace("-", dash) for word in arguments]
    options = parse("--input", "a", "--language", "de", *spelled)
    assert corpus_options(options) == CorpusOptions(
        text_field="body", bad_lines="skip", language="de"
    )
    assert options.sentence_splitter == "re:split"


def test_help_has_one_spelling():
    parser = argparse.ArgumentParser()
    add_option(parser, "--one-two", type=int, default=7, help="default: %(default)s")
    assert "--one-two" in parser.format_help()
    assert "one_two" not in parser.format_help()
    assert parser.parse_args([]).one_two == 7
    assert parser.parse_args(["--one_two", "8"]).one_two == 8


def test_no_input(parse, capsys):
    with pytest.raises(SystemExit, match="2"):
        parse("--lines", "sentences")
    assert "required: --input" in capsys.readouterr().err

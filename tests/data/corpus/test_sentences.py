"""Documents are split into sentences by sentencex, or by a function of the user's."""

import re

import pytest

from albert_tf.data.corpus.documents import Document
from albert_tf.data.corpus.options import CorpusOptions
from albert_tf.data.corpus.sentences import sentence_splitter
from albert_tf.errors import UserError


@pytest.mark.parametrize("language", ["../../x", "", "en\n", "e" * 99, "en us"])
def test_a_language_is_a_code(language):
    with pytest.raises(UserError, match="^language must be"):
        CorpusOptions(language=language)
    assert CorpusOptions(language="be-tarask").language == "be-tarask"


def by_comma(paragraph):
    return paragraph.split(",")


def found(text, splitter="sentencex", **options):
    split = sentence_splitter(splitter, CorpusOptions(**options))
    return split(Document("a.txt", 7, text.encode()))


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "en",
            "Dr. Gray came at 5 p.m. on Monday.  Was it late?\n\tIt was",
            ["Dr. Gray came at 5 p.m. on Monday.", "Was it late?", "It was"],
        ),
        ("en", "“One,\ntwo,” (three\nfour)", ["“One,", "two,” (three", "four)"]),
        ("zh", "你好。我是谁？他", ["你好。", "我是谁？", "他"]),
        (
            "de",
            "Am 3. Mai kam er z. B. an. Dann ging er.",
            ["Am 3. Mai kam er z. B. an.", "Dann ging er."],
        ),
    ],
)
def test_paragraphs_are_split(language, text, expected):
    """A sentence ends with its line at the latest."""
    assert found(text, language=language) == expected


def test_lines_that_are_sentences_stay():
    lines = ["One. Two.", "", "  Three.\u3000", "\u2028"]
    assert found("\n".join(lines), lines="sentences") == ["One. Two.", "Three."]


def test_custom_splitters():
    assert found("a, b,,c\nd", f"{__name__}:by_comma") == ["a", "b", "c", "d"]
    assert found("a b\nc", "builtins:str.split") == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nltk", "'nltk'"),
        ("no_such_module:split", "'no_such_module:split': No module named 'no_such_module'"),
        ("re:cut", "'re:cut': module 're' has no attribute 'cut'"),
        ("sys:path", "'sys:path': it is a list"),
    ],
)
def test_no_such_splitter(name, message):
    with pytest.raises(UserError, match=f"sentence_splitter .*Received: {re.escape(message)}"):
        sentence_splitter(name, CorpusOptions())

import pickle
import re
import sys

import pytest

from albert_tf.data.corpus.documents import CorpusOptions, Document
from albert_tf.data.corpus.sentences import sentence_splitter, sentences
from albert_tf.errors import UserError

TEXT = "Dr. Gray came at 5 p.m. on Monday.  Nobody knew why.\n\tWas it late? It was"


def by_comma(paragraph):
    return paragraph.split(",")


def found(text, splitter="sentencex", **options):
    chosen = CorpusOptions(**options)
    split = sentence_splitter(splitter, chosen.language)
    return sentences(Document("a.txt", 7, text.encode()), chosen, split)


def test_paragraphs_are_split():
    assert found(TEXT) == [
        "Dr. Gray came at 5 p.m. on Monday.",
        "Nobody knew why.",
        "Was it late?",
        "It was",
    ]


def test_a_sentence_ends_with_its_line():
    assert found("“One,\ntwo,” (three\nfour)") == ["“One,", "two,” (three", "four)"]


def test_lines_that_are_sentences_stay():
    lines = ["One. Two.", "", "  Three.\u3000", "\u2028"]
    assert found("\n".join(lines), lines="sentences") == ["One. Two.", "Three."]


def test_other_languages():
    assert found("你好。我是谁？他", language="zh") == ["你好。", "我是谁？", "他"]
    german = "Am 3. Mai kam er z. B. an. Dann ging er."
    assert found(german, language="de") == ["Am 3. Mai kam er z. B. an.", "Dann ging er."]


def test_custom_splitters():
    assert found("a, b,,c\nd", by_comma) == ["a", "b", "c", "d"]
    assert found("a b\nc", "builtins:str.split") == ["a", "b", "c"]
    assert found("a, b", f"{__name__}:by_comma") == ["a", "b"]


def test_a_splitter_can_be_sent_to_a_process():
    split = pickle.loads(pickle.dumps(sentence_splitter("sentencex", "en")))
    assert split("One. Two.") == ["One. ", "Two."]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nltk", "'nltk'"),
        ("", "''"),
        ("no_such_module:split", "'no_such_module:split': No module named 'no_such_module'"),
        ("re:cut", "'re:cut': module 're' has no attribute 'cut'"),
        ("re:", "'re:'"),
        (":split", "':split'"),
        ("sys:path", "'sys:path': it is of type list"),
    ],
)
def test_no_such_splitter(name, message):
    with pytest.raises(UserError, match=f"A sentence splitter .*Received: {re.escape(message)}"):
        sentence_splitter(name, "en")


def test_a_module_that_fails_shows_its_fault(tmp_path, monkeypatch):
    (tmp_path / "broken_splitter.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="No module named 'no_such_package'"):
        sentence_splitter("broken_splitter:split", "en")
    assert "broken_splitter" not in sys.modules

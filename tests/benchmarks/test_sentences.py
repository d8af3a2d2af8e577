"""Sentences from documents: what each reader finds, and that a sentence is there once."""

import gzip
import random

import pytest

from benchmarks import sentences

SYNSET = "00001740 29 v 02 breathe 0 take_a_breath 1 001 $ 00005041 v 0000 | draw air; "


@pytest.mark.parametrize(
    ("reader", "text", "found"),
    [
        (
            sentences.wordnet,
            f'  1 A licence.\n{SYNSET}"I can breathe better here"\n',
            ["breathe, take a breath: draw air", "draw air", "I can breathe better here"],
        ),
        (sentences.fortunes, "Look up.\n\t\t-- A. Poet\n%\nLook down.", ["Look up.", "Look down."]),
        (
            sentences.quoted,
            'conversation\n\t`The captain of <ship> nods to you.`\n\tname "Short"',
            ["The captain of it nods to you."],
        ),
        (
            sentences.plain,
            "=head1 NAME\n\nB<perl> reads I<text> by lines.\n\n    my $code;\n\nThe last one.",
            ["perl reads text by lines.", "The last one."],
        ),
        (
            sentences.pages,
            "<p>A paragraph of <b>some</b> length here.</p><pre>code = [1, 2, 3, 4, 5, 6, 7]</pre>",
            ["A paragraph of some length here."],
        ),
        (sentences.book, "One of us.\nTwo of them.\n\nThe last.", ["One of us. Two of them."]),
    ],
)
def test_readers(reader, text, found, tmp_path):
    path = tmp_path / "text.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(text)
    parts = [" ".join(part.split()) for part in reader(path)]
    assert [part for part in parts if sentences.is_prose(part * 9)] == found


def test_paragraphs_become_sentences():
    text = "He ran. When the rain began to fall, she left. So did all of the others!"
    assert sentences.sentences(text) == [
        "When the rain began to fall, she left.",
        "So did all of the others!",
    ]


def test_each_sentence_once_and_no_more_than_the_sources_number(tmp_path, monkeypatch):
    for number in range(3):
        lines = [f"The boat of {name} was old." for name in ("Ann", "Bert", "Cecily", "Dora")]
        chapter = "\n".join([*lines, f"Chapter {'xyz'[number]} ended here."])
        (tmp_path / f"{number}.txt").write_text(f"{chapter}\n\nLast.", "utf-8")
    folders = [(sentences.BOOKS, tmp_path)]
    documents = sentences.collect(folders, random.Random(0))
    assert sorted(map(len, documents)) == [1, 1, 5]
    assert len({sentence for document in documents for sentence in document}) == 7
    few = sentences.SOURCES[sentences.BOOKS]._replace(count=3)
    monkeypatch.setitem(sentences.SOURCES, sentences.BOOKS, few)
    assert len(sentences.collect(folders, random.Random(0))) == 1

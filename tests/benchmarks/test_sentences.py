"""Sentences from documents: what each reader finds, and the clauses of long sentences."""

import gzip
import random

import pytest

from benchmarks import sentences

SYNSET = "00001740 29 v 02 breathe 0 take_a_breath 1 001 $ 00005041 v 0000 | draw air; "


class Fixed(random.Random):
    """Draws one number."""

    def __init__(self, number):
        super().__init__(0)
        self.number = number

    def random(self):
        return self.number


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
            sentences.game,
            'conversation\n\t`The captain of <ship> nods to you.`\n\tname "Short"',
            ["The captain of it nods to you."],
        ),
        (
            sentences.pages,
            "<p>A paragraph of <b>some</b> length here.</p><pre>code = [1, 2, 3, 4, 5, 6, 7]</pre>",
            ["A paragraph of some length here."],
        ),
        (sentences.book, "One.\nTwo.\n\nThe last chapter.", ["One.", "Two."]),
    ],
)
def test_readers(reader, text, found, tmp_path):
    path = tmp_path / "text.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(text)
    assert list(reader(path)) == found


def test_half_of_the_long_sentences_become_clauses():
    long = "When the rain began to fall, she left, because her new coat was thin."
    text = f"He ran. A short one stays. {long}"
    assert list(sentences.units(text, Fixed(0.5))) == ["A short one stays.", long]
    assert sorted(sentences.units(text, Fixed(0.4))) == [
        "A short one stays.",
        "When the rain began to fall",
        "because her new coat was thin.",
    ]


def test_each_text_once_and_no_more_than_the_sources_number(tmp_path, monkeypatch):
    for number in range(3):
        lines = [f"The boat of {name} was old." for name in ("Ann", "Bert", "Cecily", "Dora")]
        (tmp_path / f"{number}.txt").write_text("\n".join(lines) + "\n\nLast.", "utf-8")
    folders = [(sentences.BOOKS, tmp_path)]
    assert len(sentences.collect(folders, random.Random(0))) == 4
    few = sentences.SOURCES[sentences.BOOKS]._replace(count=3)
    monkeypatch.setitem(sentences.SOURCES, sentences.BOOKS, few)
    assert len(sentences.collect(folders, random.Random(0))) == 3

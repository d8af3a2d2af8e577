"""Sentences from documents, without duplicates."""

import random

from benchmarks import sentences


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

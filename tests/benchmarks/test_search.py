"""Questions look for sentences: which sentence has an answer, and what is counted."""

import json

import pytest

from benchmarks import search

CONTEXT = "The harbour opened in 1854. It was large. A boat, a film and the harbour are here."
ANSWERS = {
    "When did the harbour open?": "1854",
    "What is here?": "A boat",
    "How large was it?": "large",
    "Which year was it?": "1854",
}


def test_an_answer_s_sentence(tmp_path):
    qas = [
        {"question": question, "answers": [{"text": text, "answer_start": CONTEXT.index(text)}]}
        for question, text in ANSWERS.items()
    ]
    squad = tmp_path / "squad.json"
    squad.write_text(json.dumps({"data": [{"paragraphs": [{"context": CONTEXT, "qas": qas}]}]}))
    questions, sentences, of = search.pairs(squad)
    assert questions == list(ANSWERS)
    assert [each.strip() for each in sentences] == [
        "The harbour opened in 1854.",
        "A boat, a film and the harbour are here.",
        "It was large.",
    ]
    assert of.tolist() == [0, 1, 2, 0]
    found = search.by_words(questions, sentences)
    assert found.argmax(axis=1).tolist() == [0, 1, 2, 2]
    assert search.scores(found, of) == (0.75, pytest.approx((3 + 1 / 2) / 4))

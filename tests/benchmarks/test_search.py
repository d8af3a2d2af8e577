"""Search for sentences: which sentence contains an answer, and how results are scored."""

import json
import sys

import numpy as np
import pytest

from benchmarks import search

CONTEXT = "The harbour opened in 1854. It was large. A boat, a film and the harbour are here."
ANSWERS = {
    "When did the harbour open?": "1854",
    "What is here?": "A boat",
    "How large was it?": "large",
    "Which year was it?": "1854",
}


@pytest.fixture
def squad(tmp_path):
    """Returns a file with the questions."""
    qas = [
        {"question": question, "answers": [{"text": text, "answer_start": CONTEXT.index(text)}]}
        for question, text in ANSWERS.items()
    ]
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": CONTEXT, "qas": qas}]}]}))
    return path


def test_an_answer_s_sentence(squad):
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


def test_words_and_a_model_find_more_together(squad, monkeypatch, capsys):
    """Words miss the last question. The model finds its sentence, but not the harbour's size."""
    opened = {"The harbour opened in 1854.", *(set(ANSWERS) - {"What is here?"})}
    vectors = 0.95 * np.eye(2)
    makes = {"model": lambda texts: vectors[[int(text.strip() in opened) for text in texts]]}
    monkeypatch.setattr(search, "encoders", lambda options: makes)
    monkeypatch.setattr(sys, "argv", ["search", "--squad", str(squad)])
    search.main()
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[4:]]
    assert {name: float(accuracy) for name, accuracy, *_ in rows} == {
        "TF-IDF": 0.75,
        "model": 0.75,
        "TF-IDF + model": 1,
    }

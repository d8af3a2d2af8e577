"""Entities and their scores, compared with seqeval 1.2.2 (tests/golden/G_entities)."""

import json

import pytest

from albert_tf.evaluation.entities import (
    Tag,
    broken,
    entities,
    entity_report,
    entity_scores,
    has_prefixes,
    parsed,
    unprefixed,
)
from tests.conftest import GOLDEN

LABELS = ("O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("PER", "LOC")))
CASES = (GOLDEN / "G_entities" / "seqeval.jsonl").read_text("utf-8").splitlines()


def test_entities_and_scores_are_seqevals():
    known = parsed(LABELS)
    for case in map(json.loads, CASES):
        found = [
            [list(each) for each in entities(known[label] for label in tags)]
            for tags in case["expected"]
        ]
        assert found == case["entities"]
        scores = entity_scores(case["expected"], case["predicted"], LABELS)
        assert list(scores) == ["f1", "precision", "recall", "accuracy"]
        assert scores == pytest.approx(case["scores"], abs=1e-12)


def test_scores_of_entity_types():
    expected = [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "O"]]
    predicted = [["B-PER", "I-PER", "O", "B-PER"], ["B-LOC", "O"]]
    found = entity_report(expected, predicted, ("O", "B-PER", "I-PER", "B-LOC", "B-ORG"))
    assert {name: [*scores.values()] for name, scores in found.items()} == {
        "LOC": [1, 0.5, pytest.approx(2 / 3), 2],
        "ORG": [0, 0, 0, 0],
        "PER": [0.5, 1, pytest.approx(2 / 3), 1],
        "macro avg": [0.5, 0.5, pytest.approx(4 / 9), 3],
        "weighted avg": [pytest.approx(5 / 6), pytest.approx(2 / 3), pytest.approx(2 / 3), 3],
    }


@pytest.mark.parametrize(
    ("labels", "stray"),
    [
        (LABELS, []),
        (("O", "I-PER"), []),
        (("O", "S-PER", "E-PER", "M-PER", "B-PER"), []),
        (("O", "B-PER", "PLACE"), ["PLACE"]),
        (("N", "V"), ["N", "V"]),
        (("O", "E-mail"), ["O", "E-mail"]),
        (("O",), ["O"]),
    ],
)
def test_labels_that_keep_entities_from_a_score(labels, stray):
    assert unprefixed(labels) == stray
    assert has_prefixes(labels) == (not stray)
    assert ("f1" in entity_scores([["O"]], [["O"]], [*labels, "O"])) == (not stray)


def test_labels_are_parsed():
    known = parsed(("O", "B-x-y", "L-x-y", "U-x-y", "M-x-y"))
    assert known["B-x-y"] == Tag("B", "x-y")
    assert [known[f"{letter}-x-y"].prefix for letter in "LUM"] == ["E", "S", "I"]
    mixed = parsed(("O", "B-PER", "E-mail", "PLACE"))
    assert mixed["B-PER"] == Tag("B", "PER")
    assert mixed["E-mail"] == Tag("I", "E-mail")


def test_a_kind_may_be_named_as_what_is_outside():
    labels = ["O", "B-O", "I-O", "B-PER"]
    known = parsed(labels)
    found = entities(known[tag] for tag in ["O", "B-O", "I-O", "O", "I-O"])
    assert found == [("O", 1, 3), ("O", 4, 5)]
    assert broken([[known["O"], known["I-O"], known["B-PER"], known["B-O"]]]) == 1
    scores = entity_scores([["B-O", "I-O", "O"]], [["B-O", "O", "O"]], labels)
    assert scores == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 2 / 3}


def test_scores_without_entities():
    assert entity_scores([["N", "V"]], [["N", "N"]], ["N", "V"]) == {"accuracy": 0.5}
    none = {"f1": 0.0, "precision": 0.0, "recall": 0.0}
    assert entity_scores([["O"]], [["O"]], LABELS) == {**none, "accuracy": 1.0}


@pytest.mark.parametrize(
    ("sentences", "count"),
    [
        (["B-PER I-PER O", "O I-LOC", "B-PER I-LOC"], 2),
        (["I-PER I-PER O", "I-LOC B-LOC I-LOC"], 0),  # IOB1
        (["B-PER E-PER S-LOC O", "O E-LOC"], 1),
        (["B-PER O I-PER"], 1),
    ],
)
def test_broken_tags(sentences, count):
    known = parsed(LABELS)
    assert broken([known[label] for label in each.split()] for each in sentences) == count

"""Grouping as Hugging Face documents it: (A, B-TAG) (B, I-TAG) (C, I-TAG) (D, B-TAG2) (E, B-TAG2)
makes ABC, D and E."""

import itertools

import numpy as np
import pytest

from albert_tf.pipelines.entities import (
    Piece,
    Tagged,
    entities,
    grouped,
    tokens,
    without_overlaps,
    words,
)

LABELS = ("O", "B-PER", "I-PER", "B-LOC")
TEXT = "ada love😀 in rome"


def piece(token, start, end, place, continues, **odds):
    """A piece whose odds are given for some labels, by their number: `_1=0.6`."""
    scores = np.zeros(4)
    for name, value in odds.items():
        scores[int(name[1:])] = value
    return Piece(token, scores, start, end, place, continues)


@pytest.fixture
def pieces():
    return [
        piece("▁ada", 0, 3, 1, False, _1=0.9, _2=0.1),
        piece("▁lo", 4, 6, 2, False, _2=0.6, _3=0.4),
        piece("ve", 6, 8, 3, True, _3=0.9, _2=0.1),
        piece("😀", 8, 9, 4, False, _0=0.8, _2=0.2),
        piece("▁in", 10, 12, 5, False, _0=0.7, _3=0.3),
        piece("▁rome", 13, 17, 6, False, _3=0.8, _0=0.2),
    ]


def spans(found):
    return [(each["entity_group"], each["word"], each["score"]) for each in found]


def test_tokens(pieces):
    found = tokens(pieces[1:3], LABELS)
    assert found == [
        {"entity": "I-PER", "score": 0.6, "index": 2, "word": "▁lo", "start": 4, "end": 6},
        {"entity": "B-LOC", "score": 0.9, "index": 3, "word": "ve", "start": 6, "end": 8},
    ]


def test_words(pieces):
    assert [[each.token for each in word] for word in words(pieces)] == [
        ["▁ada"],
        ["▁lo", "ve"],
        ["😀"],
        ["▁in"],
        ["▁rome"],
    ]
    assert words(pieces[2:4])[0][0].token == "ve"  # where a window starts within a word


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("simple", [("PER", "ada lo", 0.75), ("LOC", "ve", 0.9), ("O", "😀 in", 0.75)]),
        ("first", [("PER", "ada love", 0.75), ("O", "😀 in", 0.75)]),
        ("max", [("PER", "ada", 0.9), ("LOC", "love", 0.9), ("O", "😀 in", 0.75)]),
        ("average", [("PER", "ada", 0.9), ("LOC", "love", 0.65), ("O", "😀 in", 0.75)]),
    ],
)
def test_entities(pieces, strategy, expected):
    found = entities(pieces, LABELS, strategy, TEXT)
    assert all(TEXT[each["start"] : each["end"]] == each["word"] for each in found)
    for one, other in zip(spans(found), [*expected, ("LOC", "rome", 0.8)], strict=True):
        assert one[:2] == other[:2]
        assert one[2] == pytest.approx(other[2])
    assert entities([], LABELS, strategy, "") == []


@pytest.mark.parametrize("strategy", ["simple", "first", "max", "average"])
def test_pieces_of_one_character_stay_together(strategy):
    """Three pieces are made of "½"; as a word of its own, the unknown one would split it."""
    pieces = [
        piece("▁anna", 0, 4, 1, False, _1=1.0),
        piece("1", 4, 5, 2, True, _1=0.4, _3=0.6),
        piece("<unk>", 4, 5, 3, False, _3=1.0),
        piece("2", 4, 5, 4, True, _2=1.0),
        piece("smith", 5, 10, 5, True, _1=0.1, _2=0.9),
    ]
    found = entities(pieces, LABELS, strategy, "anna½smith")
    assert all(one["end"] <= other["start"] for one, other in itertools.pairwise(found))
    if strategy == "simple":
        assert [one[:2] for one in spans(found)] == [
            ("PER", "anna"),
            ("LOC", "½"),
            ("PER", "smith"),
        ]
        assert found[1]["score"] == pytest.approx(1.6 / 3)
    else:
        assert [one["word"] for one in found] == ["anna½smith"]


def test_entities_of_single_words(pieces):
    """BIOES: a person of two words, and a place of one."""
    labels = ("O", "B-PER", "E-PER", "S-LOC")
    found = entities(pieces, labels, "first", TEXT)
    assert [one[:2] for one in spans(found)] == [
        ("PER", "ada love"),
        ("O", "😀 in"),
        ("LOC", "rome"),
    ]


def test_white_space_is_no_part_of_an_entity():
    alone = piece("▁", 3, 4, 2, False, _2=1.0)
    found = entities([piece("▁ada", 0, 3, 1, False, _1=1.0), alone], LABELS, "simple", "ada ")
    assert spans(found) == [("PER", "ada", 1.0)]
    assert found[0]["end"] == 3
    assert entities([alone], LABELS, "simple", "ada ") == []


@pytest.mark.parametrize(
    ("labels", "lengths"),
    [
        (("B-TAG", "I-TAG", "I-TAG", "B-TAG2", "B-TAG2"), [3, 1, 1]),
        (("I-A", "I-A", "B-A", "I-B"), [2, 1, 1]),
        (("A", "A", "B", "A"), [2, 1, 1]),
        (("O", "O", "I-O"), [3]),
        (("B-A", "I-A", "E-A", "E-A", "S-A", "S-A", "B-A", "E-A"), [3, 1, 1, 1, 2]),
        (("B-A", "L-A", "U-A", "O", "O"), [2, 1, 2]),
        (("S-A", "I-A", "B-A", "E-B"), [1, 1, 1, 1]),
    ],
)
def test_grouping(labels, lengths):
    tagged = [Tagged(label, 1.0, place, place + 1) for place, label in enumerate(labels)]
    assert [len(group) for group in grouped(tagged, labels)] == lengths
    assert grouped([], labels) == []


def test_windows_overlap():
    def entity(start, end, score):
        return {"start": start, "end": end, "score": score}

    found = [entity(9, 12, 0.5), entity(0, 4, 0.9), entity(2, 8, 0.1), entity(9, 12, 0.7)]
    assert without_overlaps(found) == [entity(2, 8, 0.1), entity(9, 12, 0.7)]
    assert without_overlaps([entity(0, 4, 0.9), entity(4, 8, 0.1)]) == [
        entity(0, 4, 0.9),
        entity(4, 8, 0.1),
    ]


def test_windows_overlap_in_pieces():
    def token(index, start, end, score):
        return {"index": index, "start": start, "end": end, "score": score}

    found = [token(1, 0, 0, 0.9), token(2, 0, 1, 0.5), token(2, 0, 1, 0.6)]
    assert without_overlaps(found) == [token(1, 0, 0, 0.9), token(2, 0, 1, 0.6)]

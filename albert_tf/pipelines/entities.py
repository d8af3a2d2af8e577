"""Groups labelled pieces to entities, as Hugging Face's token classification does."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.evaluation.entities import parsed

STRATEGIES: Final = ("none", "simple", "first", "average", "max")


class Piece(NamedTuple):
    """A piece of a text with its scores.

    Attributes:
        token: the piece.
        scores: `[C]`, the probability of each label.
        start, end: the piece's characters in the text.
        position: the piece's position; `[CLS]` has 0.
        continues: whether the piece belongs to the word of the one before.
    """

    token: str
    scores: np.ndarray
    start: int
    end: int
    position: int
    continues: bool


class Tagged(NamedTuple):
    """Characters with a label."""

    label: str
    score: float
    start: int
    end: int


_WORD_SCORES: Final[dict[str, Callable[[Sequence[Piece]], np.ndarray]]] = {
    "first": lambda word: word[0].scores,
    "max": lambda word: max(word, key=lambda piece: piece.scores.max()).scores,
    "average": lambda word: np.mean([piece.scores for piece in word], axis=0),
}


def tokens(pieces: Iterable[Piece], labels: Sequence[str]) -> list[dict[str, Any]]:
    """Returns each piece with its highest-scoring label."""
    return [
        {
            "entity": labels[best],
            "score": float(piece.scores[best]),
            "index": piece.position,
            "word": piece.token,
            "start": piece.start,
            "end": piece.end,
        }
        for piece in pieces
        for best in [int(piece.scores.argmax())]
    ]


def entities(
    pieces: Sequence[Piece], labels: Sequence[str], strategy: str, text: str
) -> list[dict[str, Any]]:
    """Groups neighbours of one kind to entities, which share no character.

    Args:
        strategy: "simple" uses each piece's own label; pieces of one character, as of "½", have the
            label of their mean scores. The others give all pieces of a word one
            label: "first" its first piece's, "average" the label of their mean scores, "max" the
            label of the piece with the highest score.
    """
    is_simple = strategy == "simple"
    units = _units(pieces) if is_simple else words(pieces)
    scores = [_WORD_SCORES["average" if is_simple else strategy](unit) for unit in units]
    tagged = [
        Tagged(labels[int(each.argmax())], float(each.max()), unit[0].start, unit[-1].end)
        for unit, each in zip(units, scores, strict=True)
    ]
    found = [_entity(group, text) for group in grouped(tagged, labels)]
    return [entity for entity in found if entity["word"]]


def words(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Returns the pieces of each word; those of one character are never apart."""
    return _units(pieces, lambda piece: piece.continues)


def _units(
    pieces: Iterable[Piece], joins: Callable[[Piece], bool] = lambda piece: False
) -> list[list[Piece]]:
    """Returns runs of pieces, where a piece joins the one before, or shares a character with it."""
    found: list[list[Piece]] = []
    for piece in pieces:
        if found and (joins(piece) or piece.start < found[-1][-1].end):
            found[-1].append(piece)
        else:
            found.append([piece])
    return found


def grouped(tagged: Sequence[Tagged], labels: Sequence[str]) -> list[list[Tagged]]:
    """Returns runs of one kind, "O" included; `labels` are all of the model's.

    "B-" and "S-" begin a new run, and so does the label after "E-" and "S-"; a label without
    prefix counts as "I-".
    """
    known = parsed(labels)
    groups = [[tagged[0]]] if tagged else []
    for last, each in pairwise(tagged):
        if known[each.label].continues(known[last.label]):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _entity(group: Sequence[Tagged], text: str) -> dict[str, Any]:
    start, end = group[0].start, group[-1].end
    covered = text[start:end]  # A piece may be white space alone.
    start += len(covered) - len(covered.lstrip())
    word = covered.strip()
    return {
        "entity_group": group[0].label.split("-", 1)[-1],
        "score": float(np.mean([each.score for each in group])),
        "word": word,
        "start": start,
        "end": start + len(word),
    }


def without_overlaps(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the longest of overlapping entities, or the highest-scoring of equal length."""
    result: list[dict[str, Any]] = []
    for each in sorted(found, key=lambda one: one["start"]):
        if result and _overlap(result[-1], each):
            result[-1] = max(result[-1], each, key=_weight)
        else:
            result.append(each)
    return result


def _overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    if "index" in one:
        return one["index"] == other["index"]
    return one["start"] <= other["start"] < one["end"]


def _weight(entity: dict[str, Any]) -> tuple[int, float]:
    return entity["end"] - entity["start"], entity["score"]

"""Entities in tags of the schemes BIO, IOB1, BIOES and their kin, and entity scores.

The rules are those of conlleval, the scorer of CoNLL's shared tasks. A tag that continues nothing
begins an entity, so broken tags, such as an "I-" after "O", need no repair.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

OUTSIDE: Final = "O"
_PREFIXED: Final = re.compile("([BIESLUM])-(.+)", re.DOTALL)
_SAME: Final = {"L": "E", "U": "S", "M": "I"}  # BILOU's and BMES's letters


class Tag(NamedTuple):
    """The parts of a label.

    Attributes:
        prefix: "B" (begins an entity), "I" (inside), "E" (ends one), "S" (single), or `OUTSIDE`.
        kind: the entity's kind; "" outside of entities.
    """

    prefix: str
    kind: str

    def continues(self, last: "Tag") -> bool:
        """Returns whether it belongs to the entity of the tag before it, or both to none."""
        return self.prefix in "IEO" and last.prefix in "BIO" and self.kind == last.kind


_NO_ENTITY: Final = Tag(OUTSIDE, "")


class Entity(NamedTuple):
    """An entity: its kind, and its words from `start` to before `end`."""

    kind: str
    start: int
    end: int


def has_prefixes(labels: Iterable[str]) -> bool:
    """Returns whether labels are of a scheme: all but "O" have a prefix such as "B-"."""
    prefixed = [label for label in labels if label != OUTSIDE]
    return all(map(_PREFIXED.fullmatch, prefixed)) and any(label[0] in "BISU" for label in prefixed)


def unprefixed(labels: Sequence[str]) -> list[str]:
    """Returns the labels for which `entity_scores` has no F1: all, if none begins an entity."""
    if has_prefixes(labels):
        return []
    stray = [label for label in labels if label != OUTSIDE and not _PREFIXED.fullmatch(label)]
    return stray or list(labels)


def parsed(labels: Sequence[str]) -> dict[str, Tag]:
    """Returns each label's parts.

    Where not all labels have a prefix, "B-" and "I-" are the only ones, and labels without them
    count as "I-".
    """
    prefixes = "BIESLUM" if has_prefixes(labels) else "BI"
    tags = {}
    for label in labels:
        match = _PREFIXED.fullmatch(label)
        if label == OUTSIDE:
            tags[label] = _NO_ENTITY
        elif match and match[1] in prefixes:
            tags[label] = Tag(_SAME.get(match[1], match[1]), match[2])
        else:
            tags[label] = Tag("I", label)
    return tags


def entities(tags: Iterable[Tag]) -> list[Entity]:
    """Returns the entities of a sentence, in order."""
    spans: list[Entity] = []
    last = _NO_ENTITY
    for position, tag in enumerate(tags):
        if tag.kind:
            start = spans.pop().start if tag.continues(last) else position
            spans.append(Entity(tag.kind, start, position + 1))
        last = tag
    return spans


def broken(sentences: Iterable[Sequence[Tag]]) -> int:
    """Returns how many "I-" and "E-" continue nothing; 0 for IOB1, where an entity begins so.

    In IOB1 "B-" appears only where an entity follows another of its kind.
    """
    count, is_iob1 = 0, True
    for sentence in sentences:
        last = _NO_ENTITY
        for tag in sentence:
            if tag.kind:
                count += tag.prefix in "IE" and not tag.continues(last)
                is_iob1 &= tag.prefix == "I" or (tag.prefix == "B" and tag.kind == last.kind)
            last = tag
    return 0 if is_iob1 else count


def entity_scores(
    expected: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], labels: Sequence[str]
) -> dict[str, float]:
    """Returns F1, precision and recall of entities, and the accuracy of words.

    An entity is right if its kind and all its words are. Scores without any entity are 0. Labels
    without prefixes, as parts of speech have, are scored by accuracy alone.

    Args:
        expected, predicted: a label for each word of each sentence.
        labels: all labels.
    """
    right = [
        one == other
        for pair in zip(expected, predicted, strict=True)
        for one, other in zip(*pair, strict=True)
    ]
    accuracy = {"accuracy": sum(right) / max(len(right), 1)}
    if not has_prefixes(labels):
        return accuracy
    known = parsed(labels)
    gold, chosen = (
        {
            (number, *entity)
            for number, sentence in enumerate(sentences)
            for entity in entities(known[label] for label in sentence)
        }
        for sentences in (expected, predicted)
    )
    correct = len(gold & chosen)
    return {
        "f1": 2 * correct / max(len(gold) + len(chosen), 1),
        "precision": correct / max(len(chosen), 1),
        "recall": correct / max(len(gold), 1),
        **accuracy,
    }

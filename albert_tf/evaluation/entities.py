"""Decodes entities from tags (BIO, IOB1, BIOES, and similar schemes), and scores them.

The rules are the same as in conlleval, the scorer of the CoNLL shared tasks. A tag that doesn't
continue an entity begins one, so invalid tags, such as "I-" after "O", don't need to be repaired.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

OUTSIDE: Final = "O"
_PREFIXED: Final = re.compile("([BIESLUM])-(.+)", re.DOTALL)
_SAME: Final = {"L": "E", "U": "S", "M": "I"}  # maps letters of BILOU and BMES to BIOES


class Tag(NamedTuple):
    """The parts of a label.

    Attributes:
        prefix: "B" (beginning of an entity), "I" (inside), "E" (end), "S" (single word), or
            `OUTSIDE`.
        kind: entity type; "" outside of entities.
    """

    prefix: str
    kind: str

    def continues(self, last: "Tag") -> bool:
        """Returns whether this tag continues the previous tag's entity, or both tags are "O"."""
        return self.prefix in "IEO" and last.prefix in "BIO" and self.kind == last.kind


_NO_ENTITY: Final = Tag(OUTSIDE, "")


class Entity(NamedTuple):
    """An entity: its type, and its span of words; `end` is exclusive."""

    kind: str
    start: int
    end: int


def has_prefixes(labels: Iterable[str]) -> bool:
    """Returns whether labels follow a tagging scheme: all except "O" have a prefix like "B-"."""
    prefixed = [label for label in labels if label != OUTSIDE]
    return all(map(_PREFIXED.fullmatch, prefixed)) and any(label[0] in "BISU" for label in prefixed)


def unprefixed(labels: Sequence[str]) -> list[str]:
    """Returns the labels that prevent `entity_scores` from computing F1.

    These are the labels without a prefix, or all labels if none of them begins an entity.
    """
    if has_prefixes(labels):
        return []
    stray = [label for label in labels if label != OUTSIDE and not _PREFIXED.fullmatch(label)]
    return stray or list(labels)


def parsed(labels: Sequence[str]) -> dict[str, Tag]:
    """Splits each label into prefix and entity type.

    If some labels have no prefix, only "B-" and "I-" count as prefixes, and labels without them are
    read as "I-".
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
    """Counts the "I-" and "E-" tags that don't continue an entity; 0 for IOB1, which allows them.

    In IOB1, "B-" occurs only where an entity directly follows another entity of the same type.
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
    """Computes entity-level F1, precision, and recall, and word-level accuracy.

    An entity is correct if its type and all of its words are correct. F1, precision,
    and recall are 0 if there are no entities. Labels without prefixes, such as parts of speech, are
    scored by accuracy only.

    Args:
        expected, predicted: one label for each word of each sentence.
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
    counts = entity_counts(expected, predicted, labels)
    total = Counts(*map(sum, zip(*counts.values(), strict=True)))
    return {**_scores(total), **accuracy}


class Counts(NamedTuple):
    """The numbers of expected, predicted, and correct entities."""

    expected: int
    predicted: int
    correct: int


def entity_counts(
    expected: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], labels: Sequence[str]
) -> dict[str, Counts]:
    """Returns the counts of each entity type. The arguments are those of `entity_scores`."""
    known = parsed(labels)
    gold, chosen = (
        {
            (entity.kind, number, entity.start, entity.end)
            for number, sentence in enumerate(sentences)
            for entity in entities(known[label] for label in sentence)
        }
        for sentences in (expected, predicted)
    )
    each = [Counter(kind for kind, *_ in found) for found in (gold, chosen, gold & chosen)]
    kinds = sorted({tag.kind for tag in known.values()} - {""})
    return {kind: Counts(*(count[kind] for count in each)) for kind in kinds}


def _scores(counts: Counts) -> dict[str, float]:
    expected, predicted, correct = counts
    return {
        "f1": 2 * correct / max(expected + predicted, 1),
        "precision": correct / max(predicted, 1),
        "recall": correct / max(expected, 1),
    }


def entity_report(
    expected: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], labels: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Returns the scores of each entity type in the layout of `metrics.by_class`."""
    from albert_tf.evaluation.metrics import class_report  # imports scikit-learn

    counts = entity_counts(expected, predicted, labels)
    scores = [_scores(each) for each in counts.values()]
    precision, recall, f1 = (
        [each[name] for each in scores] for name in ("precision", "recall", "f1")
    )
    support = [each.expected for each in counts.values()]
    return class_report([*counts], precision, recall, f1, support)

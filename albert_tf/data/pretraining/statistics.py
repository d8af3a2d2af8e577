"""Statistics of pretraining examples."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.data.pretraining.options import SPECIAL_COUNT
from albert_tf.data.pretraining.pairs import IN_ORDER, SWAPPED

Example = Mapping[str, Sequence[Any]]


def is_masked(example: Example) -> bool:
    """Returns whether an example is masked in its file (static mode)."""
    return "masked_lm_positions" in example


def statistics(examples: Iterable[Example], mask_id: int) -> dict[str, Any]:
    """Statistics of decoded records of one mode.

    Returns:
        `examples`: their number; `labels`: the number of each;
        `length`: `mean`, `min` and `max` in pieces, special ones included;
        `short`: share of examples of at most half the longest one's length;
        `told_by_lengths`, if all have a label: share of labels that the lengths of the segments
        give away, 0.5 by chance.
        For masked examples also `padding`: share of all positions; `predictions`: mean number;
        `predicted`: share of all pieces; `replaced`: share of predicted pieces that became `mask`,
        `random`, or were `kept`; `runs`: distribution of the lengths of predicted runs, in pieces;
        `words_per_run`: the same in words, if the records have `token_boundary`.
    """
    lengths: list[int] = []
    longer: list[int] = []  # pieces of the first segment, minus those of the second
    labels: list[int] = []
    replaced: Counter[str] = Counter()
    runs: Counter[int] = Counter()
    words: Counter[int] = Counter()
    places = 0
    for example in examples:
        first, second = _segment_lengths(example)
        lengths.append(first + second + SPECIAL_COUNT)
        longer.append(first - second)
        labels.append(example["next_sentence_labels"][0])
        if not is_masked(example):
            continue
        places += len(example["input_ids"])
        positions = predicted_positions(example)
        for position, label in zip(positions, example["masked_lm_ids"], strict=False):
            replaced[_fate(example["input_ids"][position], label, mask_id)] += 1
        found = _runs(positions)
        runs.update(map(len, found))
        if begins := example.get("token_boundary"):
            words.update(1 + sum(begins[position] for position in run[1:]) for run in found)
    if not lengths:
        return {"examples": 0}
    counts = Counter(labels)
    result: dict[str, Any] = {
        "examples": len(lengths),
        "labels": {label_name(label): counts[label] for label in sorted(counts)},
        "length": {"mean": float(np.mean(lengths)), "min": min(lengths), "max": max(lengths)},
        "short": float(np.mean(np.array(lengths) <= max(lengths) / 2)),
    }
    if counts.keys() <= {IN_ORDER, SWAPPED}:
        result["told_by_lengths"] = _told_by_lengths(longer, labels)
    if places:
        total = replaced.total()
        result |= {
            "padding": 1 - sum(lengths) / places,
            "predictions": total / len(lengths),
            "predicted": total / sum(lengths),
            "replaced": {
                fate: replaced[fate] / (total or 1) for fate in ("mask", "random", "kept")
            },
            "runs": {length: runs[length] / runs.total() for length in sorted(runs)},
        }
        if words:
            result["words_per_run"] = {
                count: words[count] / words.total() for count in sorted(words)
            }
    return result


def _segment_lengths(example: Example) -> tuple[int, int]:
    """Pieces of each segment, without special ones."""
    if not is_masked(example):
        return len(example["segment_a"]), len(example["segment_b"])
    second = sum(example["segment_ids"]) - 1
    return sum(example["input_mask"]) - second - SPECIAL_COUNT, second


def _told_by_lengths(longer: Sequence[int], labels: Sequence[int]) -> float:
    """Share of labels that the difference of the segments' lengths predicts.

    Predicts each half of the examples by the majority in the other half. Segments that will be
    swapped when they are read (dynamic mode) count in both orders.
    """
    halves: tuple[Counter[tuple[int, int]], ...] = (Counter(), Counter())
    swapped_later = SWAPPED not in labels
    for number, (difference, label) in enumerate(zip(longer, labels, strict=True)):
        halves[number % 2][difference, label] += 1
        if swapped_later:
            halves[number % 2][-difference, SWAPPED] += 1
    right = 0.0
    for rule, judged in (halves, halves[::-1]):
        for (difference, label), count in judged.items():
            vote = rule[difference, SWAPPED] - rule[difference, IN_ORDER]
            right += count * ((vote > 0) == (label == SWAPPED) if vote else 0.5)
    return right / sum(half.total() for half in halves)


def predicted_positions(example: Example) -> list[int]:
    """The predicted positions, without padding."""
    weights = example["masked_lm_weights"]
    pairs = zip(example["masked_lm_positions"], weights, strict=True)
    return [position for position, weight in pairs if weight]


def _fate(piece: int, label: int, mask_id: int) -> str:
    if piece == mask_id:
        return "mask"
    return "kept" if piece == label else "random"


def _runs(positions: Sequence[int]) -> list[np.ndarray]:
    breaks = np.flatnonzero(np.diff(positions) > 1) + 1
    return [run for run in np.split(np.asarray(positions), breaks) if len(run)]


def label_name(label: int) -> str:
    """The name of a label."""
    return {IN_ORDER: "in order", SWAPPED: "swapped"}.get(label, "none")

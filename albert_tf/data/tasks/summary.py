"""What a run understood of its examples, before it trains on them."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from albert_tf.data.readers import skipped_rows
from albert_tf.data.tasks.base import Task
from albert_tf.errors import escaped, listed

_UNBALANCED: Final = 0.9  # share of the largest class from which accuracy alone misleads


def summarize(task: Task[Any, Any], train: Sequence[Any], dev: Sequence[Any]) -> dict[str, Any]:
    """Counts what the examples are, and what is odd about them.

    Returns:
        `rows` of train and dev; `columns`; `labels` of train with their counts, the most frequent
        first; `alike`, lists of labels that differ in case and spaces alone; `skipped` rows;
        `duplicates`, examples of train that came before; `contradictions`, texts of train with
        several labels; `in_both`, examples of dev whose texts are in train.
    """
    labels = Counter(label for example in train for label in task.labels(example))
    spellings = defaultdict(list)
    for name in labels:
        spellings["".join(name.split()).casefold()].append(name)
    known: dict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    duplicates = 0
    for example in train:
        texts, labels_of_it = tuple(task.texts(example)), tuple(task.labels(example))
        duplicates += texts in known and (labels_of_it in known[texts] or not labels_of_it)
        known[texts].add(labels_of_it)
    return {
        "rows": {"train": len(train), "dev": len(dev)},
        "columns": task.columns(),
        "labels": dict(labels.most_common()),
        "alike": [names for names in spellings.values() if len(names) > 1],
        "skipped": sum(map(skipped_rows, {*task.files("train"), *task.files("dev")})),
        "duplicates": duplicates,
        "contradictions": sum(len(several) > 1 for several in known.values()),
        "in_both": sum(tuple(task.texts(example)) in known for example in dev),
    }


def in_lines(summary: Mapping[str, Any]) -> list[str]:
    """Returns a summary for people, one thing a line; nothing of what isn't there.

    Args:
        summary: the result of `summarize`; with `cut`, the rows of train that have more tokens than
            `max_length`, and `baseline`, scores.
    """
    rows, labels, cut = summary["rows"], summary["labels"], summary["cut"]
    lines = [("rows", f"{rows['train']:,} train, {rows['dev']:,} dev")]
    if summary["columns"]:
        named = (f"{name} from {column!r}" for name, column in summary["columns"].items())
        lines.append(("columns", ", ".join(named)))
    if labels:
        counts = listed(f"{name} {count:,}" for name, count in labels.items())
        lines.append(("labels", f"{len(labels)}: {counts}"))
    alike = (" = ".join(map(repr, names)) for names in summary["alike"])
    odd = [
        ("alike", summary["alike"], f"{listed(alike)}: labels that differ in case or spaces"),
        (
            "unbalanced",
            is_unbalanced(labels),
            "give --class-weights balanced; see macro F1, not accuracy",
        ),
        ("skipped", summary["skipped"], f"{summary['skipped']:,} bad rows"),
        (
            "cut",
            cut,
            f"{cut:,} rows ({cut / rows['train']:.0%}) have more than {summary['max_length']} "
            "tokens; --max-length reads more",
        ),
        ("duplicates", summary["duplicates"], f"{summary['duplicates']:,} rows of train"),
        (
            "contradictions",
            summary["contradictions"],
            f"{summary['contradictions']:,} texts of train have several labels",
        ),
        (
            "in both",
            summary["in_both"],
            f"{summary['in_both']:,} rows of dev are in train, which makes scores too high",
        ),
    ]
    lines += [(name, text) for name, is_there, text in odd if is_there]
    if scores := summary.get("baseline"):
        shown = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
        lines.append(("baseline", f"TF-IDF with logistic regression: {shown}"))
    return [escaped(f"{name:<15}{text}") for name, text in lines]


def is_unbalanced(labels: Mapping[str, int]) -> bool:
    """Whether one of several classes has nearly all examples."""
    return len(labels) > 1 and max(labels.values()) > _UNBALANCED * sum(labels.values())


def shares(labels: Mapping[str, int]) -> str:
    """Returns the largest and the smallest class with their shares."""
    total = sum(labels.values())
    ordered = sorted(labels.items(), key=lambda item: -item[1])
    ends = (ordered[0], ordered[-1])
    return ", ".join(f"{escaped(name)} {count / total:.1%}" for name, count in ends)

"""Compares predictions with labels and writes mistakes.md and confusion.png."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from albert_tf.checkpoints.hub import in_cell
from albert_tf.data.tasks.base import Graded, Predicted, Task
from albert_tf.training.plots import plot_confusion

CONFUSION: Final = "confusion.png"
MISTAKES: Final = "mistakes.md"
_MOST_MISTAKES: Final = 50
_QUOTED: Final = 400  # maximum characters per line


def write_mistakes(task: Task[Any, Any], predicted: Predicted[Any, Any], folder: Path) -> None:
    """Writes the worst mistakes and, for classes or tags, a confusion matrix."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFUSION).unlink(missing_ok=True)
    pairs = task.confusions(predicted)
    if len({name for pair in pairs for name in pair}) > 1:
        plot_confusion(pairs, folder / CONFUSION)
    text = mistakes(task.grade(predicted))
    (folder / MISTAKES).write_text(text, encoding="utf-8", newline="\n")


def mistakes(graded: Sequence[Graded]) -> str:
    """Returns the mistakes with the highest confidence or distance, as Markdown.

    Rows with the same text, label, and prediction share a line, which shows their number and the
    highest confidence.
    """
    wrong = [prediction for prediction in graded if not prediction.is_right]
    wrong.sort(key=lambda prediction: -prediction.confidence)
    measure, lines = "confidence", ["# Mistakes", ""]
    lines.append(f"{len(wrong):,} of {len(graded):,} predictions are wrong.")
    if any(prediction.is_number for prediction in graded):
        mean = sum(prediction.confidence for prediction in graded) / max(len(graded), 1)
        measure, lines = "distance", ["# Largest errors", ""]
        lines.append(f"The mean distance of {len(graded):,} predictions is {mean:.3g}.")
    rows: dict[tuple[str, str, str], list[Graded]] = {}
    for each in wrong:
        rows.setdefault((each.text, each.expected, each.predicted), []).append(each)
    if len(rows) > _MOST_MISTAKES:
        lines[-1] += f" The table lists the {_MOST_MISTAKES} with the highest {measure}."
    if wrong:
        lines += [
            "",
            f"| {measure} | rows | expected | predicted | text |",
            "|---|---|---|---|---|",
        ]
    for each, *alike in islice(rows.values(), _MOST_MISTAKES):
        text = "<br>".join(_shorten(line, each) for line in each.text.splitlines())
        cells = f"{1 + len(alike):,}", _shorten(each.expected), _shorten(each.predicted), text
        lines.append(f"| {each.confidence:.3g} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _shorten(text: str, around: Graded | None = None) -> str:
    """Returns text for a table cell; a long text is truncated to its start, or around an answer."""
    answers = (around.expected, around.predicted) if around else ()
    shown = [answer for answer in answers if answer and answer in text]
    start = max(text.find(shown[0]) - _QUOTED // 2, 0) if shown and len(text) > _QUOTED else 0
    cut = text[start : start + _QUOTED]
    end = "…" if start + _QUOTED < len(text) else ""
    return in_cell(f"{'…' if start else ''}{cut}{end}") or "–"

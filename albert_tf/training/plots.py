"""Plots of a run: a confusion matrix and learning curves."""

import contextlib
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

_MOST_CLASSES: Final = 30  # more are illegible
_MOST_NUMBERED: Final = 12  # with more classes, the cells have no room for numbers


def plot_confusion(pairs: Sequence[tuple[str, str]], path: Path) -> None:
    """Writes a confusion matrix as a PNG.

    Each cell shows its share of the expected class's examples and, below it, their number. With
    more than `_MOST_NUMBERED` classes, a cell shows only its color. With more than `_MOST_CLASSES`
    classes, the matrix contains only those with the most errors, so a row may add up to less than
    100%.

    Args:
        pairs: expected and predicted class of each example.
        path: the file to write.
    """
    from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix

    expected, predicted = zip(*pairs, strict=True)
    names = sorted({*expected, *predicted})
    if len(names) > _MOST_CLASSES:
        missed = Counter(name for name, other in pairs if name != other)
        names = sorted(set(expected), key=lambda name: -missed[name])[:_MOST_CLASSES]
    is_numbered = len(names) <= _MOST_NUMBERED
    side = 2.5 + (0.6 if is_numbered else 0.28) * len(names)
    counts = confusion_matrix(expected, predicted, labels=names)
    rows = Counter(expected)  # also counts predictions of classes that aren't shown
    shares = counts / np.array([[max(rows[name], 1)] for name in names])
    labels = [name.replace("$", r"\$") for name in names]
    with _figure(path, side + 0.6, side) as figure:
        display = ConfusionMatrixDisplay(shares, display_labels=labels).plot(
            include_values=is_numbered,
            values_format=".0%",
            xticks_rotation="vertical",
            cmap="Blues",
            ax=figure.subplots(),
        )
        if is_numbered:
            for cell, count in zip(display.text_.flat, counts.flat, strict=True):
                cell.set_text(f"{cell.get_text()}\n{count:,}")


def plot_curves(
    history: Sequence[Mapping[str, float]],
    evaluation: Sequence[Mapping[str, float]],
    names: Sequence[str],
    path: Path,
    best: int | None = None,
) -> None:
    """Writes curves of metrics over steps as a PNG.

    Args:
        history, evaluation: training and evaluation points, each with its `step`.
        names: metrics to show; metrics that no point contains are skipped.
        path: the file to write.
        best: step of the best version, which is marked by a line.
    """
    there = {name for point in (*history, *evaluation) for name in point}
    shown = [name for name in names if name in there]
    with _figure(path, 4.5 * len(shown), 3.5) as figure:
        for axes, name in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
            for points, label, colour in (
                (history, "training", "tab:blue"),
                (evaluation, "evaluation", "tab:orange"),
            ):
                line = [(point["step"], point[name]) for point in points if name in point]
                if line:
                    axes.plot(*zip(*line, strict=True), ".-", color=colour, label=label)
            if best is not None:
                axes.axvline(best, color="tab:gray", ls=":", label="best version")
            axes.set_title(name.replace("_", " "), parse_math=False)
            axes.set_xlabel("step")
            axes.legend()


@contextlib.contextmanager
def _figure(path: Path, width: float, height: float) -> Iterator[Any]:
    """Yields an empty figure of this size in inches, then writes it as a reproducible PNG."""
    from matplotlib.figure import Figure  # pyplot would look for a display and keep the figure

    figure = Figure(figsize=(width, height), layout="constrained")
    yield figure
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # missing glyphs become boxes
        figure.savefig(path, format="png", dpi=150)

"""Pictures of a run: curves, a confusion matrix, scores by threshold, numbers beside labels."""

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from albert_tf.data.tasks.base import ByThreshold, GradedPrediction
from albert_tf.files import written_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES: Final = "curves.png"
Points = Sequence[Mapping[str, float]]
BLUE, ORANGE, GREY = "#4c72b0", "#dd8452", "#8c8c8c"
_MOST_CLASSES: Final = 30  # of a confusion matrix that can be read
_MOST_NUMBERED: Final = 12  # classes of a matrix whose cells have room for counts
_MOST_LINES: Final = 10  # whose colours differ
_LONGEST: Final = 24  # characters of a name beside an axis


def new_figure(width: float, height: float) -> "Figure":
    """Returns an empty figure; width and height are in inches."""
    from matplotlib.figure import Figure  # not pyplot, which asks for a display and keeps figures

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: "Figure", path: Path) -> None:
    """Writes a PNG atomically; the same figure gives the same bytes."""
    with warnings.catch_warnings(), written_atomically(path, force=True) as file:
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # drawn as boxes
        figure.savefig(file, format="png", dpi=150)


def tidy(axes: Any) -> None:
    """Draws a light grid, and no frame above and at the right."""
    axes.grid(color="#e6e6e6", lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def plot_confusion(names: Sequence[str], pairs: Sequence[tuple[str, str]], path: Path) -> None:
    """Writes a confusion matrix of pairs of an expected and a predicted class.

    Shades show shares of a row. Of more than `_MOST_CLASSES` classes, those in most mistakes are
    shown.
    """
    shown, others = _most_confused(names, pairs), ""
    if len(shown) < len(names):
        others = f"the {len(shown)} classes of {len(names)} in most mistakes"
    positions = {name: position for position, name in enumerate(shown)}
    counts = np.zeros((len(shown), len(shown)), int)
    for (expected, predicted), count in Counter(pairs).items():
        if expected in positions and predicted in positions:
            counts[positions[expected], positions[predicted]] = count
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    is_numbered = len(shown) <= _MOST_NUMBERED
    side = 2.5 + (0.6 if is_numbered else 0.28) * len(shown)
    figure = new_figure(side + 0.6, side)
    axes = figure.subplots()
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    figure.colorbar(image, ax=axes, shrink=0.8, format="{x:.0%}", label="share of the row")
    if is_numbered:
        for (row, column), count in np.ndenumerate(counts):
            colour = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, f"{count:,}", ha="center", va="center", color=colour)
    labels = [_short(name) for name in shown]
    upright = max(map(len, labels)) > 3 + 18 // len(shown)
    plain = {"parse_math": False}
    axes.set_xticks(range(len(shown)), labels, rotation=90 if upright else 0, **plain)
    axes.set_yticks(range(len(shown)), labels, **plain)
    axes.set_xlabel("predicted")
    axes.set_ylabel("expected")
    axes.set_title(others, fontsize="medium")
    save(figure, path)


def plot_by_threshold(lines: Sequence[ByThreshold], path: Path) -> None:
    """Writes each score over its threshold; dots are the chosen thresholds."""
    figure = new_figure(6.5, 4)
    axes = figure.subplots()
    if len(lines) > _MOST_LINES:
        axes.set_title(f"the first {_MOST_LINES} of {len(lines)}", fontsize="medium")
    for line in lines[:_MOST_LINES]:
        (drawn,) = axes.plot(line.thresholds, line.scores, lw=1.5)
        drawn.set_label(_short(line.score))
        score = np.interp(line.chosen, line.thresholds, line.scores)
        axes.plot([line.chosen], [score], "o", color=drawn.get_color())
    axes.set_xlabel("threshold (the dot: chosen)")
    axes.set_ylabel("score")
    axes.set_ylim(-0.02, 1.02)
    legend = figure.legend(loc="outside lower center", ncols=3, frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)
    tidy(axes)
    save(figure, path)


def plot_numbers(graded: Sequence[GradedPrediction], path: Path) -> None:
    """Writes predicted numbers over expected ones; on the dotted line they are equal."""
    expected, predicted = (
        [float(prediction[column]) for prediction in graded] for column in (1, 2)
    )
    low, high = min(*expected, *predicted), max(*expected, *predicted)
    figure = new_figure(5, 5)
    axes = figure.subplots()
    axes.plot([low, high], [low, high], color=GREY, lw=1, ls=":", zorder=0)
    axes.scatter(expected, predicted, s=14, alpha=0.5, color=BLUE, linewidths=0)
    axes.set_aspect("equal")
    axes.set_xlabel("expected")
    axes.set_ylabel("predicted")
    tidy(axes)
    save(figure, path)


def _most_confused(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[str]:
    if len(names) <= _MOST_CLASSES:
        return list(names)
    count = Counter(name for pair in pairs if pair[0] != pair[1] for name in pair)
    worst = sorted(names, key=lambda name: -count[name])[:_MOST_CLASSES]
    return [name for name in names if name in worst]


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


class Panel(NamedTuple):
    """A measure over steps: its key in the points, and the words above and beside it."""

    key: str
    unit: str
    title: str = ""
    scale: float = 1.0
    chance: float | None = None


PRETRAINING: Final = (
    Panel("masked_lm_loss", "loss (nats per masked token)", "masked LM"),
    Panel("sentence_order_loss", "loss (nats per pair)", "sentence order", chance=math.log(2)),
    Panel("masked_lm_accuracy", "accuracy (% of masked tokens)", scale=100),
    Panel("sentence_order_accuracy", "accuracy (% of pairs)", scale=100, chance=50.0),
)


def plot_pretraining(history: Points, evaluation: Points, path: Path) -> None:
    """Writes a PNG: for each task its loss and its accuracy over steps, in training and held out.

    Args:
        history: points of training; each has `step` and `sums.pretraining_means`.
        evaluation: the same of held-out examples; may be empty.
    Raises:
        ValueError: there is nothing to show.
    """
    names = {name for values in [*history, *evaluation] for name in values}
    panels = [panel for panel in PRETRAINING if panel.key in names]
    if not panels:
        raise ValueError("There must be a step to show. Received: none.")
    _plot([panels[: len(panels) // 2], panels[len(panels) // 2 :]], history, evaluation, path)


def plot_finetuning(
    history: Points, evaluation: Points, scores: Sequence[str], best: int, path: Path
) -> None:
    """Writes a PNG: the loss in training and the scores on dev over steps.

    Args:
        history: points of training; each has `step` and `sums.finetuning_means`.
        evaluation: points of dev; each has `step` and the task's scores.
        scores: those to show.
        best: step of the best version, which a line marks.
    """
    panels = [Panel("loss", "loss"), *(Panel(name, name) for name in scores)]
    _plot([panels], history, evaluation, path, held_out="dev", mark=best)


def _plot(
    grid: Sequence[Sequence[Panel]],
    history: Points,
    evaluation: Points,
    path: Path,
    held_out: str = "held out",
    mark: int | None = None,
) -> None:
    figure = new_figure(4.5 * len(grid[0]) + 1, 3.25 * len(grid))
    axes = figure.subplots(len(grid), len(grid[0]), sharex=True, squeeze=False)
    for row, panels in enumerate(grid):
        for column, panel in enumerate(panels):
            _draw(axes[row, column], panel, ((history, "training"), (evaluation, held_out)), mark)
            if row == len(grid) - 1:
                axes[row, column].set_xlabel("step")
    entries: dict[str, Any] = {}
    for panel in axes.flat:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if mark is not None:
        entries["best version"] = entries.pop("best version")  # the last one
    figure.legend(
        entries.values(), entries, loc="outside lower center", ncols=len(entries), frameon=False
    )
    save(figure, path)


def _draw(axes: Any, panel: Panel, series: Sequence[tuple[Points, str]], mark: int | None) -> None:
    lone = {"marker": "o", "markersize": 4}  # a line of one point can't be seen
    for (rows, label), colour in zip(series, (BLUE, ORANGE), strict=True):
        points = [(row["step"], panel.scale * row[panel.key]) for row in rows if panel.key in row]
        style = {} if label == "training" and len(rows) > 1 and mark is None else lone
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, label=label, lw=1.5, **style)
    if panel.chance is not None:
        axes.axhline(panel.chance, color=GREY, lw=1, ls=":", zorder=0)
        axes.annotate(
            "chance",
            (0.99, panel.chance),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            color=GREY,
            fontsize="small",
        )
    if mark is not None:
        axes.axvline(mark, color=GREY, lw=1, ls=":", zorder=0, label="best version")
    axes.set_title(panel.title)
    axes.set_ylabel(panel.unit)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=6)
    tidy(axes)

"""Losses and scores over a run, as a picture."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from albert_tf.training.charts import BLUE, GREY, ORANGE, new_figure, save, tidy

CURVES: Final = "curves.png"
Points = Sequence[Mapping[str, float]]


class Panel(NamedTuple):
    """A measure over steps: its key in the points, and the words above and beside it."""

    key: str
    unit: str
    title: str = ""
    scale: float = 1.0
    chance: float | None = None


PRETRAINING: Final = (
    Panel("masked_lm_loss", "loss (nats per masked piece)", "masked LM"),
    Panel("sentence_order_loss", "loss (nats per pair)", "sentence order", chance=math.log(2)),
    Panel("masked_lm_accuracy", "accuracy (% of masked pieces)", scale=100),
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

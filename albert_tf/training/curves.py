"""Losses and accuracies over a pretraining run, as a picture."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from albert_tf.files import written_atomically

TRAINING, HELD_OUT, GUIDE = "#4c72b0", "#dd8452", "#8c8c8c"
CHANCE: Final = {"sentence_order_loss": math.log(2), "sentence_order_accuracy": 50.0}
TITLES: Final = {"masked_lm": "masked LM", "sentence_order": "sentence order"}
UNITS: Final = {
    "masked_lm_loss": "loss (nats per masked piece)",
    "sentence_order_loss": "loss (nats per pair)",
    "masked_lm_accuracy": "accuracy (% of masked pieces)",
    "sentence_order_accuracy": "accuracy (% of pairs)",
}


def plot(
    history: Sequence[Mapping[str, float]],
    evaluation: Sequence[Mapping[str, float]],
    path: Path,
) -> None:
    """Writes a PNG: for each task its loss and its accuracy over steps, in training and held out.

    Args:
        history: points of training; each has `step` and `sums.pretraining_means`.
        evaluation: the same of held-out examples; may be empty.
    Raises:
        ValueError: there is nothing to show.
    """
    from matplotlib.figure import Figure  # not pyplot, which asks for a display and keeps figures

    rows = [*history, *evaluation]
    names = {name for values in rows for name in values}
    tasks = [task for task in TITLES if f"{task}_loss" in names]
    if not tasks:
        raise ValueError("There must be a step to show. Received: none.")
    figure = Figure(figsize=(5.5 * len(tasks), 6.5), layout="constrained")
    panels = figure.subplots(2, len(tasks), sharex=True, squeeze=False)
    for column, task in enumerate(tasks):
        panels[0, column].set_title(TITLES[task])
        panels[1, column].set_xlabel("step")
        for row, measure in enumerate(("loss", "accuracy")):
            _draw(panels[row, column], f"{task}_{measure}", history, evaluation)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    with written_atomically(path, force=True) as file:
        figure.savefig(file, format="png", dpi=150)


def _draw(panel: Any, name: str, history: Sequence[Any], evaluation: Sequence[Any]) -> None:
    scale = 100 if name.endswith("accuracy") else 1
    lone = {"marker": "o", "markersize": 4}  # a line of one point can't be seen
    for rows, label, colour, style in (
        (history, "training", TRAINING, lone if len(history) == 1 else {}),
        (evaluation, "held out", HELD_OUT, lone),
    ):
        points = [(row["step"], scale * row[name]) for row in rows if name in row]
        if points:
            panel.plot(*zip(*points, strict=True), color=colour, label=label, lw=1.5, **style)
    if name in CHANCE:
        panel.axhline(CHANCE[name], color=GUIDE, lw=1, ls=":", zorder=0)
        panel.annotate(
            "chance",
            (0.99, CHANCE[name]),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            color=GUIDE,
            fontsize="small",
        )
    panel.set_ylabel(UNITS[name])
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.xaxis.get_major_locator().set_params(integer=True, nbins=6)
    panel.grid(color="#e6e6e6", lw=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)

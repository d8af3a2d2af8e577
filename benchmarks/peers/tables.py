"""Shows the medians of the comparison as tables and as a picture."""

from collections.abc import Callable
from typing import NamedTuple

from benchmarks import harness, products

OURS, INT8 = "albert_tf", "int8"
# Largest differences from ours that are accepted: of a logit and of a probability, relative to the
# range of ours over all inputs; and of the first loss and of the one after a step.
OUTPUT, LOSSES = 0.01, (1e-4, 1e-2)
SAME = 0.9  # smallest share of texts with the same answers that is accepted


class Context(NamedTuple):
    """The configuration, the range of logits, a large product's FLOP/s, shapes, MB of files."""

    config: dict
    spread: float
    peak: float
    shapes: list
    files: dict


def memory(figures):
    return f"{figures['MB']:.0f} ({figures['added']:.0f})"


def inference(name, shapes, ours, context):
    worst = max(figures["difference"] for figures in shapes) / context.spread
    times = []
    for shape, figures in zip(context.shapes, shapes, strict=True):
        rate = 1000 * products.flop(context.config, *shape) / figures["ms"]
        times.append(f"{figures['ms']:.4g} ({rate / context.peak:.0%})")
    if worst > OUTPUT and not name.endswith(INT8):
        times = ["wrong"] * len(times)
    return [*times, memory(shapes[-1]), f"{context.files[name]:.1f}", f"{worst:.0e}"]


def products_alone(name, times, ours, context):
    return [f"{taken:.4g}" for taken in times]


def answers(name, figures, ours, context):
    spread = max(ours["answers"]) - min(ours["answers"])
    return rate_of_same(figures, ours, [OUTPUT * spread] * len(ours["answers"]))


def questions(name, figures, ours, context):
    return rate_of_same(figures, ours, [OUTPUT * score for score in ours["answers"]])


def rate_of_same(figures, ours, tolerances):
    """Returns a line's cells. A few answers may differ, because tokenizers differ on some texts."""
    compared = zip(figures["answers"], ours["answers"], tolerances, strict=True)
    same = [abs(theirs - expected) <= tolerance for theirs, expected, tolerance in compared]
    share = sum(same) / len(same)
    if share < SAME:
        return [f"wrong: {1 - share:.0%} of the answers differ"]
    return [f"{figures['rate']:.1f}", memory(figures), f"{share:.0%}"]


def tokenizing(name, figures, ours, context):
    same = [ids == expected for ids, expected in zip(figures["ids"], ours["ids"], strict=True)]
    return [f"{figures['rate']:.1f}", f"{sum(same) / len(same):.0%}"]


def training(name, figures, ours, context):
    losses, expected = figures["losses"], ours["losses"]
    for loss, other, tolerance in zip(losses, expected, LOSSES, strict=True):
        if abs(loss - other) > tolerance:
            return [f"wrong: losses {losses}, not {expected}"]
    return [f"{figures['ms']:.0f}", memory(figures), f"{losses[0]:.4f}"]


class Table(NamedTuple):
    """A table: title, headers, the function for a line's cells, and whether shapes are columns."""

    title: str
    heads: list[str]
    cells: Callable
    by_shape: bool = False


PEAK = "MB (above imports)"
TABLES = {
    "inference": Table(
        "Inference of {size}, rows × tokens",
        ["ms (share of the product's rate)", PEAK, "MB of files", "difference"],
        inference,
        by_shape=True,
    ),
    "products": Table(
        "Its matrix products", ["ms of the products alone"], products_alone, by_shape=True
    ),
    "answers": Table(
        "From texts to labels, in batches of 32", ["", "texts/s", PEAK, "our answers"], answers
    ),
    "questions": Table(
        "{questions} questions to answers, in batches of 32 windows",
        ["", "questions/s", PEAK, "our answers"],
        questions,
    ),
    "tokenizing": Table("Tokenizing", ["", "MB/s of a core", "our ids"], tokenizing),
    "training": Table(
        "A fine-tuning step, {step[0]} rows of {step[1]} tokens",
        ["", "ms a step", PEAK, "first loss"],
        training,
    ),
}


def medians_by_table(rounds):
    """Returns the medians, or the reason (a str) why there are none, keyed by table and name."""
    result = {}
    for (table, name), results in rounds.items():
        is_reason = isinstance(results, str)
        result.setdefault(table, {})[name] = results if is_reason else harness.medians(results)
    return result


def markdown(medians, prepared, options):
    """Returns the rate of a large matmul, and the tables with their titles."""
    peak = max(rate for rate in medians["product"].values() if not isinstance(rate, str))
    model = (prepared["config"], prepared["spread"])
    context = Context(*model, peak, options.shapes, prepared["MB"])
    parts = [f"A product of two large matrices: {peak / 1e9:.0f} GFLOP/s.\n"]
    for table in options.only:
        title, heads, cells, by_shape = TABLES[table]
        if by_shape:
            heads = [heads[0], *(f"{count} × {size}" for count, size in options.shapes), *heads[1:]]
        lines, ours = [], medians[table].get(OURS)
        for name, figures in medians[table].items():
            reasons = [each for each in (figures, ours) if isinstance(each, str)]
            lines.append([name, *(reasons[:1] or cells(name, figures, ours, context))])
        title = title.format(**vars(options) | {"questions": prepared["questions"]})
        parts += [f"## {title}\n", harness.table(heads, lines)]
    return parts


def picture(medians, options, path):
    """Draws the milliseconds of each case, with one panel per shape."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawn = {name: each for name, each in medians.items() if not isinstance(each, str)}
    columns = min(3, len(options.shapes))
    lines = -(-len(options.shapes) // columns)
    size = (2 + 3.5 * columns, (0.6 + 0.25 * len(drawn)) * lines + 0.6)
    figure, axes = plt.subplots(
        lines, columns, figsize=size, squeeze=False, sharey=True, layout="constrained"
    )
    for number, ((count, length), panel) in enumerate(zip(options.shapes, axes.flat, strict=False)):
        times = [each[number]["ms"] for each in drawn.values()]
        colors = ["C0" if name.startswith(OURS) else "0.7" for name in drawn]
        panel.bar_label(panel.barh(list(drawn), times, color=colors), fmt="%.4g", padding=2)
        panel.set(title=f"{count} × {length}", xlim=(0, 1.2 * max(times)), xticks=[])
        panel.spines[["top", "right", "bottom"]].set_visible(False)
    axes[0, 0].invert_yaxis()  # the y-axis of all panels, which share it
    for panel in axes.flat[len(options.shapes) :]:
        panel.set_axis_off()
    figure.suptitle(f"{options.size}, rows × tokens: milliseconds, less is better")
    figure.savefig(path, dpi=120)

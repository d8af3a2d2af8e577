"""The medians of `peers.py`, as tables and as a picture."""

import statistics

from pretraining_step import products

OURS, INT8 = "albert_tf", "int8"
# Largest differences from ours that aren't wrong: of a logit and of a probability, relative to the
# range of ours over all inputs; of the first loss and of the one after a step.
OUTPUT, LOSSES = 0.01, (1e-4, 1e-2)
SAME = 0.9  # of the texts, whose answers are the same


def median(rounds, field):
    return statistics.median(each[field] for each in rounds)


def summary(results, config, options):
    """Returns the figures of each kind and name, or the reason (a str) why there are none."""
    peaks = [each for rounds in results["product"].values() for each in rounds]
    peak = max(each for each in peaks if not isinstance(each, str))
    reduced = {
        "inference": lambda rounds: inference(rounds, config, peak, options.shapes),
        "products": lambda rounds: products_alone(rounds, options.shapes),
        "answers": lambda rounds: answers(rounds, results["answers"][OURS]),
        "questions": lambda rounds: questions(rounds, results["questions"][OURS]),
        "tokenizing": lambda rounds: tokenizing(rounds, results["tokenizing"][OURS]),
        "training": lambda rounds: training(rounds, results["training"][OURS]),
    }
    found = {"product": peak}
    for kind in options.only:
        found[kind] = {}
        for name, rounds in results[kind].items():
            compared = (*rounds, *results[kind].get(OURS, ()))  # ours has what others must find
            failed = [each for each in compared if isinstance(each, str)]
            found[kind][name] = failed[0] if failed else reduced[kind](rounds)
    return found


def inference(rounds, config, peak, shapes):
    """Returns the figures of each shape by its name, such as "8x128"."""
    found = {}
    for place, (batch, length) in enumerate(shapes):
        here = [each[place] for each in rounds]
        taken = median(here, "milliseconds")
        flops = products(config, batch, length, 0) / 3  # the forward pass alone
        found[f"{batch}x{length}"] = {
            "milliseconds": taken,
            "share": 1000 * flops / taken / peak,
            "difference": max(each["difference"] for each in here),
            "peak": median(here, "peak"),
            "added": median(here, "added"),
        }
    return found


def products_alone(rounds, shapes):
    """Returns the milliseconds of each shape by its name."""
    times = map(statistics.median, zip(*rounds, strict=True))
    return {f"{batch}x{length}": each for (batch, length), each in zip(shapes, times, strict=True)}


def answers(rounds, ours):
    expected = ours[0]["positive"]
    tolerance = OUTPUT * (max(expected) - min(expected))
    pairs = zip(rounds[0]["positive"], expected, strict=True)
    return rates(rounds, [abs(one - other) <= tolerance for one, other in pairs])


def questions(rounds, ours):
    pairs = zip(rounds[0]["answers"], ours[0]["answers"], strict=True)
    return rates(rounds, [abs(one - other) <= OUTPUT * other for one, other in pairs])


def rates(rounds, are_same):
    """Tokenizers differ on some texts, so a few answers may, too."""
    same = sum(are_same) / len(are_same)
    if same < SAME:
        return f"wrong: {1 - same:.0%} of the answers differ"
    return {**{field: median(rounds, field) for field in ("rate", "peak", "added")}, "same": same}


def tokenizing(rounds, ours):
    pairs = list(zip(rounds[0]["ids"], ours[0]["ids"], strict=True))
    same = sum(one == other for one, other in pairs) / len(pairs)
    return {"rate": median(rounds, "rate"), "same": same}


def training(rounds, ours):
    losses, expected = rounds[0]["losses"], ours[0]["losses"]
    for one, other, tolerance in zip(losses, expected, LOSSES, strict=True):
        if abs(one - other) > tolerance:
            return f"wrong: losses {losses}, not {expected}"
    return {
        **{field: median(rounds, field) for field in ("milliseconds", "peak", "added")},
        "losses": losses,
    }


def table(heads, rows):
    """Returns Markdown with aligned columns; all but the first are numbers."""
    lines = [heads, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(heads))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    aligned = [
        [line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]
        for line in (heads, rule, *rows)
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in aligned) + "\n"


def row(name, found, count, cells):
    """Returns a line of a table: cells of the figures, or the reason why there are none."""
    return [name, found, *[""] * (count - 1)] if isinstance(found, str) else [name, *cells(found)]


def cells_of_inference(name):
    def cells(found):
        worst, last = max(each["difference"] for each in found.values()), [*found.values()][-1]
        times = [f"{each['milliseconds']:.4g} ({each['share']:.0%})" for each in found.values()]
        if worst > OUTPUT and not name.endswith(INT8):
            times = ["wrong"] * len(times)
        return [*times, f"{last['peak']:.0f} ({last['added']:.0f})", f"{worst:.0e}"]

    return cells


def inference_table(found, shapes):
    heads = ["ms (share of the product's rate)", *shapes, "MB (above imports)", "difference"]
    rows = [
        row(name, each, len(heads) - 1, cells_of_inference(name)) for name, each in found.items()
    ]
    return table(heads, rows)


def products_table(found, shapes):
    def cells(each):
        return [f"{taken:.4g}" for taken in each.values()]

    heads = ["ms of the products alone", *shapes]
    return table(heads, [row(name, each, len(shapes), cells) for name, each in found.items()])


def answers_table(found, unit):
    def cells(each):
        memory = f"{each['peak']:.0f} ({each['added']:.0f})"
        return [f"{each['rate']:.1f}", memory, f"{each['same']:.0%}"]

    heads = ["", f"{unit}/s", "MB (above imports)", "our answers"]
    return table(heads, [row(name, each, 3, cells) for name, each in found.items()])


def tokenizing_table(found):
    def cells(each):
        return [f"{each['rate']:.1f}", f"{each['same']:.0%}"]

    heads = ["", "MB/s of a core", "our ids"]
    return table(heads, [row(name, each, 2, cells) for name, each in found.items()])


def training_table(found):
    def cells(each):
        taken = f"{each['milliseconds']:.0f}"
        return [taken, f"{each['peak']:.0f} ({each['added']:.0f})", f"{each['losses'][0]:.4f}"]

    heads = ["", "ms a step", "MB (above imports)", "first loss"]
    return table(heads, [row(name, each, 3, cells) for name, each in found.items()])


def markdown(report):
    """Returns versions, hardware and a table for each kind."""
    options, medians = report["options"], report["medians"]
    shapes = [f"{batch} × {length}" for batch, length in options["shapes"]]
    parts = [
        f"{report['versions']}  \n{report['processor']}; {options['threads']} threads, "
        f"{options['rounds']} rounds. A product of two large matrices: "
        f"{medians['product'] / 1e9:.0f} GFLOP/s.\n"
    ]
    if "inference" in medians:
        parts.append(f"## Inference of {options['size']}, rows × pieces\n")
        parts.append(inference_table(medians["inference"], shapes))
    if "products" in medians:
        parts.append("## Its matrix products\n")
        parts.append(products_table(medians["products"], shapes))
    if "answers" in medians:
        parts.append(f"## From {report['texts']} texts to labels, in batches of 32\n")
        parts.append(answers_table(medians["answers"], "texts"))
    if "questions" in medians:
        parts.append(f"## {report['questions']} questions to answers, in batches of 32 windows\n")
        parts.append(answers_table(medians["questions"], "questions"))
    if "tokenizing" in medians:
        parts.append("## Tokenizing\n")
        parts.append(tokenizing_table(medians["tokenizing"]))
    if "training" in medians:
        parts.append("## A fine-tuning step, {} rows of {} pieces\n".format(*options["step"]))
        parts.append(training_table(medians["training"]))
    return "\n".join(parts)


def picture(report, path):
    """Draws the milliseconds of each case, one panel a shape."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = {
        name: each
        for name, each in report["medians"]["inference"].items()
        if not isinstance(each, str)
    }
    shapes = report["options"]["shapes"]
    columns = min(3, len(shapes))
    lines = -(-len(shapes) // columns)
    size = (2 + 3.5 * columns, (0.6 + 0.25 * len(found)) * lines + 0.6)
    figure, axes = plt.subplots(
        lines, columns, figsize=size, squeeze=False, sharey=True, layout="constrained"
    )
    for (batch, length), panel in zip(shapes, axes.flat, strict=False):
        times = [each[f"{batch}x{length}"]["milliseconds"] for each in found.values()]
        colors = ["C0" if name.startswith(OURS) else "0.7" for name in found]
        panel.bar_label(panel.barh(list(found), times, color=colors), fmt="%.4g", padding=2)
        panel.set(title=f"{batch} × {length}", xlim=(0, 1.2 * max(times)), xticks=[])
        panel.spines[["top", "right", "bottom"]].set_visible(False)
    axes[0, 0].invert_yaxis()  # of all panels, which share it
    for panel in axes.flat[len(shapes) :]:
        panel.set_axis_off()
    figure.suptitle(f"{report['options']['size']}, rows × pieces: milliseconds, less is better")
    figure.savefig(path, dpi=120)

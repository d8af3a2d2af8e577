"""The medians of the comparison, as tables and as a picture."""

from benchmarks import harness, products

OURS, INT8 = "albert_tf", "int8"
# Largest differences from ours that aren't wrong: of a logit and of a probability, relative to the
# range of ours over all inputs; of the first loss and of the one after a step.
OUTPUT, LOSSES = 0.01, (1e-4, 1e-2)
SAME = 0.9  # of the texts, whose answers are the same
SHAPES = {"inference", "products"}  # kinds with a column for each shape
HEADS = {
    "inference": ["ms (share of the product's rate)", "MB (above imports)", "difference"],
    "products": ["ms of the products alone"],
    "answers": ["", "texts/s", "MB (above imports)", "our answers"],
    "questions": ["", "questions/s", "MB (above imports)", "our answers"],
    "tokenizing": ["", "MB/s of a core", "our ids"],
    "training": ["", "ms a step", "MB (above imports)", "first loss"],
}
TITLES = {
    "inference": "Inference of {size}, rows × tokens",
    "products": "Its matrix products",
    "answers": "From texts to labels, in batches of 32",
    "questions": "{questions} questions to answers, in batches of 32 windows",
    "tokenizing": "Tokenizing",
    "training": "A fine-tuning step, {step[0]} rows of {step[1]} tokens",
}


def medians_by_kind(rounds):
    """Returns the medians, or the reason (a str) why there are none, by kind and name."""
    result = {}
    for (kind, name), results in rounds.items():
        is_reason = isinstance(results, str)
        result.setdefault(kind, {})[name] = results if is_reason else harness.medians(results)
    return result


def markdown(medians, prepared, options):
    """Returns a table for each kind."""
    peak = max(each for each in medians["product"].values() if not isinstance(each, str))
    parts = [f"A product of two large matrices: {peak / 1e9:.0f} GFLOP/s.\n"]
    cells = {
        "inference": lambda name, found, _: inference(name, found, prepared, options.shapes, peak),
        "products": lambda _, found, __: [f"{taken:.4g}" for taken in found],
        "answers": lambda _, found, ours: answers(found, ours, lambda _: OUTPUT * spread(ours)),
        "questions": lambda _, found, ours: answers(found, ours, lambda other: OUTPUT * other),
        "tokenizing": lambda _, found, ours: tokenizing(found, ours),
        "training": lambda _, found, ours: training(found, ours),
    }
    for kind in options.only:
        heads, rows, ours = HEADS[kind], [], medians[kind].get(OURS)
        if kind in SHAPES:
            heads = [heads[0], *(f"{count} × {size}" for count, size in options.shapes), *heads[1:]]
        for name, found in medians[kind].items():
            failed = next((each for each in (found, ours) if isinstance(each, str)), None)
            rows.append([name, *([failed] if failed else cells[kind](name, found, ours))])
        title = TITLES[kind].format(**vars(options) | {"questions": prepared["questions"]})
        parts += [f"## {title}\n", harness.table(heads, rows)]
    return parts


def memory(found):
    return f"{found['MB']:.0f} ({found['added']:.0f})"


def inference(name, found, prepared, shapes, peak):
    worst = max(each["difference"] for each in found) / prepared["spread"]
    if worst > OUTPUT and not name.endswith(INT8):
        times = ["wrong"] * len(found)
    else:
        rates = [
            1000 * products.flop(prepared["config"], *shape) / each["ms"] / peak
            for shape, each in zip(shapes, found, strict=True)
        ]
        times = [f"{each['ms']:.4g} ({rate:.0%})" for each, rate in zip(found, rates, strict=True)]
    return [*times, memory(found[-1]), f"{worst:.0e}"]


def spread(ours):
    return max(ours["answers"]) - min(ours["answers"])


def answers(found, ours, tolerance):
    """Tokenizers differ on some texts, so a few answers may, too."""
    pairs = list(zip(found["answers"], ours["answers"], strict=True))
    same = sum(abs(one - other) <= tolerance(other) for one, other in pairs) / len(pairs)
    if same < SAME:
        return [f"wrong: {1 - same:.0%} of the answers differ"]
    return [f"{found['rate']:.1f}", memory(found), f"{same:.0%}"]


def tokenizing(found, ours):
    pairs = list(zip(found["ids"], ours["ids"], strict=True))
    same = sum(one == other for one, other in pairs) / len(pairs)
    return [f"{found['rate']:.1f}", f"{same:.0%}"]


def training(found, ours):
    for one, other, tolerance in zip(found["losses"], ours["losses"], LOSSES, strict=True):
        if abs(one - other) > tolerance:
            return [f"wrong: losses {found['losses']}, not {ours['losses']}"]
    return [f"{found['ms']:.0f}", memory(found), f"{found['losses'][0]:.4f}"]


def picture(medians, options, path):
    """Draws the milliseconds of each case, one panel a shape."""
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
    axes[0, 0].invert_yaxis()  # of all panels, which share it
    for panel in axes.flat[len(options.shapes) :]:
        panel.set_axis_off()
    figure.suptitle(f"{options.size}, rows × tokens: milliseconds, less is better")
    figure.savefig(path, dpi=120)

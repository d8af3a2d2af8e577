"""Draws the documentation's pictures as SVG, in the text color of the page, light or dark.

The site build draws a chart from each table that follows a comment such as
`<!-- chart {form: bars, columns: ["1 × 16", "8 × 128"], title: milliseconds} -->`. Run as a program
(`make pictures`), this file draws the pictures committed in docs/pictures: graphs, and the
comparison with other libraries.
"""

import html
import io
import re
import subprocess
from pathlib import Path

import matplotlib.style
from matplotlib.figure import Figure

STYLE = Path(__file__).with_name("matplotlibrc")
PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
GRAPHVIZ = "@viz-js/viz@3.31.0"
# GitHub's text colors.
SCHEMES = (
    ":root { color: #1f2328 } @media (prefers-color-scheme: dark) { :root { color: #e6edf3 } }"
)
INK = "#010203"  # color of text and lines, in matplotlibrc and in the drawings' sources
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
PEERS_TABLE = (PICTURES.parents[1] / "benchmarks" / "RESULTS.md", "Comparison with other libraries")
PEERS_CHART = {
    "form": "bars",
    "columns": ["1 × 128", "MB (above imports)", "MB of files"],
    "labels": ["a text of 128 tokens, ms", "memory of the process, MB", "files, MB"],
    "rows": ["albert_tf, SavedModel", "albert_tf, LiteRT", "KerasHub", "transformers, compiled"],
    "title": "ALBERT base: less is better",
}
PEERS = ("transformers", "KerasHub")  # prefixes of the rows drawn in the other color
OURS, THEIRS = "#0f8f83", "#8a8a8a"
NUMBER = re.compile(r"\d[\d,]*\.?\d*|\.\d+")
WIDTH, LINE = 8.5, 0.24  # inches


def inline_svg(svg, label):
    """Returns the SVG as a figure for a Markdown page, drawn in the text color."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"(?s)<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg)
    used = set(re.findall(r"#(\w+)[\")]", svg))
    svg = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", svg)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "inherit", svg).replace(INK, "currentColor")
    narrowest = 0.55 * float(re.search(r'width="([\d.]+)pt"', svg)[1])
    attributes = (
        f'role="img" aria-label="{html.escape(label)}" style="min-width: {narrowest:.0f}pt"'
    )
    svg = svg.replace("<svg", f"<svg {attributes}", 1)
    return f'<figure class="picture" data-search-exclude>{" ".join(svg.split())}</figure>'


def first_table(path, heading):
    """Returns the first table below a heading."""
    return TABLE.search(path.read_text(encoding="utf-8").split(f"# {heading}\n", 1)[1])[0]


def chart(table, form, columns, title, rows=None, x=None, labels=None):
    """Draws columns of a Markdown table.

    Args:
        table: the lines of the table.
        form: "bars", with one panel per column; "grouped", with the columns' bars below each other;
            "stacked", with the bars end to end; "ranges", with a dot and a line for cells such as
            "0.79 (0.78 to 0.81)"; or "lines", with one panel per column, for cells such as
            "22 / 29 / 38".
        columns: headers of the columns to draw.
        title: what the numbers mean or, for lines, what `x` means.
        rows: prefixes of the names of the rows to draw; default: all rows.
        x: x-coordinates of a cell's values, for lines.
        labels: names of the columns in the chart; default: their headers.

    Returns:
        The chart as SVG.
    """
    heads, *lines = (
        [re.sub(r"[`*]", "", cell).strip() for cell in line.strip()[1:-1].split("|")]
        for line in table.strip().splitlines()
        if not re.fullmatch(r"[|:\- ]+", line)
    )
    lines = [line for line in lines if rows is None or line[0].startswith(tuple(rows))]
    values = [
        [
            [float(number.replace(",", "")) for number in NUMBER.findall(line[heads.index(column)])]
            for column in columns
        ]
        for line in lines
    ]
    names, output = [line[0] for line in lines], io.StringIO()
    with matplotlib.style.context(STYLE):
        figure = FORMS[form](names, values, labels or columns, title, x)
        figure.savefig(output, format="svg", metadata={"Date": None, "Creator": None})
    return output.getvalue()


def bars(names, values, columns, title, _=None):
    """Draws one panel per column."""
    size = (WIDTH, LINE * len(names) + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(columns), squeeze=False, sharey=True)
    colors = [THEIRS if name.startswith(PEERS) else OURS for name in names]
    for axes, column, numbers in zip(panels[0], columns, zip(*values, strict=True), strict=True):
        firsts = [each[0] if each else 0 for each in numbers]
        drawn = axes.barh(range(len(names)), firsts, color=colors)
        axes.bar_label(
            drawn, [f"{each:,.4g}" if each else "" for each in firsts], padding=2, size=9
        )
        axes.set(xlim=(0, 1.3 * max(firsts)), xticks=[])
        axes.set_title(column, size=10)
        axes.spines.bottom.set_visible(False)
        axes.tick_params(left=False)
    panels[0, 0].set_yticks(range(len(names)), names)
    panels[0, 0].invert_yaxis()  # All panels share this axis.
    figure.suptitle(title, size=11)
    return figure


def grouped(names, values, columns, title, _):
    figure, axes = with_rows(names, LINE * 0.8 * len(columns))
    for at, column in enumerate(columns):
        firsts = [row[at][0] if row[at] else 0 for row in values]
        drawn = axes.barh(
            row_positions(at, columns, names, 0.8), firsts, 0.8 / len(columns), label=column
        )
        axes.bar_label(drawn, [f"{each:,.4g}" for each in firsts], padding=2, size=8)
    axes.set_xlabel(title)
    axes.legend()
    return figure


def stacked(names, values, columns, title, _):
    figure, axes = with_rows(names, LINE)
    left = [0.0] * len(names)
    for at, column in enumerate(columns):
        firsts = [row[at][0] for row in values]
        axes.barh(range(len(names)), firsts, 0.7, left=left, label=column)
        left = [sum(pair) for pair in zip(left, firsts, strict=True)]
    axes.set_xlabel(title)
    axes.legend()
    return figure


def ranges(names, values, columns, title, _):
    """Draws a dot for the first number of each cell, and a line between the last two."""
    figure, axes = with_rows(names, 0.42)
    for at, column in enumerate(columns):
        height = row_positions(at, columns, names, 0.44)
        cells = [row[at] for row in values]
        axes.hlines(
            height, [each[-2:][0] for each in cells], [each[-1] for each in cells], f"C{at}"
        )
        axes.plot([each[0] for each in cells], height, "o", color=f"C{at}", label=column)
    axes.set_xlabel(title)
    axes.legend(bbox_to_anchor=(1, 1))
    return figure


def lines(names, values, columns, title, x):
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    panels = figure.subplots(1, len(columns), squeeze=False)
    for at, (axes, column) in enumerate(zip(panels[0], columns, strict=True)):
        for name, row in zip(names, values, strict=True):
            axes.plot(x, row[at][: len(x)], marker="o", markersize=4, label=name)
        axes.set(xlabel=title, xscale="log", ylim=(0, None))
        axes.set_title(column, size=10)
        axes.set_xticks(x, map(str, x))
        axes.minorticks_off()
    panels[0, -1].legend(fontsize=8, bbox_to_anchor=(1, 1))
    return figure


def with_rows(names, height):
    """Returns a figure and its axes, with the rows' names from top to bottom."""
    figure = Figure(figsize=(WIDTH, height * len(names) + 0.9), layout="constrained")
    axes = figure.subplots()
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    return figure, axes


def row_positions(at, columns, names, thick):
    """Returns the y-coordinate of a column's bar or dot in each row. The bars add up to `thick`."""
    shift = (at - (len(columns) - 1) / 2) * thick / len(columns)
    return [row + shift for row in range(len(names))]


FORMS = {"bars": bars, "grouped": grouped, "stacked": stacked, "ranges": ranges, "lines": lines}


def graphviz(source):
    """Returns the SVG of a graph in the DOT language, laid out by Graphviz for Node.js."""
    folder = PICTURES.parents[1] / "build" / "graphviz"
    install = ["npm", "install", "--silent", "--ignore-scripts", "--prefix", folder, GRAPHVIZ]
    subprocess.run(install, check=True)
    program = """
        import { instance } from "@viz-js/viz";
        import { readFileSync } from "fs";
        const graphviz = await instance();
        console.log(graphviz.renderString(readFileSync(0, "utf8"), { format: "svg" }));
    """
    command = ["node", "--input-type=module", "--eval", program]
    done = subprocess.run(command, cwd=folder, input=source, check=True, stdout=-1, text=True)
    return done.stdout


def standalone(svg):
    """Returns the SVG for a file, in the text color of the reader's color scheme."""
    start, rest = svg[svg.index("<svg") :].split(">", 1)
    rest = re.sub(r"(?s)<metadata>.*?</metadata>|<!--.*?-->\n?", "", rest)
    return f"{start}>\n<style>{SCHEMES}</style>{rest}".replace(INK, "currentColor")


def drawings():
    """Yields the path and content of each SVG in docs/pictures."""
    for source in sorted(PICTURES.glob("*.dot")):
        yield source.with_suffix(".svg"), standalone(graphviz(source.read_text("utf-8")))
    yield PICTURES / "peers.svg", standalone(chart(first_table(*PEERS_TABLE), **PEERS_CHART))


if __name__ == "__main__":
    for path, svg in drawings():
        path.write_text(svg, encoding="utf-8")
        print(path)

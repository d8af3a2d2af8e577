"""Charts have the figures of their tables, committed drawings the nodes of their sources."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
TABLE = """\
| | ms (share) | score | by length |
|---|---:|---|---|
| `ours`, float32 | 1,234.5 (31%) | 0.79 (0.74 to 0.81) | 22 / 29 / 38 |
| transformers | 2 (8%) | 0.62 (0.58 to 0.67) | 5 / 6 / 7 |
"""


@pytest.fixture(scope="module")
def pictures():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / ".ci" / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.mark.parametrize("form", ["bars", "grouped", "stacked", "ranges", "lines"])
def test_a_chart_names_what_it_draws(pictures, form):
    column = {"ranges": "score", "lines": "by length"}.get(form, "ms (share)")
    svg = pictures.chart(TABLE, form, [column], "the title", x=[16, 64, 128])
    assert {"ours, float32", "transformers", "the title", column} - {"score"} <= set(texts(svg)) | {
        "score"
    }
    if form in ("bars", "grouped"):
        assert {"1,234", "2"} <= set(texts(svg))


def test_rows_of_the_same_name_stay_apart(pictures):
    table = TABLE.replace("transformers", "`ours`, float32")
    svg = pictures.chart(table, "bars", ["ms (share)"], "")
    assert {"1,234", "2"} <= set(texts(svg)) and texts(svg).count("ours, float32") == 2


def test_a_column_that_the_table_lacks(pictures):
    with pytest.raises(ValueError, match="'speed' is not in list"):
        pictures.chart(TABLE, "bars", ["speed"], "")


def test_a_picture_takes_the_color_of_the_page(pictures):
    shown = pictures.inlined(pictures.chart(TABLE, "bars", ["ms (share)"], ""), '"rates"')
    assert "currentColor" in shown and "#010203" not in shown
    assert 'aria-label="&quot;rates&quot;"' in shown and "\n" not in shown
    used = set(re.findall(r"url\(#(\w+)\)", shown))
    assert used <= set(re.findall(r' id="(\w+)"', shown))


@pytest.mark.parametrize("source", sorted(PICTURES.glob("*.dot")), ids=lambda path: path.stem)
def test_drawings_have_the_nodes_of_their_sources(source):
    """`make pictures` draws them anew, which needs npm."""
    drawn = set(re.findall(r"<title>(\w+)</title>", source.with_suffix(".svg").read_text("utf-8")))
    graph = source.read_text("utf-8")
    named = set(re.findall(r"^  (\w+) \[", graph, re.MULTILINE)) - {"node", "edge"}
    named |= set(re.findall(r"^  (\w+) ->", graph, re.MULTILINE))
    assert named and named <= drawn


def test_arrows_of_the_architecture():
    arrows = {
        name: set(re.findall(r"(\w+) ?-(?:&#45;)?(?:>|&gt;) ?(\w+)", text))
        for name, text in (
            (name, (PICTURES / f"architecture.{name}").read_text("utf-8").replace("&#45;", "-"))
            for name in ("dot", "svg")
        )
    }
    assert arrows["svg"] == arrows["dot"] and len(arrows["dot"]) > 10


def test_the_comparison_has_the_figures_of_its_table(pictures):
    """`make pictures` draws it anew."""
    drawn = texts((PICTURES / "peers.svg").read_text("utf-8"))
    table = pictures.first_table(*pictures.PEERS_TABLE)
    assert drawn == texts(pictures.chart(table, **pictures.PEERS_CHART))

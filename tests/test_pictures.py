"""Charts have the figures of their tables, a committed drawing the arrows of its source."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"


@pytest.fixture(scope="module")
def pictures():
    return importlib.import_module("pictures")


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_a_picture_takes_the_color_of_the_page(pictures):
    table = "| | ms |\n|---|---:|\n| `ours` | 1,234.5 (31%) |\n| transformers | 2 (8%) |\n"
    svg = pictures.chart(table, "bars", ["ms"], "the title")
    assert {"ours", "transformers", "ms", "the title", "1,234", "2"} <= set(texts(svg))
    shown = pictures.inline_svg(svg, '"rates"')
    assert "currentColor" in shown and "#010203" not in shown
    assert 'aria-label="&quot;rates&quot;"' in shown and "\n" not in shown
    used = set(re.findall(r"url\(#(\w+)\)", shown))
    assert used <= set(re.findall(r' id="(\w+)"', shown))


def test_the_architecture_has_the_arrows_of_its_source():
    """`make pictures` draws it anew, which needs npm."""
    graph, svg = ((PICTURES / f"architecture.{name}").read_text("utf-8") for name in ("dot", "svg"))
    arrows = set(re.findall(r"^  (\w+) -> (\w+)$", graph, re.MULTILINE))
    assert set(re.findall(r"<title>(\w+)&#45;&gt;(\w+)</title>", svg)) == arrows
    assert len(arrows) > 10


def test_the_comparison_has_the_figures_of_its_table(pictures):
    drawn = texts((PICTURES / "peers.svg").read_text("utf-8"))
    table = pictures.first_table(*pictures.PEERS_TABLE)
    assert drawn == texts(pictures.chart(table, **pictures.PEERS_CHART))

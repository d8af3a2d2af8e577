"""The front page of the documents in Chromium, at the widths of a phone and of a desktop."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for name in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True)
    return folder


@pytest.fixture
def open_front_page(browser, serve_folder, site):
    """Returns a function from a width and a height to the page, which lists what went wrong."""
    address = serve_folder(site, {})

    def open_page(width, height):
        page = browser.new_page(viewport={"width": width, "height": height})
        page.faults = []
        page.on("console", lambda message: page.faults.append(message.text))
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("requestfailed", lambda request: page.faults.append(request.url))
        page.on("response", lambda answer: answer.status < 400 or page.faults.append(answer.url))
        page.on(
            "request",
            lambda request: (
                request.url.startswith((address, "data:")) or page.faults.append(request.url)
            ),
        )
        page.goto(address, wait_until="networkidle")
        return page

    return open_page


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1280, 800)], ids=["phone", "desktop"])
def test_front_page(open_front_page, width, height, tmp_path):
    page = open_front_page(width, height)
    page.screenshot(path=tmp_path / "front.png")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    title, code = (page.locator(f"article {tag}").first for tag in ("h1", "pre"))
    assert title.inner_text().startswith("albert_tf")
    assert "pip install" in code.inner_text()
    for part in (title, code):
        box = part.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
        assert box["y"] + box["height"] <= height  # seen without scrolling
    # Text that is wider than a line scrolls within its table or block.
    wider = """(width) => [...document.querySelectorAll("article p, article li, article h2")]
        .filter((each) => each.getBoundingClientRect().right > width)
        .map((each) => each.innerText)"""
    assert page.evaluate(wider, width) == []
    if width < 1220:  # the theme's menu opens at the side
        page.click("label.md-header__button[for=__drawer]")
    page.locator("nav.md-nav--primary").get_by_role("link", name="Migration").click()
    page.wait_for_url("**/migration.html")
    assert page.inner_text("article h1").startswith("Migrating")
    assert page.faults == []

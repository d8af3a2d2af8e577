"""Every page of the documents in Chromium: on a phone and a desktop, light and dark.

The screenshots are in build/screenshots, to look at.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[1]
SCREENSHOTS = ROOT / "build" / "screenshots"
SCHEMES = {"light": "default", "dark": "slate"}  # the theme's names
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for name in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True)
    return folder


@pytest.fixture(scope="module")
def page(browser, serve_folder, site):
    """Returns a page with the address of the site and a list of what went wrong in it."""
    page = browser.new_page()
    page.home = serve_folder(site, {})
    page.faults = []
    page.on("console", lambda message: page.faults.append(message.text))
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("requestfailed", lambda request: page.faults.append(request.url))
    page.on("response", lambda answer: answer.status < 400 or page.faults.append(answer.url))
    page.on(
        "request",
        lambda request: (
            request.url.startswith((page.home, "data:")) or page.faults.append(request.url)
        ),
    )
    return page


# Missing pictures, small drawings, code wider than its block, a page wider than the screen.
HIDDEN = """(code) => [
    ...[...document.images].filter((each) => !each.naturalWidth).map((each) => each.src),
    ...[...document.querySelectorAll(".picture svg")]
        .filter((each) => each.getBoundingClientRect().width < 200).map(() => "a small drawing"),
    ...[...document.querySelectorAll("article pre, article pre code")]
        .filter((each) => code && each.scrollWidth > each.clientWidth)
        .map((each) => `wide code: ${each.innerText.slice(0, 200)}`),
    ...(document.documentElement.scrollWidth > innerWidth ? ["the page scrolls sideways"] : []),
]"""


def test_every_page(page, site):
    """Tables and, on a phone, code may scroll within themselves."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    faults = []
    for path in sorted(site.rglob("*.html")):
        name = str(path.relative_to(site))
        page.set_viewport_size(DESKTOP)
        page.goto(page.home + name, wait_until="load")
        for size in (DESKTOP, PHONE):
            page.set_viewport_size(size)
            for scheme in SCHEMES:
                page.evaluate(
                    "(name) => document.body.dataset.mdColorScheme = name", SCHEMES[scheme]
                )
                shot = f"{name.replace('/', '-')[:-5]}-{size['width']}-{scheme}.jpeg"
                page.screenshot(
                    path=SCREENSHOTS / shot, full_page=True, quality=60, animations="disabled"
                )
            page.faults += page.evaluate(HIDDEN, size == DESKTOP)
        faults += [f"{name}: {each}" for each in page.faults]
        page.faults.clear()
    page.wait_for_load_state("networkidle")  # the next test's page would cancel what still loads
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", sorted(path.stem for path in ROOT.glob("notebooks/*.ipynb")))
def test_notebooks_show_their_outputs(page, name):
    page.set_viewport_size(DESKTOP)
    page.goto(f"{page.home}notebooks/{name}.html", wait_until="networkidle")
    assert page.locator(".output").count() > 0
    assert name == "finetune" or page.locator("article .picture svg, article img").count() > 0
    assert page.faults == []


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_a_way_from_the_front_page(page, size):
    page.set_viewport_size(size)
    page.goto(page.home, wait_until="networkidle")
    assert page.locator("article h1").first.inner_text().startswith("albert_tf")
    assert "pip install" in page.locator("article pre").first.inner_text()
    if size == PHONE:
        page.click("label.md-header__button[for=__drawer]")
    page.locator("nav.md-nav--primary").get_by_role("link", name="Migration").click()
    page.wait_for_url("**/migration.html", wait_until="networkidle")
    assert page.inner_text("article h1").startswith("Migrating")
    assert page.faults == []

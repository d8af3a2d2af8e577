"""Links, options and the blocks that `make pages` doesn't run, in the README and in docs/."""

import re
import shlex
from pathlib import Path

import pytest

from albert_tf import cli
from tests.test_pages import pages

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [
    README,
    *DOCS,
    *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    ROOT / "albert_tf" / "assets" / "small" / "README.md",
]
# Options of other programs, and one that a release has renamed.
OF_OTHERS = {"--builtin-schema", "--offline", "--logdir", "--buckets", "--master"}


def blocks(language, page):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def test_the_front_page_is_short():
    """What it does, how to install it, an example with its output and a picture."""
    lines = README.read_text("utf-8").splitlines()
    assert len(lines) <= 70
    first = "\n".join(lines[:42])
    for part in ("fine-tune", "pip install", "```python", "```text", ".svg)"):
        assert part in first, part


def test_python_compiles():
    """Also that of blocks which `make pages` doesn't run."""
    for page in PAGES:
        for code in blocks("python", page):
            compile(code, page.name, "exec")


def commands(page):
    """Yields the arguments of each command that `make pages` doesn't run; `…` stands for some."""
    if page == README or page in DOCS:
        found = [each.code for each in pages.blocks(page.read_text("utf-8")) if each.reason]
    else:
        found = blocks("(?:sh|bash)", page)
    for line in "".join(found).replace("\\\n", "").splitlines():
        command = re.match(r"\s*(?:\w+=\S+ +)*albert-tf +(.*)", line)
        if command:
            yield shlex.split(command[1], comments=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name + "/" + page.stem)
def test_commands_parse(page, monkeypatch):
    """Checks options and their values."""
    monkeypatch.setattr("albert_tf_export.options.check_extra", lambda *_: None)
    for command in commands(page):
        if "…" in command:
            cli._parser().parse_args([each for each in command if each != "…"])
        else:
            cli._parsed(command)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name + "/" + page.stem)
def test_options_in_the_text_exist(page):
    """Checks those with dashes: the original's have underscores (test_migration.py)."""
    subparsers = list(cli._parser()._subparsers._group_actions[0].choices.values())
    for subparser in subparsers:  # a format of `export` has a parser of its own
        for action in subparser._subparsers._group_actions if subparser._subparsers else ():
            subparsers += action.choices.values()
    known = {flag for each in subparsers for flag in each._option_string_actions}
    programs = [ROOT / "Makefile", *(ROOT / "benchmarks").rglob("*.py")]
    known |= set(re.findall(r"--[a-z][a-z-]*", "".join(map(Path.read_text, programs))))
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    code = " ".join(re.findall(r"`([^`]+)`", text))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*(?![\w-])", code))
    assert named <= known | OF_OTHERS, named - known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        assert (page.parent / link).exists(), link


def test_files_of_the_walks_exist():
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    for row in re.findall(r"^\|.*\|$", page.split("walks through the code")[1], re.MULTILINE):
        folder = ROOT / "albert_tf"
        for path in re.findall(r"`([\w/]+/|[\w/]+\.py)`", row):
            if path.startswith("albert_tf_export/"):
                place = ROOT / "export" / path
            else:
                place = ROOT / "albert_tf" / path if "/" in path else folder / path
            assert place.exists(), path
            folder = place.parent

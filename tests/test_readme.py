"""Links, options and the blocks that `make pages` doesn't run, in the README and in docs/."""

import re
import shlex
from pathlib import Path

import pytest

from albert_tf import cli
from albert_tf.training.options import PretrainingOptions
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
            cli._parse(command)


@pytest.fixture(scope="module")
def known_options():
    """Returns the options of our commands and of the programs in this repository."""
    subparsers = list(cli._parser()._subparsers._group_actions[0].choices.values())
    for subparser in subparsers:  # a format of `export` has a parser of its own
        for action in subparser._subparsers._group_actions if subparser._subparsers else ():
            subparsers += action.choices.values()
    known = {flag for each in subparsers for flag in each._option_string_actions}
    programs = [ROOT / "Makefile", *(ROOT / "benchmarks").rglob("*.py")]
    return known | set(re.findall(r"--[a-z][a-z-]*", "".join(map(Path.read_text, programs))))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name + "/" + page.stem)
def test_options_in_the_text_exist(page, known_options):
    """Checks options with dashes; those of the original have underscores (test_migration.py)."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    code = " ".join(re.findall(r"`([^`]+)`", text))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*(?![\w-])", code))
    assert named <= known_options | OF_OTHERS, named - known_options


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        assert (page.parent / link).exists(), link


def test_files_of_the_walks_exist():
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    walks = re.findall(r"^\|.*\|$", page.split("walks through the code")[1], re.MULTILINE)
    files = [f"{path}" for folder in ("albert_tf", "export") for path in (ROOT / folder).rglob("*")]
    for path in re.findall(r"`([\w/]+/|[\w/]+\.py)`", "".join(walks)):
        assert any(file.endswith(f"/{path.rstrip('/')}") for file in files), path


def test_the_defaults_of_pretraining():
    """Compares the second column of the tables in docs/pretraining.md with the options."""
    known = vars(PretrainingOptions(data="d", output=Path("o"), size="base"))
    page = (ROOT / "docs" / "pretraining.md").read_text("utf-8")
    compared = set()
    for flags, shown in re.findall(r"^\| (`--[^|]*`) \| ([^|]+) \|", page, re.MULTILINE):
        names = [flag.replace("-", "_") for flag in re.findall(r"`--([\w-]+)`", flags)]
        defaults = shown.strip().strip("`").split(", ")
        if names[0] not in known or " " in defaults[0] or not defaults[0]:
            continue
        for name, default in zip(names, defaults, strict=True):
            off = known[name] in (None, False)
            assert default == "off" if off else type(known[name])(default) == known[name], name
            compared.add(name)
    assert compared >= {"batch_size", "warmup_steps", "schedule", "beta_2", "ema"}
    assert len(compared) == 10

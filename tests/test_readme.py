"""Python, commands and links in the README and in docs/."""

import re
import shlex
from pathlib import Path

import pytest

from albert_tf import cli
from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForSequenceClassification, AlbertModel

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [
    README,
    *DOCS,
    *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
]


def blocks(language, page):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def run(page):
    """Runs the page's blocks of Python in the current folder; returns their variables."""
    code = "\n".join(blocks("python", page))
    names = {}
    exec(code.replace("epochs=3", "epochs=1"), names)
    return names


@pytest.mark.slow
def test_first_example(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(README)
    assert capsys.readouterr().out.count("'label': '") == 2
    model = AlbertForSequenceClassification.from_pretrained("my-model")
    assert model.config.id2label == {0: "negative", 1: "positive"}
    assert Path("serving/my-model/1/saved_model.pb").exists()
    assert Path("my-model.tflite").stat().st_size < 4e6


@pytest.mark.slow
def test_the_page_about_models(tmp_path, tiny_tokenizer, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = AlbertConfig.from_size("tiny", vocab_size=len(tiny_tokenizer))
    AlbertModel(config).save_pretrained("my-model")
    tiny_tokenizer.save_pretrained("my-model")
    run(ROOT / "docs" / "models.md")


@pytest.mark.slow
def test_the_page_about_fine_tuning(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(ROOT / "docs" / "finetuning.md")
    assert "['classifier']" in capsys.readouterr().out
    assert Path("my-model/config.json").exists()


@pytest.mark.slow
def test_the_page_about_keras(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run(ROOT / "docs" / "keras.md")
    assert len(names["losses"]) == 2 and float(names["loss"]) > 0
    assert Path("best.keras").exists()


@pytest.mark.slow
def test_the_page_about_pipelines(capsys):
    run(ROOT / "docs" / "pipelines.md")
    shown = capsys.readouterr().out
    assert shown.count("'token_str'") == 3
    assert "(256,)" in shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_parse(page):
    lines = "".join(blocks("sh", page)).replace("\\\n", "").splitlines()
    commands = [
        shlex.split(line, comments=True)[1:]
        for line in lines
        if line.startswith("albert-tf") and "COMPARISON" not in line
    ]
    assert page != README or len(commands) >= 6
    for command in commands:
        assert cli._parser().parse_args(command).command == command[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        assert (page.parent / link).exists(), link


def test_files_of_the_walks_exist():
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    for row in re.findall(r"^\|.*\|$", page.split("## Three walks")[1], re.MULTILINE):
        folder = ROOT / "albert_tf"
        for path in re.findall(r"`([\w/]+/|[\w/]+\.py)`", row):
            if path.startswith("albert_tf_export/"):
                place = ROOT / "export" / path
            else:
                place = ROOT / "albert_tf" / path if "/" in path else folder / path
            assert place.exists(), path
            folder = place.parent

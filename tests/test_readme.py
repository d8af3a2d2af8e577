"""Python, commands and links in the README and in docs/."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import albert_tf
from albert_tf import cli
from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForSequenceClassification, AlbertModel
from tests.conftest import SENTENCES
from tests.test_quiet import alone

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
CARD = ROOT / "albert_tf" / "assets" / "small" / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [
    README,
    *DOCS,
    *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    CARD,
]
# Options of other programs, and one that a release has renamed.
OF_OTHERS = {"--logdir", "--buckets", "--master"}


def blocks(language, page):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def run(page):
    """Runs the page's blocks of Python in the current folder; returns their variables."""
    code = "\n".join(blocks("python", page))
    names = {}
    exec(re.sub("epochs=[35]", "epochs=1", code), names)
    return names


def test_the_front_page_is_short():
    """Why, how to install, an example with its output, a picture and links: all on one screen."""
    lines = README.read_text("utf-8").splitlines()
    assert len(lines) <= 120
    first = "\n".join(lines[:40])
    for part in ("TensorFlow", "pip install", "```python", "```text", ".svg)", "](docs/README.md)"):
        assert part in first, part
    assert first.count("\n#") == 1  # the next heading follows
    cells = [cell for line in lines if line.startswith("|") for cell in line.split("|")]
    assert not [cell for cell in cells if re.search(r"\d\.\d+, \d", cell)]  # a figure a cell


@pytest.mark.slow
def test_first_example(tmp_path, monkeypatch):
    """Runs the example as a user does, without a seed; only its output and our lines are seen."""
    monkeypatch.chdir(tmp_path)
    (code,), (shown,) = blocks("python", README), blocks("text", README)
    code += 'print(pipeline("text-classification", "my-model.tflite")("Broken.")[0]["label"])'
    printed, errors = alone(code)
    assert printed.endswith(f"{shown}negative\n")
    (line,) = errors.splitlines()
    assert line.endswith("not in the checkpoint, so newly initialized: classifier.")
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
def test_the_page_about_keras(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run(ROOT / "docs" / "keras.md")
    assert len(names["losses"]) == 2 and float(names["loss"]) > 0
    assert Path("best.keras").exists()
    np.testing.assert_allclose(names["soft"].sum(-1), 1, rtol=1e-5)
    shallow = AlbertForSequenceClassification.from_pretrained("shallow")
    assert shallow.config.num_hidden_layers == 2


@pytest.mark.slow
def test_the_page_about_pipelines(capsys):
    run(ROOT / "docs" / "pipelines.md")
    shown = capsys.readouterr().out
    assert shown.count("'token_str'") == 3
    assert "(256,)" in shown


def test_the_page_about_vectors():
    """Each vector has length 1, and the two pleasures are nearer than the failure."""
    vectors = run(ROOT / "docs" / "embeddings.md")["vectors"]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    cosines = vectors @ vectors.T
    assert cosines[0, 1] > cosines[0, 2]


@pytest.mark.slow
def test_the_page_about_text(tmp_path, published_vocabulary, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("published").mkdir()
    Path("published/spiece.model").write_bytes(published_vocabulary.read_bytes())
    names = run(ROOT / "docs" / "text.md")
    text = (ROOT / "docs" / "text.md").read_text("utf-8").replace("\n#       ", " ")
    (shown,) = re.findall(r"# Baked\(sha256='\w+…', (.*)\)", text)
    assert shown in repr(names["describe"]("spiece.model"))


@pytest.mark.slow
def test_the_page_about_data(tmp_path, tiny_vocabulary, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("spiece.model").write_bytes(tiny_vocabulary)
    Path("corpus.txt").write_text("\n\n".join("\n".join(SENTENCES) for _ in range(8)))
    sizes = {"vocab": "spiece.model", "max_seq_length": 32, "workers": 1}
    albert_tf.build_data(input="corpus.txt", output="examples", **sizes)
    code = "\n".join(blocks("python", ROOT / "docs" / "pretraining-data.md"))
    small = {'"mini", vocab_size=30000': '"tiny", vocab_size=300', "epochs=3": "epochs=1"}
    for old, new in {**small, "batch_size=32": "batch_size=4", "_epoch(32)": "_epoch(4)"}.items():
        assert old in code
        code = code.replace(old, new)
    names = {}
    exec(code, names)
    features, _ = next(iter(names["batches"]))
    assert features["input_ids"].shape == (4, 32)


def test_the_page_about_devices():
    names = run(ROOT / "docs" / "distribution.md")
    assert names["distribution"].replicas(names["strategy"]) >= 1


def test_the_card_of_the_small_model():
    """Runs its way to add a group."""
    (code,) = blocks("python", CARD)
    names = {"weights": {"albert.encoder.albert_layer_groups.0.bias": np.ones(2)}}
    exec(code, names)
    assert list(names["weights"])[1] == "albert.encoder.albert_layer_groups.1.bias"


def test_every_page_with_python_is_run():
    """Tests name the pages that they run; `serving` and `mobile` are run in tests/export."""
    tests = "".join(path.read_text("utf-8") for path in ROOT.glob("tests/test_*.py"))
    for page in PAGES:
        for code in blocks("python", page):
            compile(code, page.name, "exec")
            assert f'"{page.name}"' in tests or page.name in (
                "serving.md",
                "mobile.md",
                README.name,
            )


def commands(page):
    """Yields the arguments of each command on a page, which may end with an ellipsis."""
    lines = "".join(re.findall(r"```(?:sh|bash)\n(.*?)```", page.read_text("utf-8"), re.DOTALL))
    for line in lines.replace("\\\n", "").splitlines():
        found = re.match(r"\s*(?:\w+=\S+ +)*albert-tf +(.*)", line)
        if found:
            yield shlex.split(found[1], comments=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name + "/" + page.stem)
def test_commands_parse(page, monkeypatch):
    """Checks options and their values; the card has variables instead of values."""
    monkeypatch.setattr("albert_tf_export.options.check_extra", lambda *_: None)
    found = list(commands(page))
    assert page != README or len(found) >= 6
    for command in found:
        if page == CARD or "…" in command:
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

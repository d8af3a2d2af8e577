"""docs/languages.md: vocabularies, examples and models of other languages, by its commands."""

import json
import re
import shlex
import unicodedata
from pathlib import Path

import pytest

from albert_tf import cli
from albert_tf.pipelines import pipeline

PAGE = Path(__file__).resolve().parents[1] / "docs" / "languages.md"
TEXTS = Path(__file__).resolve().parent / "languages"
# Small numbers for the page's commands; the last value of a repeated option counts.
TINY = {
    "build-vocab": ["--vocab-size", "700"],
    "build-data": ["--max-seq-length", "32", "--workers", "1"],
    "inspect-data": [],
    "pretrain": ["--size", "tiny", "--batch-size", "8", "--steps", "30", "--warmup-steps", "3"],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "masked"),
    [
        ("ru", "Каждый человек имеет право на [MASK]"),
        ("hi", "प्रत्येक व्यक्ति को शिक्षा का [MASK] है"),
        ("ja", "すべて人は、[MASK]を有する。"),
        ("tr", "Herkesin eğitim [MASK] vardır"),
        ("vi", "Mọi người đều có quyền [MASK]"),
    ],
)
@pytest.mark.filterwarnings("ignore:A sequence of .* exceeds model_max_length")
def test_from_text_to_a_model(tmp_path, monkeypatch, capsys, language, masked):
    monkeypatch.chdir(tmp_path)
    text = (TEXTS / f"{language}.txt").read_text("utf-8")
    Path("corpus").mkdir()
    Path("corpus/a.txt").write_text(text.replace("\n\n", "\n"), "utf-8")
    [block] = re.findall(
        r"```sh\n(albert-tf build-vocab.*?)```", PAGE.read_text("utf-8"), re.DOTALL
    )
    for line in block.replace("\\\n", "").splitlines():
        program, command, *arguments = shlex.split(
            line.replace("--language ru", f"--language {language}")
        )
        assert program == "albert-tf"
        assert cli.main([command, *arguments, *TINY[command]]) == 0
    printed = capsys.readouterr().out
    assert "accents  kept" in printed
    assert json.loads(Path("examples/manifest.json").read_text())["settings"]["words"] == "spaces"
    model = pipeline("fill-mask", "my-model")
    assert len({found["token"] for found in model(masked, top_k=3)}) == 3
    kept = model.tokenizer.decode(model.tokenizer(text, add_special_tokens=False)["input_ids"])
    words, read = (
        set(unicodedata.normalize("NFKC", each).casefold().split()) for each in (text, kept)
    )
    assert len(words & read) > 0.9 * len(words)

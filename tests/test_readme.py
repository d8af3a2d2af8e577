"""What the README shows runs."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from albert_tf import cli
from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForSequenceClassification, AlbertModel
from albert_tf.text.tokenizer import AlbertTokenizer

README = Path(__file__).resolve().parents[1] / "README.md"


def blocks(language, page=README):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def run(code, folder):
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={"PYTHONPATH": str(README.parent), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_python(tmp_path):
    (code,) = blocks("python")
    run(code.replace('"mini"', '"tiny"'), tmp_path)
    model = AlbertForSequenceClassification.from_pretrained(tmp_path / "my-model")
    tokenizer = AlbertTokenizer.from_pretrained(tmp_path / "my-model")
    assert model.config.id2label == {0: "negative", 1: "positive"}
    assert tokenizer.vocab_size == model.config.vocab_size


def test_commands_parse():
    lines = "".join(blocks("sh")).replace("\\\n", "").splitlines()
    commands = [
        shlex.split(line, comments=True)[1:] for line in lines if line.startswith("albert-tf")
    ]
    assert len(commands) >= 6
    for command in commands:
        assert cli._parser().parse_args(command).command == command[0]


@pytest.mark.slow
def test_the_page_about_models(tmp_path, tiny_tokenizer):
    config = AlbertConfig.from_size("tiny", vocab_size=len(tiny_tokenizer))
    AlbertModel(config).save_pretrained(tmp_path / "my-model")
    tiny_tokenizer.save_pretrained(tmp_path / "my-model")
    (code,) = blocks("python", README.parent / "docs" / "models.md")
    run(code, tmp_path)

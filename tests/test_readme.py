"""What the README shows runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from albert_tf import cli
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.text.tokenizer import AlbertTokenizer

README = Path(__file__).resolve().parents[1] / "README.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.slow
def test_python(tmp_path):
    (code,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(README.parent), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    model = AlbertForSequenceClassification.from_pretrained(tmp_path / "my-model")
    tokenizer = AlbertTokenizer.from_pretrained(tmp_path / "my-model")
    assert model.config.id2label == {0: "negative", 1: "positive"}
    assert tokenizer.vocab_size == model.config.vocab_size


def test_commands_parse():
    lines = "".join(blocks("sh")).replace("\\\n", "").splitlines()
    commands = [line.split("#")[0].split()[1:] for line in lines if line.startswith("albert-tf")]
    assert len(commands) >= 6
    for command in commands:
        assert cli._parser().parse_args(command).command == command[0]

"""The examples in docs/pretraining-data.md run, from text to a training step."""

import gzip
import re
import shlex
from pathlib import Path

import keras
import numpy as np
import pytest

from albert_tf import cli
from tests.conftest import SENTENCES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "pretraining-data.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Returns a folder with a corpus of two files, in which the page's commands run."""
    (tmp_path / "corpus").mkdir()
    generator = np.random.default_rng(4)
    for name in ("a", "b"):
        documents = ("\n".join(generator.choice(SENTENCES, 9)) for _ in range(40))
        with gzip.open(tmp_path / "corpus" / f"{name}.txt.gz", "wt") as file:
            file.write("\n\n".join(documents))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_commands_and_the_training(folder, capsys):
    for command in blocks("sh")[0].strip().split("\n"):
        program, *arguments = shlex.split(command)
        assert program == "albert-tf"
        assert cli.main(arguments) == 0
    assert "example 0: " in capsys.readouterr().out
    assert {path.suffix for path in (folder / "examples").iterdir()} == {
        ".json",
        ".model",
        ".tfrecord",
    }
    code = blocks("python")[0].replace('"mini"', '"tiny"')
    code = code.replace("vocab_size=30000", "vocab_size=30000, max_position_embeddings=512")
    code = code.replace("model.fit(", "history = model.fit(")
    shown = {}
    exec(code, shown)
    assert isinstance(shown["model"], keras.Model)
    assert shown["steps"] == 80 // 32
    assert int(shown["model"].optimizer.iterations) == 3 * shown["steps"]
    losses = shown["history"].history["loss"]
    assert losses[-1] < losses[0]

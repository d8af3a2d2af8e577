"""A run that is killed while it turns itself into a model directory."""

import pytest

from albert_tf.assets import reviews
from albert_tf.files import written_atomically
from albert_tf.training import finetune as module
from albert_tf.training.finetune import REPORT, finetune
from albert_tf.training.options import FinetuningOptions


class Crash(Exception):
    """The process dies, as far as files are concerned."""


def test_the_same_call_finishes(tmp_path, monkeypatch):
    output = tmp_path / "model"
    options = FinetuningOptions(
        task="classify",
        data=reviews(),
        model="tiny",
        output=output,
        text_column="sentence",
        vocab_size=300,
        steps=2,
        max_length=16,
    )

    def dies_at_the_report(path, **others):
        if path == output / REPORT:
            raise Crash
        return written_atomically(path, **others)

    monkeypatch.setattr(module, "written_atomically", dies_at_the_report)
    with pytest.raises(Crash):
        finetune(options)
    monkeypatch.undo()
    assert finetune(options)["step"] == 2
    assert {path.name for path in output.iterdir()} == {
        "config.json",
        "model.safetensors",
        "options.yaml",
        "spiece.model",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "report.json",
        "logs",
    }

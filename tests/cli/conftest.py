"""Fixtures for the commands, which run in this process."""

import dataclasses
import functools
from pathlib import Path

import pytest

from albert_tf import cli
from albert_tf.config import AlbertConfig

KINDS = {
    "pretrain": "AlbertForPreTraining",
    "fill-mask": "AlbertForMaskedLM",
    "answer": "AlbertForQuestionAnswering",
    "tag": "AlbertForTokenClassification",
    "embed": "AlbertModel",
    "predict": "AlbertForSequenceClassification",
}


@pytest.fixture
def run(capsys):
    """Returns a function that runs a command line, and returns its status, stdout, and stderr."""

    def main(*arguments):
        status = cli.main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return main


@pytest.fixture(scope="session")
def task_model(tiny_vocabulary, scrambled):
    """Returns a function from a command to a model with random weights and its tokenizer."""
    from albert_tf import models
    from albert_tf.text.tokenizer import AlbertTokenizer

    tokenizer = AlbertTokenizer(tiny_vocabulary, model_max_length=48)
    sizes = {"vocab_size": tokenizer.vocab_size, "num_hidden_layers": 1}
    config = AlbertConfig.from_size("tiny", **sizes)
    labels = {"tag": ("B-PER", "I-PER", "B-LOC"), "predict": ("bad", "good")}

    @functools.cache
    def get(command):
        changed = dataclasses.replace(
            config, id2label=dict(enumerate(labels[command])) if command in labels else None
        )
        return scrambled(getattr(models, KINDS[command])(changed)), tokenizer

    return get


@pytest.fixture(scope="session")
def model_folder(task_model, tmp_path_factory):
    """Returns a function from a command to its model's folder, which tests must not change."""

    @functools.cache
    def save(command):
        folder = tmp_path_factory.mktemp(command)
        for part in task_model(command):
            part.save_pretrained(folder)
        return folder

    return save


@pytest.fixture(scope="session")
def classifier(model_folder):
    return model_folder("predict")


@pytest.fixture
def ask(run, task_model, without_graphs, monkeypatch):
    """Returns a function that runs a command with its model in memory, without reading files."""
    from albert_tf import pipelines
    from albert_tf.checkpoints import finder

    found = finder.CheckpointLocation(Path())
    monkeypatch.setattr(finder, "find", lambda name: found)
    made = pipelines.pipeline
    monkeypatch.setattr(
        pipelines,
        "pipeline",
        lambda task, command, **options: made(task, *task_model(command), **options),
    )
    return lambda command, *arguments: run(command, "--model", command, *arguments)

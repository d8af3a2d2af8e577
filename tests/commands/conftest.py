"""Fixtures for the commands, which run in this process."""

import dataclasses
import functools
from pathlib import Path

import pytest

from albert_tf import cli
from albert_tf.config import AlbertConfig

KINDS = {
    "fill-mask": "AlbertForMaskedLM",
    "answer": "AlbertForQuestionAnswering",
    "choices": "AlbertForMultipleChoice",
    "tag": "AlbertForTokenClassification",
    "embed": "AlbertModel",
    "predict": "AlbertForSequenceClassification",
}


@pytest.fixture
def run(capsys):
    """Returns a function that runs a command line and returns its status, stdout and stderr."""

    def main(*arguments):
        status = cli.main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return main


@pytest.fixture(scope="session")
def classifier(tiny_vocabulary, tmp_path_factory):
    """Returns the directory of a classifier with random weights, which tests only read."""
    from albert_tf.models import AlbertForSequenceClassification
    from albert_tf.text.tokenizer import AlbertTokenizer

    folder = tmp_path_factory.mktemp("classifier")
    tokenizer = AlbertTokenizer(tiny_vocabulary, model_max_length=24)
    labels = {0: "bad", 1: "good"}
    sizes = {"vocab_size": tokenizer.vocab_size, "num_hidden_layers": 2}
    config = AlbertConfig.from_size("tiny", **sizes, id2label=labels)
    AlbertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def task_model(tiny_vocabulary, scrambled):
    """A function that gives a command's model, with random weights, and its tokenizer."""
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


@pytest.fixture
def ask(run, task_model, monkeypatch):
    """A function that runs a command with its model, which isn't read from files each time."""
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

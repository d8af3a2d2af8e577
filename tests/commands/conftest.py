"""Fixtures for the commands, which run in this process."""

import pytest

from albert_tf import cli
from albert_tf.config import AlbertConfig


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
    config = AlbertConfig.from_size("tiny", vocab_size=tokenizer.vocab_size, id2label=labels)
    AlbertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder

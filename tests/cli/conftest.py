"""Fixtures for the commands, which run in this process."""

import functools
import shutil

import pytest

from albert_tf import cli
from albert_tf.config import AlbertConfig

# The options of each command and, for `export`, of each format.
OPTIONS = {name: command.OPTIONS for name, command in cli.COMMANDS.items() if name != "export"}
OPTIONS |= {f"export {form}": options for form, options in cli.export.OPTIONS.items()}

CLASSIFIER = "AlbertForSequenceClassification"


def labels(*names):
    return {"id2label": dict(enumerate(names))}


# The class and the configuration fields of each model. Most models are named after a command.
MODELS = {
    "pretrain": ("AlbertForPreTraining", {}),
    "fill-mask": ("AlbertForMaskedLM", {}),
    "answer": ("AlbertForQuestionAnswering", {}),
    "tag": ("AlbertForTokenClassification", labels("B-PER", "I-PER", "B-LOC")),
    "embed": ("AlbertModel", {}),
    "predict": (CLASSIFIER, labels("bad", "good")),
    "zero-shot": (CLASSIFIER, labels("entailment", "not_entailment")),
    "regression": (CLASSIFIER, labels("price", "age", "size") | {"problem_type": "regression"}),
    "multi-label": (
        CLASSIFIER,
        labels("loud", "cold, wet")
        | {"problem_type": "multi_label_classification", "thresholds": (0.0, 0.0)},
    ),
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
    """Returns a function from a name in `MODELS` to a random model and its tokenizer."""
    from albert_tf import models
    from albert_tf.text.tokenizer import AlbertTokenizer

    tokenizer = AlbertTokenizer(tiny_vocabulary, model_max_length=48)
    sizes = {"vocab_size": tokenizer.vocab_size, "num_hidden_layers": 1}

    @functools.cache
    def get(name):
        kind, fields = MODELS[name]
        config = AlbertConfig.from_size("tiny", **sizes, **fields)
        return scrambled(getattr(models, kind)(config)), tokenizer

    return get


@pytest.fixture(scope="session")
def model_folder(task_model, tmp_path_factory):
    """Returns a function from a model's name to its folder, which tests must not change."""

    @functools.cache
    def save(name):
        folder = tmp_path_factory.mktemp(name)
        for part in task_model(name):
            part.save_pretrained(folder)
        return folder

    return save


@pytest.fixture(scope="session")
def classifier(model_folder):
    return model_folder("predict")


@pytest.fixture(scope="session")
def sentence_folder(task_model, model_folder, tmp_path_factory):
    """Returns a sentence-transformers folder: maxima of 12 tokens, scaled to unit length."""
    from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding, write

    folder = shutil.copytree(model_folder("embed"), tmp_path_factory.mktemp("sentences") / "model")
    embedding = SentenceEmbedding("max", normalize=True, max_length=12)
    write(folder, embedding, task_model("embed")[0].config.hidden_size)
    return folder


@pytest.fixture(scope="session")
def classifier_file(classifier, tmp_path_factory):
    """Returns the classifier's exported file, which takes ids."""
    path = tmp_path_factory.mktemp("exported") / "classifier.tflite"
    line = ["export", "tflite", "--model", classifier, "--ids-only", "--no-check"]
    assert cli.main([*map(str, line), "--output", str(path)]) == 0
    return path


@pytest.fixture(scope="session")
def loaded():
    """Returns a function from a pipeline's task and folder to its model and tokenizer."""
    from albert_tf.pipelines import pipeline

    @functools.cache
    def load(task, folder):
        made = pipeline(task, folder)
        return made.model, made.tokenizer

    return load


@pytest.fixture
def loaded_once(loaded, monkeypatch):
    """Loads the model of a folder only for the first pipeline."""
    from albert_tf import pipelines

    make = pipelines.pipeline
    monkeypatch.setattr(
        pipelines,
        "pipeline",
        lambda task, folder, **options: make(task, *loaded(task, folder), **options),
    )


@pytest.fixture
def ask(run, model_folder, loaded_once, without_graphs):
    """Returns a function that runs a command with its own model, or with the one in a folder."""

    def main(command, *arguments, model=None):
        return run(command, "--model", model or model_folder(command), *arguments)

    return main

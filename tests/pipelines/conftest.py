"""Small models of every task with random weights, and a vocabulary of whole words."""

import dataclasses

import pytest

from albert_tf import models
from albert_tf.text.tokenizer import AlbertTokenizer

LABELS = dict(enumerate(("O", "B-PER", "I-PER", "B-LOC", "I-LOC")))
# Class and options of each kind of model.
KINDS = {
    "fill-mask": ("AlbertForMaskedLM", {}),
    "text-classification": ("AlbertForSequenceClassification", {"id2label": LABELS}),
    "token-classification": ("AlbertForTokenClassification", {"id2label": LABELS}),
    "question-answering": ("AlbertForQuestionAnswering", {}),
    "answerability": ("AlbertForQuestionAnswering", {"answerability": True}),
    "feature-extraction": ("AlbertModel", {}),
    "sentence-order": ("AlbertForPreTraining", {}),
}
LONGEST = 32


def assert_same(found, expected):
    """Compares scores to within 1e-4, and everything else exactly, including container types."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_same(found[name], expected[name])
    elif isinstance(expected, list):
        assert isinstance(found, list)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, str | int):
        assert found == expected
    else:
        assert found == pytest.approx(float(expected), abs=1e-4)


@pytest.fixture(scope="session")
def tokenizer(words_vocabulary):
    return AlbertTokenizer(words_vocabulary, model_max_length=LONGEST)


@pytest.fixture(scope="session")
def config(small_config, tokenizer):
    """Returns a configuration with more positions than the tokenizer's maximum length."""
    sizes = {"vocab_size": tokenizer.vocab_size, "num_hidden_layers": 1}
    return small_config.replace(**sizes, max_position_embeddings=43)


@pytest.fixture(scope="session")
def model(config, scrambled):
    """Returns a function that returns a task's model, the same one every time."""
    made = {}

    def get(kind):
        if kind not in made:
            name, changes = KINDS[kind]
            found = scrambled(getattr(models, name)(dataclasses.replace(config, **changes)))
            for variable in found.weights:  # so that probabilities are far from even
                if "classifier" in variable.path or "qa_outputs" in variable.path:
                    variable.assign(5 * variable)
            made[kind] = found
        return made[kind]

    return get


@pytest.fixture(scope="session")
def saved(model, tokenizer, tmp_path_factory):
    """Returns a function that returns the directory of a task's model and tokenizer."""
    folder = tmp_path_factory.mktemp("models")

    def get(kind):
        if not (folder / kind).exists():
            model(kind).save_pretrained(folder / kind)
            tokenizer.save_pretrained(folder / kind)
        return folder / kind

    return get


@pytest.fixture(scope="session")
def pipe(model, tokenizer):
    """Returns a function that creates a pipeline with a task's model."""
    from albert_tf.pipelines import pipeline

    def get(kind, **options):
        task = "question-answering" if kind == "answerability" else kind
        return pipeline(task, model(kind), tokenizer, **options)

    return get

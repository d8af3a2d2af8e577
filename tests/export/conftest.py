"""Models of every task whose weights all matter, their tokenizer, and what Keras says."""

import functools

import numpy as np
import pytest

MAX_LENGTH = 24
TEXTS = [
    "A quiet delight from start to finish.",
    "",
    "Crème brûlée, 12 euros; NEVER closed!",
    "A NUL inside\0 and at the end\0",
    "noisy mess " * 40,
]


@pytest.fixture(scope="session")
def tokenizer(tiny_vocabulary):
    from albert_tf.text.tokenizer import AlbertTokenizer

    return AlbertTokenizer(tiny_vocabulary, model_max_length=MAX_LENGTH)


@pytest.fixture(scope="session")
def make_model(tokenizer, scrambled):
    """A function: a task, a dtype policy and configuration fields -> model.

    The task is a key of `auto.TASKS`, or "answerability" for that head of question answering.
    """
    from albert_tf.config import AlbertConfig
    from albert_tf.models.auto import TASKS

    def make(task, dtype=None, **fields):
        defaults = {"id2label": {0: "bad", 1: "naïve", 2: "good"}, "max_position_embeddings": 40}
        fields = {"vocab_size": tokenizer.vocab_size, **defaults, **fields}
        if task == "answerability":
            task, fields["answerability"] = "question-answering", True
        return scrambled(TASKS[task](AlbertConfig.from_size("tiny", **fields), dtype=dtype))

    return make


@pytest.fixture(scope="session")
def make_classifier(make_model):
    """A function: a dtype policy and configuration fields -> classifier."""
    return functools.partial(make_model, "sequence-classification")


@pytest.fixture(scope="session")
def classifier(make_classifier):
    return make_classifier()


@pytest.fixture(scope="session")
def texts():
    return TEXTS


@pytest.fixture(scope="session")
def features(tokenizer):
    """The texts' features, `[5, 24]`."""
    return dict(
        tokenizer(
            TEXTS,
            padding="max_length",
            truncation=True,
            max_length=MAX_LENGTH,
            split_special_tokens=True,
            return_tensors="np",
        )
    )


@pytest.fixture(scope="session")
def logits(classifier, features):
    """What Keras says of the texts, `[5, 3]`."""
    found = np.asarray(classifier(features)["logits"])
    assert np.abs(found).max() > 0.5
    assert np.ptp(found, axis=0).min() > 0.05  # each text has logits of its own
    return found


@pytest.fixture(scope="session")
def written(tmp_path_factory, classifier, tokenizer):
    """A function: exporter and options -> path of the classifier's export, made once, unchecked."""
    paths = {}

    def write(exporter, **options):
        key = (exporter.__name__, *sorted(options.items()))
        if key not in paths:
            paths[key] = tmp_path_factory.mktemp("export") / "model"
            options = {"max_length": MAX_LENGTH, "check": False, **options}
            exporter(classifier, tokenizer, paths[key], **options)
        return paths[key]

    return write


@pytest.fixture(scope="session")
def checked(tmp_path_factory, make_model, tokenizer):
    """A function: exporter, task and options -> report of an export that was checked, made once."""
    reports = {}

    def export(exporter, task, **options):
        options = {"max_length": MAX_LENGTH, "ids_only": False, **options}
        key = (exporter.__name__, task, *sorted(options.items()))
        if key not in reports:
            path = tmp_path_factory.mktemp("checked") / "model"
            reports[key] = exporter(make_model(task), tokenizer, path, **options)
        return reports[key]

    return export

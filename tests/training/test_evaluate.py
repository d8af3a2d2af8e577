import json

import numpy as np
import pytest
from albert_tf_export import export_tflite
from scipy.special import expit, softmax

from albert_tf.checkpoints import sentence_transformers
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.config import AlbertConfig
from albert_tf.data.options import EvaluationOptions
from albert_tf.data.pipeline import Batches
from albert_tf.data.tasks.registry import task_of
from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification, AlbertModel
from albert_tf.pipelines import pipeline
from albert_tf.training import finetune
from albert_tf.training.evaluate import HeldOut, evaluate, soft_labels
from tests.conftest import SENTENCES
from tests.training import test_answers
from tests.training.test_finetune import options

pytestmark = pytest.mark.usefixtures("without_graphs", "quick_runs")
TEMPERATURE = 3.0
NAMES = dict(enumerate(("red", "green", "blue")))
SEVERAL = {"id2label": NAMES, "problem_type": "multi_label_classification"}


@pytest.fixture
def classifier(tiny_tokenizer, scrambled):
    """Returns a function that makes a model with a tokenizer from fields of a configuration."""

    def make(**fields):
        config = AlbertConfig.from_size("tiny", vocab_size=len(tiny_tokenizer), **fields)
        model = scrambled(AlbertForSequenceClassification(config))
        model.tokenizer = tiny_tokenizer
        return model

    return make


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"id2label": NAMES}, lambda logits: softmax(logits / TEMPERATURE)),
        (SEVERAL, lambda logits: expit(logits / TEMPERATURE)),
        ({"num_labels": 1, "problem_type": "regression"}, lambda logits: logits),
    ],
    ids=["one label", "several labels", "regression"],
)
def test_a_teachers_probabilities(
    tmp_path, classifier, tiny_tokenizer, monkeypatch, fields, expected
):
    """A model of the same kind can learn from them."""
    teacher = classifier(**fields)
    for part in (teacher, tiny_tokenizer):
        part.save_pretrained(tmp_path)
    texts = [f"{text} red" for text in SENTENCES[:5]]
    found = soft_labels(tmp_path, texts, temperature=TEMPERATURE, batch_size=2)
    for text, soft in zip(texts, found, strict=True):
        features = tiny_tokenizer(text, return_tensors="np")
        logits = np.asarray(teacher(features).logits)[0]
        np.testing.assert_allclose(soft, expected(logits), atol=1e-5)
    with pytest.raises(UserError, match="Received: 'a text'"):
        soft_labels(tmp_path, "a text")
    monkeypatch.setattr(
        AlbertForSequenceClassification,
        "predict_on_batch",
        lambda model, features: {"logits": np.full((5, 3), np.nan)},
    )
    with pytest.raises(UserError, match="outputs are NaN"):
        soft_labels(tmp_path, texts)
    teacher.compile("sgd")
    assert teacher.fit(texts, found, verbose=0).history["loss"][0] > 0


@pytest.mark.parametrize("exported", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_cosines_at_the_maximum_length_of_a_folder(tmp_path, tiny_tokenizer, scrambled, exported):
    config = AlbertConfig.from_size("tiny", vocab_size=len(tiny_tokenizer))
    model, path = scrambled(AlbertModel(config)), tmp_path / "model"
    for part in (model, tiny_tokenizer):
        part.save_pretrained(path)
    sentence_transformers.write(path, SentenceEmbedding("mean", True, 5), config.hidden_size)
    if exported:
        path = tmp_path / "model.tflite"
        model = AlbertModel.from_pretrained(tmp_path / "model")
        export_tflite(model, tiny_tokenizer, path, ids_only=True, check=False)
    texts = [" ".join(SENTENCES), SENTENCES[1]]
    pipe = pipeline("feature-extraction", path, return_tensors=True, truncation=True)
    rows = ("sentence1,sentence2,score", '"{}","{}",1'.format(*texts))
    (tmp_path / "dev.csv").write_text("\n".join(rows))
    evaluate(model=path, task="similarity", data=tmp_path / "dev.csv", predictions=tmp_path)
    cosine = float((tmp_path / "predictions.tsv").read_text().split()[-1])
    assert cosine == pytest.approx(np.dot(*pipe(texts)), abs=1e-5)


def questions(path):
    return test_answers.write(path, impossible=True, count=6)


def conll(path):
    path.write_text("".join(f"{word} B-X\nis O\nhere O\n\n" for word in SENTENCES[0].split() * 4))


def pairs(path):
    words = ("film", "room", "meal", "staff", "garden")
    rows = [
        {"anchor": f"the {word}", "positive": f"a {word} {n}"} for word in words for n in "abcd"
    ]
    path.write_text("\n".join(map(json.dumps, rows)))


@pytest.mark.parametrize(
    ("task", "name", "write", "more"),
    [
        ("squad", "all.json", questions, {"head": "original"}),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("squad", "all.json", questions, {}),
                ("tag", "all.conll", conll, {}),
                ("similarity", "all.jsonl", pairs, {}),
            )
        ),
    ],
    ids=["answerability", "squad", "tag", "similarity"],
)
def test_the_loss_on_dev_is_that_of_evaluate(tmp_path, monkeypatch, task, name, write, more):
    """Predicts five rows at a time; `evaluate` reads all at once, or pairs in batches of four."""
    monkeypatch.setattr("albert_tf.training.evaluate.PREDICTED", 5)
    write(tmp_path / name)
    given = options(
        *(tmp_path / name, tmp_path / "out"),
        **{"task": task, "max_length": 24, "dev_fraction": 0.5, **more},
    )
    data = given.read()
    model = finetune._model(given, given.recipe(data.recipe, len(data.train)), data)
    model.compile(run_eagerly=True)
    size = 4 if task == "similarity" else 100
    held_out = HeldOut(data.task, data.dev, model, 1, size)
    assert len(held_out.rows) > 5
    whole = Batches(held_out.rows, size, shuffle=False).epochs()
    assert held_out.scores()["loss"] == pytest.approx(model.evaluate(whole, verbose=0), rel=1e-4)


@pytest.mark.parametrize("head", ["transformers", "original"])
def test_the_threshold_in_python_is_that_of_the_command(tmp_path, head):
    questions(tmp_path / "all.json")
    given = options(tmp_path / "all.json", tmp_path / "out", task="squad", max_length=24, head=head)
    data = given.read()
    model = finetune._model(given, given.recipe(data.recipe, len(data.train)), data)
    dev = data.train
    asked = [(each.question, each.context) for each in dev]
    answers = [(each.golds[0], each.span[0]) if each.golds else None for each in dev]
    found = model.fit_thresholds(asked, answers)
    assert found == model.config.thresholds
    HeldOut(data.task, dev, model, 1, 8).scores()
    assert model.config.thresholds == pytest.approx(found, abs=1e-5)
    answerable = [row for row, answer in enumerate(answers) if answer]
    with pytest.raises(UserError, match="questions without an answer"):
        model.fit_thresholds(
            [asked[row] for row in answerable], [answers[row] for row in answerable]
        )


def test_the_thresholds_in_python_are_those_of_the_command(tmp_path, tiny_tokenizer, classifier):
    model = classifier(**SEVERAL)
    for seed in range(10):
        labels = np.random.default_rng(seed).integers(2, size=(len(SENTENCES), 3))
        labels[:, seed % 3] *= seed > 4  # a label may not occur
        lists = [[NAMES[each] for each in np.flatnonzero(row)] for row in labels]
        path = tmp_path / f"{seed}.jsonl"
        rows = [{"text": text, "label": each} for text, each in zip(SENTENCES, lists, strict=True)]
        path.write_text("\n".join(map(json.dumps, rows)))
        found = model.fit_thresholds(SENTENCES, lists)
        assert found == model.config.thresholds
        task = task_of(EvaluationOptions(task="classify", data=path, model="small"), model.config)
        HeldOut(task, task.read(path), model, 1, 8).scores()
        assert model.config.thresholds == pytest.approx(found, abs=1e-6)
    assert model.fit_thresholds(SENTENCES, labels) == found
    ids = dict(tiny_tokenizer(SENTENCES, padding=True, return_tensors="np"))
    assert model.fit_thresholds(ids, labels) == pytest.approx(found, abs=1e-6)


@pytest.mark.parametrize(
    ("fields", "labels", "message"),
    [
        ({}, [[1, 0], [0, 1]], r"3.*\(2, 2\)"),
        ({}, [[1, 0, 0]], r"\(2, 3\)\. Received shape \(1, 3\)"),
        ({}, [[1, 0, 0.5], [0, 0, 1]], "labels must be whole numbers. Received: 0.5"),
        ({}, [[1, 0, 2], [0, 0, 1]], "Received: 2"),
        ({}, [["red"], ["pink"]], "Received: 'pink'"),
        ({}, None, r"\(2, 3\)\. Received shape \(\)"),
        ({"problem_type": None}, [1, 2], "Received: 'single_label_classification'"),
        ({"problem_type": "regression", "id2label": {0: "x"}}, [1, 2], "Received: 'regression'"),
    ],
)
def test_labels_that_have_no_thresholds(classifier, fields, labels, message):
    model = classifier(**{**SEVERAL, **fields})
    with pytest.raises((UserError, ValueError), match=message):
        model.fit_thresholds(SENTENCES[:2], labels)
    assert model.config.thresholds is None


def test_the_threshold_of_a_single_label(classifier):
    model = classifier(num_labels=1, problem_type="multi_label_classification")
    labels = [1, 0, 1, 0, 1, 1, 0, 0]
    found = model.fit_thresholds(SENTENCES, labels)
    assert found == model.fit_thresholds(SENTENCES, [[label] for label in labels])
    assert len(found) == 1 and 0 < found[0] < 1

import numpy as np
import pytest
from scipy.special import expit, softmax

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training.evaluate import soft_labels
from tests.conftest import SENTENCES

pytestmark = pytest.mark.usefixtures("without_graphs")
TEMPERATURE = 3.0
TEXTS = [f"{text} red" for text in SENTENCES[:5]]
NAMES = dict(enumerate(("red", "green", "blue")))


@pytest.fixture
def teacher(tmp_path, tiny_tokenizer):
    """Returns a function that writes a model whose random weights are large."""

    def save(**fields):
        config = AlbertConfig.from_size(
            "tiny",
            vocab_size=len(tiny_tokenizer),
            num_hidden_layers=1,
            initializer_range=0.3,
            **fields,
        )
        AlbertForSequenceClassification(config).save_pretrained(tmp_path)
        tiny_tokenizer.save_pretrained(tmp_path)
        return tmp_path

    return save


def logits_of(folder, text):
    features = AlbertTokenizer.from_pretrained(folder)(text, return_tensors="np")
    return np.asarray(AlbertForSequenceClassification.from_pretrained(folder)(features).logits)[0]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"id2label": NAMES}, lambda logits: softmax(logits / TEMPERATURE)),
        (
            {"id2label": NAMES, "problem_type": "multi_label_classification"},
            lambda logits: expit(logits / TEMPERATURE),
        ),
        ({"num_labels": 1, "problem_type": "regression"}, lambda logits: logits),
    ],
)
def test_a_teachers_probabilities(teacher, fields, expected):
    folder = teacher(**fields)
    found = soft_labels(folder, TEXTS, temperature=TEMPERATURE, batch_size=2)
    assert found.shape == (5, 1 if "num_labels" in fields else 3)
    for text, soft in zip(TEXTS, found, strict=True):
        np.testing.assert_allclose(soft, expected(logits_of(folder, text)), atol=1e-5)


def test_soft_labels_for_fit(teacher):
    folder = teacher(id2label=NAMES)
    student = AlbertForSequenceClassification.from_pretrained(folder)
    student.compile("sgd", metrics=["accuracy"], run_eagerly=True)
    numbers = np.array([0, 2, 1, 0, 0])
    assert student.evaluate(TEXTS, np.eye(3, dtype="float32")[numbers], verbose=0) == pytest.approx(
        student.evaluate(TEXTS, numbers, verbose=0)
    )
    soft = soft_labels(folder, TEXTS)
    assert student.fit(TEXTS, soft, verbose=0).history["loss"][0] > 0
    with pytest.raises(ValueError, match="sum to 1"):
        student.fit(TEXTS, soft * 2, verbose=0)
    with pytest.raises(UserError, match="temperature must be a number above 0. Received: 0"):
        soft_labels(folder, TEXTS, temperature=0)

from types import SimpleNamespace

import numpy as np
import pytest

from albert_tf.data.labels import ONE_CLASS
from albert_tf.data.pipeline import EncodedExamples
from albert_tf.data.readers import Example
from albert_tf.evaluation.evaluate import score


@pytest.mark.parametrize(
    ("logits", "labels", "expected"),
    [
        ([[0, 1], [0, 1], [0, 2]], [0, 1, 1], {"accuracy": 2 / 3, ONE_CLASS: 1.0}),
        ([[0, 1], [1, 0], [0, 2]], [0, 1, 1], {"accuracy": 1 / 3}),
        ([[0, 1], [0, 1], [0, 2]], [1, 1, 1], {"accuracy": 1.0}),
    ],
)
def test_predictions_of_one_class_are_said(tiny_tokenizer, logits, labels, expected):
    model = SimpleNamespace(
        config=SimpleNamespace(num_labels=2),
        predict=lambda batches, verbose: {"logits": np.array(logits, "float32")},
    )
    examples = [Example(text, None, str(label)) for text, label in zip("abc", labels, strict=True)]
    data = EncodedExamples(examples, tiny_tokenizer, 8, lambda example: int(example.label))
    assert score(model, data, ["accuracy"]) == pytest.approx(expected)

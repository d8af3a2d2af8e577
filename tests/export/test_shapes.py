"""Lengths and batches of TFLite files; test_bad_input.py has inputs that LiteRT refuses."""

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from albert_tf_export import export_tflite


def shape_of(signature):
    (shape,) = {
        tuple(each["shape_signature"].tolist()) for each in signature.get_input_details().values()
    }
    return shape


def cut(features, rows, length):
    return {name: values[rows, :length] for name, values in features.items()}


@pytest.mark.slow
def test_buckets(checked, features, classifier, written):
    buckets = checked(export_tflite, classifier, max_length=None, lengths=(8, 16))
    interpreter = Interpreter(str(buckets.path))
    assert set(interpreter.get_signature_list()) == {"ids_8", "ids_16", "text"}
    assert set(buckets.differences) == {"ids_8", "ids_16", "text"}
    for length in (8, 16):
        signature = interpreter.get_signature_runner(f"ids_{length}")
        assert shape_of(signature) == (1, length)
        inputs = cut(features, slice(2, 3), length)
        expected = classifier(inputs)["logits"]
        np.testing.assert_allclose(signature(**inputs)["logits"], expected, rtol=0, atol=2e-6)
    weights = 4 * classifier.count_params()
    assert buckets.size < written(export_tflite).stat().st_size + weights / 2


@pytest.mark.parametrize(
    ("batch", "size"), [pytest.param(2, 2, marks=pytest.mark.slow), (None, -1)]
)
def test_batches(batch, size, checked, classifier, features, logits):
    """The check's three rows don't fill the last batch of two."""
    report = checked(export_tflite, classifier, batch=batch)
    signature = Interpreter(str(report.path)).get_signature_runner("ids")
    assert shape_of(signature) == (size, -1)
    for rows, length in ((slice(0, 2), 24), (slice(1, 3), 12)):
        inputs = cut(features, rows, length)
        expected = classifier(inputs)["logits"]
        np.testing.assert_allclose(signature(**inputs)["logits"], expected, rtol=0, atol=2e-6)

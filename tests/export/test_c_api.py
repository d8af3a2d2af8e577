"""The C program, through TF Serving's loader, gives a SavedModel's strings the logits of Keras."""

import importlib.util
import io
from pathlib import Path

import numpy as np
import pytest
from albert_tf_export import export_saved_model

FIXTURES = Path(__file__).parents[1] / "capi" / "conftest.py"
_spec = importlib.util.spec_from_file_location("capi_fixtures", FIXTURES)
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)
c_program, text_operators = _fixtures.c_program, _fixtures.text_operators
serve_with_c, signature_tensors = _fixtures.serve_with_c, _fixtures.signature_tensors


@pytest.mark.parametrize("layers", ["loop", "unrolled"])
def test_serves_strings(layers, written, serve_with_c, signature_tensors, texts, logits):
    folder = written(export_saved_model, layers=layers)
    inputs, outputs = signature_tensors(folder)
    answer = serve_with_c(
        folder, inputs["text"], outputs["logits"], outputs["probabilities"], texts=texts
    )
    assert answer.returncode == 0, answer.stderr.decode()
    rows = np.loadtxt(io.BytesIO(answer.stdout), ndmin=2)
    np.testing.assert_allclose(rows[:, :3], logits, rtol=0, atol=2e-6)
    np.testing.assert_allclose(rows[:, 3:].sum(axis=1), 1, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_serves_a_tagger(checked, make_model, tokenizer, serve_with_c, signature_tensors):
    folder = checked(export_saved_model, "token-classification", check=False).path
    inputs, outputs = signature_tensors(folder)
    texts = ["a quiet delight", "the boat"]
    answer = serve_with_c(folder, inputs["text"], outputs["logits"], texts=texts)
    assert answer.returncode == 0, answer.stderr.decode()
    rows = np.loadtxt(io.BytesIO(answer.stdout), ndmin=2)
    features = dict(tokenizer(texts, padding=True, return_tensors="np"))
    expected = np.asarray(make_model("token-classification")(features)["logits"])
    found = rows.reshape(expected.shape)
    is_text = features["attention_mask"] == 1
    np.testing.assert_allclose(found[is_text], expected[is_text], rtol=0, atol=2e-6)

"""Both exporters take every task, and the exports agree with Keras."""

import json
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from albert_tf_export import export_saved_model, export_tflite
from albert_tf_export.options import SavedModelOptions
from albert_tf_export.saved_model import _SavedModel

from tests.export.conftest import TEXTS, archive_start

TASKS = (
    "encoder",
    "pretraining",
    "masked-lm",
    "regression",
    "several-labels",
    "token-classification",
    "question-answering",
    "answerability",
    "multiple-choice",
)


FORMS = (
    ("encoder", {"layers": "unrolled", "quantize": "float16"}, "ids"),
    ("answerability", {"quantize": "float16"}, "ids"),
    ("multiple-choice", {"quantize": "dynamic"}, "ids"),
    ("masked-lm", {"quantize": "dynamic", "predictions": 3}, "masked"),
)


def test_masked_words(model_of, tokenizer, features, tmp_path):
    """A SavedModel's signature `masked` scores only the given positions, in any order."""
    model = model_of("masked-lm")
    export = _SavedModel(model, tokenizer, tmp_path, SavedModelOptions(ids_only=True))
    ids, masked = export.signatures(model)
    assert (ids.name, masked.name) == ("ids", "masked")
    inputs = [tf.constant(features[spec.name]) for spec in ids.inputs]
    positions = tf.constant([[7, 0, 23]] * len(TEXTS))
    every = ids.function(*inputs)["logits"]
    found = masked.function(*inputs, positions)["logits"]
    expected = tf.gather(every, positions, batch_dims=1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(every, model(features)["logits"], rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_saved_model(task, checked):
    options = {"pooling": "mean"} if task == "encoder" else {}
    report = checked(export_saved_model, task, **options)
    masked = {"masked"} if task in ("pretraining", "masked-lm") else set()
    assert set(report.differences) == {"ids", "text"} | masked
    assert all(each.value < 1e-5 for each in report.differences.values())


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_tflite(task, checked):
    report = checked(export_tflite, task)
    assert set(report.differences) == {"text", "ids"}
    assert all(each.value < 1e-5 for each in report.differences.values())


@pytest.fixture(scope="module")
def taggers(make_model, word_pieces):
    """Returns a tagger of word pieces with two layers, and the one of its first layer."""
    deep = make_model("token-classification", vocab_size=word_pieces.vocab_size)
    return deep, deep.with_depth(1)


@pytest.mark.parametrize(
    ("export", "options"),
    [
        pytest.param(export_saved_model, {}, marks=pytest.mark.slow),
        (export_tflite, {"batch": None}),
    ],
)
def test_a_vocabulary_of_word_pieces(export, options, taggers, word_pieces, checked):
    report = checked(export, taggers[1], word_pieces, **options)
    assert set(report.differences) == {"text", "ids"}
    assert all(each.value < 1e-5 for each in report.differences.values())


def test_a_tagger_of_fewer_layers_in_c(checked, phone, taggers, word_pieces):
    """The file contains its depth, and a C program returns what Python returns.

    A tagger has outputs for each token; test_bad_input.py covers classifiers.
    """
    deep, shallow = taggers
    path = checked(export_tflite, shallow, word_pieces, batch=None).path
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("config.json"))["num_hidden_layers"] == 1
    signature = Interpreter(str(path)).get_signature_runner("ids")
    program = phone(path)
    for ids in ([[2, 9, 11, 30, 3]], [[2, 17, 3]] * 300, [[2, *range(4, 40), 3]], [[2, 9, 3]] * 2):
        values = np.array(ids, np.int32)
        arrays = (values, np.ones_like(values), np.zeros_like(values))
        row = dict(zip(("input_ids", "attention_mask", "token_type_ids"), arrays, strict=True))
        found, expected = program(**row), signature(**row)
        for name in ("logits", "probabilities"):
            np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-6)
    assert np.abs(found["logits"] - shallow(row)["logits"]).max() < 2e-6
    assert np.abs(found["logits"] - deep(row)["logits"]).max() > 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("task", "options", "signature"), FORMS)
def test_forms_of_tflite(task, options, signature, checked):
    report = checked(export_tflite, task, ids_only=True, **options)
    assert report.differences[signature].share < 1
    assert list(Interpreter(str(report.path)).get_signature_list()) == [signature]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "fields"),
    [
        ("loop", {"num_hidden_groups": 2, "inner_group_num": 2}),
        ("loop", {"share": "attention", "inner_group_num": 2}),
        ("unrolled", {"share": "ffn", "num_hidden_groups": 2}),
        ("loop", {"share": "none"}),
    ],
)
def test_other_sharing(layers, fields, make_model, checked):
    """Shared weights are stored once. Other lengths would need more operators."""
    model = make_model("token-classification", num_hidden_layers=4, **fields)
    report = checked(export_tflite, model, ids_only=True, layers=layers, lengths=(24,))
    (difference,) = report.differences.values()
    assert difference.value < 1e-5
    weights = 4 * model.count_params()
    assert weights < archive_start(report.path) < weights + 150_000

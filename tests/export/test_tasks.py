"""Both exporters take every task, and the exports agree with Keras."""

import json
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from albert_tf_export import export_saved_model, export_tflite

from tests.export.conftest import archive_start

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


def by_task(*quick):
    return [task if task in quick else pytest.param(task, marks=pytest.mark.slow) for task in TASKS]


FORMS = (
    ("encoder", {"layers": "unrolled", "quantize": "float16"}, "ids"),
    ("pretraining", {"quantize": "float16"}, "ids"),
    ("token-classification", {"quantize": "dynamic"}, "ids"),
    ("answerability", {"quantize": "float16"}, "ids"),
    ("multiple-choice", {"quantize": "dynamic"}, "ids"),
    ("masked-lm", {"quantize": "dynamic", "predictions": 3}, "masked"),
)


@pytest.mark.parametrize("task", by_task("answerability", "masked-lm"))
def test_saved_model(task, checked):
    options = {"pooling": "mean"} if task == "encoder" else {}
    report = checked(export_saved_model, task, **options)
    masked = {"masked"} if task in ("pretraining", "masked-lm") else set()
    assert set(report.differences) == {"ids", "text"} | masked
    assert all(each.value < 1e-5 for each in report.differences.values())


@pytest.mark.parametrize("task", by_task("multiple-choice", "token-classification"))
def test_tflite(task, checked):
    report = checked(export_tflite, task)
    assert set(report.differences) == {"text", "ids"}
    assert all(each.value < 1e-5 for each in report.differences.values())


@pytest.mark.slow
@pytest.mark.parametrize(("task", "options", "signature"), FORMS)
def test_forms_of_tflite(task, options, signature, checked):
    report = checked(export_tflite, task, ids_only=True, **options)
    assert report.differences[signature].share < 1
    assert list(Interpreter(str(report.path)).get_signature_list()) == [signature]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("export", "options", "fields"),
    [
        (export_saved_model, {}, {"num_hidden_groups": 2, "inner_group_num": 2}),
        (export_tflite, {}, {"num_hidden_groups": 2, "inner_group_num": 2}),
        (export_tflite, {}, {"share": "attention", "inner_group_num": 2}),
        (export_tflite, {"layers": "unrolled"}, {"share": "ffn", "num_hidden_groups": 2}),
        (export_tflite, {}, {"share": "none"}),
    ],
)
def test_other_sharing(export, options, fields, make_model, checked):
    model = make_model("token-classification", num_hidden_layers=4, **fields)
    if export is export_tflite:  # Other lengths need more operators.
        options = {**options, "lengths": (24,)}
    report = checked(export, model, ids_only=True, **options)
    (difference,) = report.differences.values()
    assert difference.value < 1e-5
    weights = 4 * model.count_params()
    if export is export_tflite:  # Shared weights are stored once.
        assert weights < archive_start(report.path) < weights + 150_000


def test_a_model_of_fewer_layers(make_classifier, checked, features):
    """It is compared with Keras like any model, and its file contains its depth."""
    model = make_classifier(num_hidden_layers=3)
    shallow = model.with_depth(1)
    path = checked(export_tflite, shallow, ids_only=True).path
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("config.json"))["num_hidden_layers"] == 1
    row = {name: value[:1] for name, value in features.items()}
    found = Interpreter(str(path)).get_signature_runner("ids")(**row)["logits"]
    np.testing.assert_allclose(found, shallow(row)["logits"], rtol=0, atol=2e-6)
    assert np.abs(found - model(row)["logits"]).max() > 0.01


def test_two_empty_texts_give_a_beam(checked):
    served = tf.saved_model.load(checked(export_saved_model, "answerability").path)
    rows = {"input_ids": [[2, 3, 3]], "attention_mask": [[1, 1, 1]], "token_type_ids": [[0, 0, 1]]}
    answer = served.signatures["ids"](**{name: tf.constant(row) for name, row in rows.items()})
    assert answer["start_top_index"].shape == (1, 5)
    assert answer["start_top_index"].numpy()[0, 0] == 0
    answer = served.signatures["text"](text=tf.constant([""]), text_pair=tf.constant([""]))
    assert answer["answer"].numpy().tolist() == [b""]

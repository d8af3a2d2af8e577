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
MASKED = ("pretraining", "masked-lm")


def by_task(*quick):
    return [task if task in quick else pytest.param(task, marks=pytest.mark.slow) for task in TASKS]


FORMS = (
    *((task, "loop", "float16") for task in TASKS if task != "encoder"),
    ("encoder", "unrolled", "float16"),
    ("multiple-choice", "loop", "dynamic"),
)


@pytest.mark.parametrize("task", by_task("answerability", "masked-lm"))
def test_saved_model(task, checked):
    options = {"encoder": {"pooling": "mean"}, "pretraining": {"ids_only": True}}.get(task, {})
    report = checked(export_saved_model, task, **options)
    expected = {"ids"} | ({"masked"} if task in MASKED else set())
    assert set(report.differences) == expected | ({"text"} if task != "pretraining" else set())
    assert all(each.value < 1e-5 for each in report.differences.values())


@pytest.mark.parametrize("task", by_task("multiple-choice", "token-classification"))
def test_tflite(task, checked):
    report = checked(export_tflite, task)
    assert set(report.differences) == {"text", "ids"}
    assert all(each.value < 1e-5 for each in report.differences.values())


@pytest.mark.slow
@pytest.mark.parametrize(("task", "layers", "quantize"), FORMS)
def test_forms_of_tflite(task, layers, quantize, checked):
    report = checked(export_tflite, task, layers=layers, quantize=quantize, ids_only=True)
    assert all(0 <= each.share < 1 for each in report.differences.values())
    assert list(Interpreter(str(report.path)).get_signature_list()) == ["ids"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("export", "options", "fields"),
    [
        (export_saved_model, {}, {"num_hidden_groups": 2, "inner_group_num": 2}),
        (export_tflite, {}, {"share": "attention", "inner_group_num": 2}),
        (export_tflite, {"layers": "unrolled"}, {"share": "ffn", "num_hidden_groups": 2}),
        (export_tflite, {}, {"share": "none"}),
    ],
)
def test_other_sharing(export, options, fields, make_model, checked):
    model = make_model("token-classification", num_hidden_layers=3, **fields)
    if export is export_tflite:
        options = {**options, "lengths": (24,), "max_length": None}
    report = checked(export, model, ids_only=True, **options)
    (difference,) = report.differences.values()
    assert difference.value < 1e-5
    weights = 4 * model.count_params()
    if export is export_tflite:
        # Shared weights are stored once; other lengths need more operators.
        assert weights < archive_start(report.path) < weights + 150_000


@pytest.mark.parametrize("export", [export_saved_model, export_tflite])
def test_a_model_of_fewer_layers(export, make_classifier, checked, features):
    """Is compared with Keras as any model, and its file says its depth."""
    model = make_classifier(num_hidden_layers=3)
    shallow = model.with_depth(1)
    report = checked(export, shallow, ids_only=True)
    assert report.differences["ids"].value < 1e-5
    if export is export_tflite:
        with zipfile.ZipFile(report.path) as archive:
            assert json.loads(archive.read("config.json"))["num_hidden_layers"] == 1
        signature = Interpreter(str(report.path)).get_signature_runner("ids")
        row = {name: value[:1] for name, value in features.items()}
        found = signature(**row)["logits"]
        np.testing.assert_allclose(found, shallow(row)["logits"], rtol=0, atol=2e-6)
        assert np.abs(found - model(row)["logits"]).max() > 0.01


def test_saved_models_take_any_number_of_choices(checked, make_model, tokenizer):
    loaded = tf.saved_model.load(checked(export_saved_model, "multiple-choice").path)
    first = ["The film", "the film", "A boat", "a boat", "", "kind people"]
    second = ["was dull", "died", "came to see", "", "", "smoke in the room"]
    text, pair = (tf.reshape(tf.constant(each), (3, 2)) for each in (first, second))
    answer = loaded.signatures["text"](text=text, text_pair=pair)
    flat = tokenizer(first, second, padding=True, return_tensors="np")
    features = {name: value.reshape(3, 2, -1) for name, value in flat.items()}
    expected = make_model("multiple-choice")(features)["logits"]
    np.testing.assert_allclose(answer["logits"], expected, rtol=0, atol=2e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be as many"):
        loaded.signatures["text"](text=text, text_pair=tf.reshape(pair, (2, 3)))


def test_two_empty_texts_give_a_beam(checked):
    served = tf.saved_model.load(checked(export_saved_model, "answerability").path)
    rows = {"input_ids": [[2, 3, 3]], "attention_mask": [[1, 1, 1]], "token_type_ids": [[0, 0, 1]]}
    answer = served.signatures["ids"](**{name: tf.constant(row) for name, row in rows.items()})
    assert answer["start_top_index"].shape == (1, 5)
    assert answer["start_top_index"].numpy()[0, 0] == 0
    answer = served.signatures["text"](text=tf.constant([""]), text_pair=tf.constant([""]))
    assert answer["answer"].numpy().tolist() == [b""]


def test_masked_words_on_a_phone(checked):
    """Replaces `ids` by `masked`, which computes no logits at other positions."""
    report = checked(export_tflite, "masked-lm", predictions=3, ids_only=True, quantize="dynamic")
    assert set(report.differences) == {"masked"}
    signature = Interpreter(str(report.path)).get_signature_runner("masked")
    assert signature.get_input_details()["masked_lm_positions"]["shape"].tolist() == [1, 3]
    assert signature.get_output_details()["logits"]["shape"].tolist() == [1, 3, 124]

import keras
import numpy as np
import pytest
import tensorflow as tf
from albert_tf_export import export_saved_model, signatures
from albert_tf_export.signatures import task_outputs, with_task_outputs

from albert_tf.errors import UserError
from albert_tf.models import AlbertModel
from albert_tf.tasks import TASKS

B, T, H, V, C = 5, 24, 32, 124, 3
SHAPES = {
    "encoder": {"last_hidden_state": (B, T, H), "pooler_output": (B, H)},
    "pretraining": {
        "prediction_logits": (B, T, V),
        "sop_logits": (B, 2),
        "sop_probabilities": (B, 2),
    },
    "masked-lm": {"logits": (B, T, V)},
    "sequence-classification": {
        "logits": (B, C),
        "probabilities": (B, C),
        "label": (B,),
        "classes": (B, C),
    },
    "token-classification": {
        "logits": (B, T, C),
        "probabilities": (B, T, C),
        "labels": (B, T),
        "classes": (B, C),
    },
    "question-answering": {"start_logits": (B, T), "end_logits": (B, T)},
    "answerability": {
        "start_top_log_probs": (B, 5),
        "start_top_index": (B, 5),
        "end_top_log_probs": (B, 25),
        "end_top_index": (B, 25),
        "cls_logits": (B,),
    },
}
STRINGS = ("label", "labels", "classes")


def test_choices_have_an_axis_of_their_own(make_model):
    model = make_model("multiple-choice")
    signature = signatures.ids_signature(model, unroll=True, batch=1, length=9, choices=5)
    assert {tuple(each.shape) for each in signature.inputs} == {(1, 5, 9)}


def test_a_limit_on_bytes(classifier, tokenizer, tmp_path):
    export_saved_model(classifier, tokenizer, tmp_path / "1", max_bytes=1024, check=False)
    served = tf.saved_model.load(tmp_path / "1")

    def logits(text):
        return served.signatures["text"](text=tf.constant([text]))["logits"]

    # White space takes bytes and no pieces.
    np.testing.assert_array_equal(logits(" " * 1022 + "a boat"), logits("a "))
    np.testing.assert_array_equal(logits(" " * 1018 + "a boat"), logits("a boat"))
    with pytest.raises(UserError, match="max_bytes must be 1024 or more. Received: 1023"):
        export_saved_model(classifier, tokenizer, tmp_path / "2", max_bytes=1023, max_length=24)


@pytest.mark.parametrize("unroll", [True, False])
@pytest.mark.parametrize("task", SHAPES)
def test_outputs(task, unroll, make_model, features, tokenizer):
    assert tokenizer.vocab_size == V
    model = make_model(task)
    found = task_outputs(model, features, unroll)
    assert {name: tuple(value.shape) for name, value in found.items()} == SHAPES[task]
    for name, value in found.items():
        expected = "string" if name in STRINGS else "int32" if "index" in name else "float32"
        assert value.dtype.name == expected
    for name, value in model(features).items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-5)


def test_an_encoder_without_a_pooler(classifier, features):
    model = AlbertModel(classifier.config, add_pooling_layer=False)
    assert set(task_outputs(model, features, True)) == {"last_hidden_state"}


def test_regression(make_classifier, features):
    found = task_outputs(make_classifier(id2label={0: "stars"}), features, True)
    assert set(found) == {"logits", "value"}
    np.testing.assert_array_equal(found["value"], found["logits"])


def test_several_labels(make_classifier, features):
    model = make_classifier(problem_type="multi_label_classification")
    found = task_outputs(model, features, True)
    np.testing.assert_allclose(found["probabilities"], tf.sigmoid(found["logits"]), atol=1e-6)


def test_labels_without_names(make_classifier, features):
    found = task_outputs(make_classifier(id2label=None), features, True)
    assert found["classes"].numpy()[0].tolist() == [b"LABEL_0", b"LABEL_1"]


def test_a_model_without_a_task():
    known = ", ".join(task.model for task in TASKS.values())
    with pytest.raises(TypeError, match=f"must be one of {known}. Received: Sequential"):
        with_task_outputs(keras.Sequential(), {})

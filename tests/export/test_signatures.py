import numpy as np
import pytest
import tensorflow as tf
from albert_tf_export import export_saved_model
from albert_tf_export.signatures import task_outputs

from albert_tf.models import AlbertModel

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


def test_a_limit_on_bytes(classifier, tokenizer, tmp_path):
    """White space takes bytes and no tokens."""
    export_saved_model(classifier, tokenizer, tmp_path / "1", max_bytes=1024, check=False)
    served = tf.saved_model.load(tmp_path / "1")
    texts = [" " * 1022 + "a boat", "a ", " " * 1018 + "a boat", "a boat"]
    cut, short, whole, same = served.signatures["text"](text=tf.constant(texts))["logits"]
    np.testing.assert_allclose(cut, short, rtol=0, atol=1e-6)
    np.testing.assert_allclose(whole, same, rtol=0, atol=1e-6)
    assert np.abs(cut - whole).max() > 0.01


@pytest.mark.parametrize("task", SHAPES)
def test_outputs(task, make_model, features, tokenizer):
    assert tokenizer.vocab_size == V
    model = make_model(task)
    found = task_outputs(model, features, unroll=True)
    assert {name: tuple(value.shape) for name, value in found.items()} == SHAPES[task]
    for name, value in found.items():
        expected = "string" if name in STRINGS else "int32" if "index" in name else "float32"
        assert value.dtype.name == expected
    for name, value in model(features).items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-5)


def test_outputs_by_the_configuration(make_classifier, features):
    model = AlbertModel(make_classifier().config, add_pooling_layer=False)
    assert set(task_outputs(model, features, True)) == {"last_hidden_state"}
    found = task_outputs(make_classifier(id2label={0: "stars"}), features, True)
    assert set(found) == {"logits", "value"}
    np.testing.assert_array_equal(found["value"], found["logits"])
    model = make_classifier(problem_type="multi_label_classification")
    found = task_outputs(model, features, True)
    np.testing.assert_allclose(found["probabilities"], tf.sigmoid(found["logits"]), atol=1e-6)

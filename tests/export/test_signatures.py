import numpy as np
import pytest
import tensorflow as tf
from albert_tf_export.signatures import task_outputs, text_signature

from albert_tf.models import AlbertModel
from albert_tf.text.preprocessing import AlbertPreprocessor

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


@pytest.mark.parametrize("task", SHAPES)
def test_outputs(task, model_of, features, tokenizer):
    assert tokenizer.vocab_size == V
    model = model_of(task)
    found = task_outputs(model, features, unroll=True)
    assert {name: tuple(value.shape) for name, value in found.items()} == SHAPES[task]
    for name, value in found.items():
        expected = "string" if name in STRINGS else "int32" if "index" in name else "float32"
        assert value.dtype.name == expected
    for name, value in model(features).items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-5)


def test_texts_of_choices(model_of, tokenizer):
    model = model_of("multiple-choice")
    preprocessor = AlbertPreprocessor(tokenizer, 24, padding="longest")
    first = [["A quiet delight.", "slow", ""], ["a boat"] * 3]
    second = [["fair prices", "", "kind people"], ["noisy " * 40, "mess", "a boat"]]
    call = text_signature(model, preprocessor, unroll=True, pairs=True).function
    found = call(tf.constant(first), tf.constant(second))
    rows = [text for row in first for text in row], [text for row in second for text in row]
    encoded = tokenizer(*rows, padding=True, truncation=True, return_tensors="np")
    features = {name: value.reshape(2, 3, -1) for name, value in dict(encoded).items()}
    np.testing.assert_allclose(found["logits"], model(features)["logits"], rtol=0, atol=2e-6)


def test_two_empty_texts_give_a_beam(model_of):
    """A beam has five positions, and the row has three."""
    row = {"input_ids": [[2, 3, 3]], "attention_mask": [[1, 1, 1]], "token_type_ids": [[0, 0, 1]]}
    tensors = {name: tf.constant(each) for name, each in row.items()}
    answer = task_outputs(model_of("answerability"), tensors, unroll=True)
    assert answer["start_top_index"].shape == (1, 5)
    assert answer["start_top_index"].numpy()[0, 0] == 0


def test_outputs_by_the_configuration(model_of, features):
    model = AlbertModel(model_of("encoder").config, add_pooling_layer=False)
    assert set(task_outputs(model, features, True)) == {"last_hidden_state"}
    found = task_outputs(model_of("regression"), features, True)
    assert set(found) == {"logits", "value"}
    np.testing.assert_array_equal(found["value"], found["logits"])
    found = task_outputs(model_of("several-labels"), features, True)
    np.testing.assert_allclose(found["probabilities"], tf.sigmoid(found["logits"]), atol=1e-6)

import keras
import numpy as np
import pytest
import tensorflow as tf
from albert_tf_export import export_saved_model, signatures
from albert_tf_export.signatures import task_outputs, with_task_outputs

from albert_tf.errors import UserError
from albert_tf.models import AlbertModel
from albert_tf.tasks import TASKS
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


def test_fixed_shapes(classifier):
    signature = signatures.ids_signature(classifier, unroll=True, batch=1, length=9)
    assert {tuple(each.shape) for each in signature.inputs} == {(1, 9)}
    assert {each.dtype.name for each in signature.inputs} == {"int32"}
    names = [each.name for each in signature.inputs]
    assert names == ["input_ids", "attention_mask", "token_type_ids"]


def test_choices_have_an_axis_of_their_own(make_model, tokenizer):
    model = make_model("multiple-choice")
    signature = signatures.ids_signature(model, unroll=True, batch=1, length=9, choices=5)
    assert {tuple(each.shape) for each in signature.inputs} == {(1, 5, 9)}
    preprocessor = AlbertPreprocessor(tokenizer, 24, padding="longest")
    signature = signatures.text_signature(model, preprocessor, unroll=True, pairs=True)
    assert [each.name for each in signature.inputs] == ["text", "text_pair"]
    assert {tuple(each.shape) for each in signature.inputs} == {(None, None)}
    texts = tf.constant([["noise", "a quiet boat"], ["", "smoke"], ["kind", "people"]])
    assert signature.function(texts, texts)["logits"].shape == (3, 2)


@pytest.mark.parametrize("task", ["masked-lm", "pretraining"])
def test_positions(task, make_model):
    model = make_model(task)
    assert model.task.takes_positions
    signature = signatures.masked_signature(model, unroll=True, batch=1, length=9, predictions=4)
    *others, positions = signature.inputs
    assert [each.name for each in others] == ["input_ids", "attention_mask", "token_type_ids"]
    assert positions == tf.TensorSpec([1, 4], tf.int32, "masked_lm_positions")


@pytest.mark.parametrize(
    ("task", "by_piece"),
    [
        ("encoder", True),
        ("pretraining", True),
        ("masked-lm", True),
        ("token-classification", True),
        ("question-answering", True),
        ("sequence-classification", False),
        ("multiple-choice", False),
    ],
)
def test_text_gives_back_its_pieces_where_outputs_belong_to_them(
    task, by_piece, make_model, tokenizer
):
    model = make_model(task)
    pairs = task in ("question-answering", "multiple-choice")
    preprocessor = AlbertPreprocessor(tokenizer, 24, padding="longest")
    signature = signatures.text_signature(model, preprocessor, unroll=True, pairs=pairs)
    texts = tf.constant(["", "a quiet delight"])
    if model.task.has_choices:
        texts = texts[None]
    outputs = signature.function(*[texts] * (1 + pairs))
    pieces = tokenizer(
        ["", "a quiet delight"],
        ["", "a quiet delight"] if pairs else None,
        padding=True,
        return_tensors="np",
    )
    for name, value in pieces.items():
        assert (name in outputs) == by_piece
        if by_piece:
            assert outputs[name].numpy().tolist() == value.tolist()


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


def test_choices(make_model, features):
    model = make_model("multiple-choice")
    features = {
        name: np.stack([value[:2], value[2:4], value[3:]]) for name, value in features.items()
    }
    found = task_outputs(model, features, False)
    assert found["logits"].shape == (3, 2)
    np.testing.assert_allclose(found["logits"], model(features)["logits"], rtol=0, atol=2e-6)
    np.testing.assert_allclose(tf.reduce_sum(found["probabilities"], axis=1), 1, atol=1e-6)


def test_an_encoder_without_a_pooler(classifier, features):
    model = AlbertModel(classifier.config, add_pooling_layer=False)
    assert set(task_outputs(model, features, True)) == {"last_hidden_state"}


@pytest.mark.parametrize("task", ["masked-lm", "pretraining"])
def test_logits_at_some_positions_alone(task, make_model, features):
    model = make_model(task)
    name = {"masked-lm": "logits", "pretraining": "prediction_logits"}[task]
    positions = np.array([[3, 0], [1, 1], [2, 5], [4, 3], [20, 7]], "int32")
    some = task_outputs(model, {**features, "masked_lm_positions": positions}, True)[name]
    every = task_outputs(model, features, True)[name]
    np.testing.assert_allclose(some, tf.gather(every, positions, batch_dims=1), rtol=0, atol=1e-5)


def test_a_beam_needs_places(make_model):
    """Pads three pieces to the width of a beam."""
    model = make_model("answerability")
    ids = tf.constant([[2, 3, 3]])
    features = {
        "input_ids": ids,
        "attention_mask": tf.ones_like(ids),
        "token_type_ids": tf.constant([[0, 0, 1]]),
    }
    found = task_outputs(model, features, True)
    assert found["start_top_index"].shape == (1, 5)
    assert found["start_top_index"].numpy()[0, 0] == 0  # [CLS], the only possible position
    assert found["start_top_log_probs"].numpy()[0, 1] < -1e29
    np.testing.assert_allclose(
        found["cls_logits"], model(dict(features))["cls_logits"], rtol=0, atol=2e-6
    )


def test_labels_are_the_likeliest(make_model, features):
    model = make_model("token-classification")
    found = task_outputs(model, features, True)
    labels = np.array([b"bad", "naïve".encode(), b"good"])
    best = found["logits"].numpy().argmax(axis=-1)
    assert len(set(best.ravel())) > 1
    assert found["labels"].numpy().tolist() == labels[best].tolist()
    assert found["classes"].numpy().tolist() == [labels.tolist()] * B


def test_a_classifiers_label(classifier, features, logits):
    found = task_outputs(classifier, features, False)
    np.testing.assert_allclose(found["logits"], logits, rtol=0, atol=2e-6)
    labels = np.array(["bad", "naïve", "good"])
    assert [each.decode() for each in found["label"].numpy()] == list(labels[logits.argmax(-1)])


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

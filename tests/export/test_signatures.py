import pytest
import tensorflow as tf
from albert_tf_export import signatures

from albert_tf.text.preprocessing import AlbertPreprocessor


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
    assert signatures.takes_positions(model)
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
    if signatures.has_choices(model):
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

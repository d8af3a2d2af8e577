import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the operator that the exports contain)
from albert_tf_export import export_saved_model, signatures

from albert_tf.errors import UserError
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


@pytest.fixture(scope="module")
def served(written):
    """The loaded object, which the functions refer to only weakly, and its signatures."""
    loaded = tf.saved_model.load(written(export_saved_model))
    return loaded, loaded.signatures


def padded_by_the_server(tensor, length):
    """TF Serving's `pad_variable_length_inputs`: pads with a tensor's first element."""
    fill = tensor.ravel()[0]
    return np.pad(tensor, [(0, 0), (0, length - tensor.shape[1])], constant_values=fill)


def test_padding_by_the_server(served, tokenizer, classifier):
    """Wrong where the mask is an input; right where the mask follows from the ids."""
    requests = [("a quiet boat", None), ("smoke", "the film was dull and slow")]
    encoded = [dict(tokenizer(*texts, return_tensors="np")) for texts in requests]
    length = max(each["input_ids"].shape[1] for each in encoded) + 2
    batch = {
        name: np.concatenate([padded_by_the_server(each[name], length) for each in encoded])
        for name in encoded[0]
    }
    expected = np.concatenate([classifier(each)["logits"] for each in encoded])
    trapped = served[1]["ids"](**{name: tf.constant(value) for name, value in batch.items()})
    assert np.abs(trapped["logits"] - expected).max() > 0.01
    answer = served[1]["padded_ids"](input_ids=tf.constant(batch["input_ids"]))
    np.testing.assert_allclose(answer["logits"], expected, rtol=0, atol=2e-6)
    # Padding by the client, then by the server.
    batch["input_ids"][:, -1] = 0
    both = padded_by_the_server(batch["input_ids"], length + 3)
    answer = served[1]["padded_ids"](input_ids=tf.constant(both))
    np.testing.assert_allclose(answer["logits"], expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    "row",
    [
        [5, 9, 3],  # the server would pad with 5
        [2, 9, 8, 0, 0],  # no [SEP]
        [2, 9, 0, 8, 3],
        [2, 9, 2, 8, 3],
        [2, 9, 3, 8, 3, 7, 3],
        [0, 0, 2, 9, 3],
        [0, 0],
        [],
    ],
)
def test_rows_whose_padding_is_unclear(row, served):
    rows = [[2, 9, 3, 0, 0, 0, 0][: len(row)], row]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Each row of input_ids must be"):
        served[1]["padded_ids"](input_ids=tf.constant(rows, tf.int32))


def test_a_limit_on_bytes(classifier, tokenizer, tmp_path):
    export_saved_model(classifier, tokenizer, tmp_path / "1", max_bytes=1024, check=False)
    served = tf.saved_model.load(tmp_path / "1")

    def logits(text):
        return served.signatures["text"](text=tf.constant([text]))["logits"]

    # White space takes bytes and no pieces.
    np.testing.assert_array_equal(logits(" " * 1022 + "a boat"), logits("a "))
    np.testing.assert_array_equal(logits(" " * 1018 + "a boat"), logits("a boat"))
    with pytest.raises(UserError, match="at least 1024 for max_length=24. Received: 1023"):
        export_saved_model(classifier, tokenizer, tmp_path / "2", max_bytes=1023, max_length=24)

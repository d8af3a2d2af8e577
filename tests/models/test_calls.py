"""Calls of a model: inputs that it accepts or refuses, and its outputs."""

import keras
import numpy as np
import pytest

from albert_tf.errors import UserError
from albert_tf.models import (
    AlbertForMaskedLM,
    AlbertForSequenceClassification,
    AlbertModel,
    ModelOutput,
)

IDS = np.array([[5, 6, 7]])


@pytest.fixture(scope="module")
def encoder(shallow_config):
    return AlbertModel(shallow_config)


@pytest.fixture(scope="module")
def model(shallow_config):
    """A classifier that is never trained."""
    return AlbertForSequenceClassification(shallow_config)


def test_outputs():
    output = ModelOutput(logits=3, attentions=(4, 5))
    assert output["logits"] == output.logits == output[0] == 3
    assert output.to_tuple() == output[:2] == (3, (4, 5))
    assert output.loss is None
    with pytest.raises(AttributeError, match="output 'sop_logits'.* logits, attentions"):
        _ = output.sop_logits
    doubled = keras.tree.map_structure(lambda value: 2 * value, output)
    assert isinstance(doubled, ModelOutput)
    assert doubled == {"logits": 6, "attentions": (8, 10)}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"attention_mask": IDS}, "Received: neither"),
        ({"input_ids": IDS, "inputs_embeds": np.zeros((1, 3, 6))}, "Received: both"),
        ({"input_ids": IDS, "input_mask": IDS}, "Unknown inputs: input_mask"),
        ({"input_ids": [[5, 6]]}, "must be arrays or tensors.*a list for input_ids"),
        ({"input_ids": IDS, "attention_mask": [[1]]}, "a list for attention_mask"),
        ({"input_ids": IDS + 24}, "vocab_size=31. Received: .*29 to 31.*tokenizer"),
        ({"input_ids": IDS - 6}, r"input_ids must be in \[0, vocab_size\).*from -1 to 1"),
        ({"input_ids": IDS, "token_type_ids": IDS}, "type_vocab_size=2"),
        ({"input_ids": IDS, "position_ids": IDS + 4}, "position_ids must be in"),
        ({"input_ids": np.ones((1, 12), int)}, "max_position_embeddings=11"),
        ({"input_ids": IDS[0]}, r"input_ids must .* \[batch, length\]. Received shape \(3,\)"),
        ({"inputs_embeds": IDS}, r"inputs_embeds must .*embedding\].*\(1, 3\)"),
        ({"input_ids": IDS, "attention_mask": IDS[:, :1]}, "attention_mask must have the shap"),
        ({"input_ids": IDS, "token_type_ids": IDS[:, :1] * 0}, "token_type_ids must have the shap"),
        ({"input_ids": IDS, "position_ids": IDS[:, :1]}, "position_ids must have the shape"),
    ],
)
def test_inputs_that_are_refused(encoder, inputs, message):
    with pytest.raises(ValueError, match=message):
        encoder(inputs)


def test_positions_outside_the_sequence(shallow_config):
    model = AlbertForMaskedLM(shallow_config)
    for position in (3, -1):
        with pytest.raises(ValueError, match=r"masked_lm_positions must be in \[0, length\)"):
            model(IDS, masked_lm_positions=np.array([[position]]))


def test_arguments_that_no_model_has(model):
    with pytest.raises(TypeError, match="unexpected keyword argument 'segment_ids'"):
        model(IDS, segment_ids=IDS)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("input_ids", 0.9, "be whole numbers. Received: 0.9"),
        ("token_type_ids", 0.9, "be whole numbers. Received: 0.9"),
        ("position_ids", 0.9, "be whole numbers. Received: 0.9"),
        ("input_ids", -1, r"be in \[0, "),
        ("token_type_ids", 2, r"be in \[0, "),
    ],
)
def test_ids_that_no_row_of_a_table_has(model, small_features, name, value, message):
    """Keras's lookup would return another row."""
    model.compile("sgd")
    features = {**small_features, name: np.full((2, 7), value)}
    for call in (model, model.predict, lambda x: model.evaluate(x, np.array([0, 2]))):
        with pytest.raises(ValueError, match=f"{name} must {message}"):
            call(features)


def test_texts_and_names_in_place_of_numbers(shallow_config, model, small_features):
    model.compile("sgd")
    masked_lm = AlbertForMaskedLM(shallow_config)
    with pytest.raises(UserError, match="must be numbers. Received: 'Dull.', … as input_ids"):
        model("Dull.")
    names, texts = ["no", "yes"], ["A quiet film.", "Dull."]
    message = "label2id .LABEL_0, LABEL_1.*Received: 'no'.*id2label="
    for form in (list, np.array, lambda values: np.array(values, object)):
        with pytest.raises(UserError, match=message):
            model.fit(small_features, form(names), verbose=0)
        with pytest.raises(UserError, match="model.tokenizer = "):
            model.fit(form(texts), np.array([0, 2]), verbose=0)
        with pytest.raises(UserError, match="Received: 'A quiet film.', … as input_ids"):
            masked_lm.predict(form(texts), verbose=0)


@pytest.mark.tensorflow
def test_strings_of_a_dataset(model, small_features):
    import tensorflow as tf

    model.compile("sgd")
    names, labels = np.array(["no", "yes"]), np.array([0, 2])
    for examples, name in (((small_features, names), "labels"), ((names, labels), "input_ids")):
        with pytest.raises(UserError, match=f"must be numbers. Received: '…', … as {name}"):
            model.fit(tf.data.Dataset.from_tensors(examples), verbose=0)

"""Calls that users of `TFAlbert*` write in the first hour work, or say what to do instead."""

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.models import (
    AlbertForMaskedLM,
    AlbertForPreTraining,
    AlbertForSequenceClassification,
    AlbertModel,
    load_pretrained,
)

V = 31  # shallow_config's


@pytest.fixture(scope="module")
def model(shallow_config):
    return AlbertForSequenceClassification(shallow_config)


def arrays(outputs):
    return {name: ops.convert_to_numpy(value) for name, value in outputs.items()}


@pytest.mark.parametrize("labels", [[0, 2], (0, 2)])
def test_labels_as_lists(model, small_features, labels):
    expected = float(model(small_features, labels=np.array(labels)).loss)
    assert float(model(small_features, labels=labels).loss) == expected
    assert float(model({**small_features, "labels": labels}).loss) == expected


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"return_dict": False}, "True or left out. .*outputs.to_tuple"),
        ({"head_mask": np.ones((3, 5))}, "None or left out. Received: head_mask"),
        ({"labels": ["no", "yes"]}, "numbers. Received: 'no', … as labels"),
        ({"labels": [[0, 1], [1]]}, "labels must have the same length.*-100"),
    ],
)
def test_arguments_that_say_what_to_do(model, small_features, argument, message):
    with pytest.raises(UserError, match=message):
        model(small_features, **argument)


def test_inputs_by_position(model, small_features):
    message = "by name: model.{'input_ids': …, 'attention_mask': …, .*Received: a list of 3"
    for call in (model, model.predict):
        with pytest.raises(ValueError, match=message):
            call(list(small_features.values()))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"output_attentions": True}, r"Pass it to each call: model\(inputs, output_attentions=Tr"),
        ({"torch_dtype": "float16"}, "torch_dtype must be None or .* Pass dtype='mixed_float16'"),
        ({"device_map": "auto"}, "Received: device_map='auto'. Load the model within keras.device"),
    ],
)
def test_options_of_from_pretrained_that_say_what_to_do(model, tmp_path, option, message):
    model.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=message):
        load_pretrained(tmp_path, **option)
    load_pretrained(tmp_path, output_attentions=False, torch_dtype=None, from_pt=True)


def test_the_losses_of_compile(shallow_config, small_features):
    model = AlbertForSequenceClassification(shallow_config)
    model.compile("sgd", loss=model.compute_loss, run_eagerly=True)
    with pytest.raises(UserError, match="labels=labels"):
        model.fit(small_features, np.array([0, 2]), verbose=0)


def test_options_of_calls_in_the_configuration(model):
    message = r"must be False or left out. .*Pass it to each call: model\(inputs, output_hidden_st"
    for change in (
        lambda: setattr(model.config, "output_hidden_states", True),
        lambda: model.config.replace(output_hidden_states=True),
        lambda: AlbertConfig(output_hidden_states=True),
    ):
        with pytest.raises(UserError, match=message):
            change()


def test_counts_of_parameters(shallow_config):
    model = AlbertForSequenceClassification(shallow_config)
    assert model.num_parameters() == model.count_params()
    model.albert.trainable = False
    assert model.num_parameters(only_trainable=True) == 3 * 20 + 3


def test_another_configuration(shallow_config, tmp_path):
    AlbertModel(shallow_config).save_pretrained(tmp_path)
    config = AlbertConfig.from_pretrained(tmp_path, num_labels=4, hidden_dropout_prob=0.3)
    load = AlbertForSequenceClassification.from_pretrained
    assert load(tmp_path, config=config).config == config
    assert load(tmp_path, config=config, num_labels=5).config.num_labels == 5
    assert AlbertForSequenceClassification.from_config(config).config == config
    with pytest.raises(TypeError, match="an AlbertConfig. Received: 'config.json'"):
        load(tmp_path, config="config.json")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "size"), [(AlbertForMaskedLM, V + 6), (AlbertForPreTraining, V - 2)]
)
def test_another_vocabulary(shallow_config, small_features, scrambled, tmp_path, cls, size):
    """Weights, configuration, decoder and bias follow, in memory and in both kinds of files."""
    model = scrambled(cls(shallow_config))
    shared = min(size, V)
    features = {**small_features, "input_ids": small_features["input_ids"] % shared}
    before = arrays(model(features))
    layer = model.resize_token_embeddings(size)
    assert layer.weight is model.get_input_embeddings().weight
    after = arrays(model(features))
    for name, values in before.items():
        width = 2 if name == "sop_logits" else shared
        assert after[name].shape[-1] == (2 if name == "sop_logits" else size)
        np.testing.assert_allclose(after[name][..., :width], values[..., :width], atol=1e-6)
    assert model.config == shallow_config.replace(vocab_size=size, id2label=model.config.id2label)
    with pytest.raises(ValueError, match=f"vocab_size={size}"):
        model(np.array([[size]]))
    fresh = cls(model.config, name=model.name)
    assert [weight.path for weight in fresh.weights] == [weight.path for weight in model.weights]
    model.save_pretrained(tmp_path)
    model.save(tmp_path / "model.keras")
    for again in (cls.from_pretrained(tmp_path), keras.models.load_model(tmp_path / "model.keras")):
        assert again.config == model.config
        found = arrays(again(features))
        for name in after:
            np.testing.assert_array_equal(found[name], after[name])


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_embeddings_of_ids(shallow_config, small_features, dtype):
    """`get_input_embeddings()(ids)` is what `inputs_embeds` takes, also where E = H."""
    for config in (shallow_config, shallow_config.replace(embedding_size=20)):
        model = AlbertForSequenceClassification(config, dtype=dtype)
        inputs = dict(small_features)
        layer = model.get_input_embeddings()
        embeds = layer(inputs.pop("input_ids"))
        found = model(inputs_embeds=embeds, **inputs).logits
        np.testing.assert_array_equal(found, model(small_features).logits)
    with pytest.raises(ValueError, match=r"input_ids must be in \[0, vocab_size\)"):
        layer(np.array([[V]]))


def test_embeddings_of_ids_in_a_functional_model(shallow_config, small_features, tmp_path):
    model = AlbertForSequenceClassification(shallow_config)
    ids = keras.Input((None,), dtype="int32")
    whole = keras.Model(ids, model(inputs_embeds=model.get_input_embeddings()(ids)).logits)
    expected = model(small_features["input_ids"]).logits
    np.testing.assert_allclose(whole(small_features["input_ids"]), expected, atol=1e-6)
    assert len(whole.weights) == len(model.weights)
    with pytest.raises(ValueError, match="get_input_embeddings layer can't be saved"):
        whole.save(tmp_path / "model.keras")


@pytest.mark.slow
def test_another_vocabulary_before_and_after_training(shallow_config):
    model = AlbertForSequenceClassification(shallow_config)
    for size in (V + 1, V + 2):
        model.compile("adam", run_eagerly=True)
        model.resize_token_embeddings(size)
        model.fit(np.full((2, 7), size - 1), np.array([0, 2]), verbose=0)
        with pytest.raises(UserError, match="after 1 steps.*compile again"):
            model.resize_token_embeddings(size + 1)
        assert model.config.vocab_size == size


def test_a_vocabulary_that_stays(model):
    table = model.get_input_embeddings().weight
    assert model.resize_token_embeddings().weight is table
    assert model.resize_token_embeddings(V).weight is table


def test_a_vocabulary_without_room_for_the_special_tokens(shallow_config):
    with pytest.raises(ValueError, match="eos_token_id must be null or an id below vocab_size"):
        AlbertModel(shallow_config).resize_token_embeddings(3)

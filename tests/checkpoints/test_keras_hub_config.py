import dataclasses
import json

import pytest

from albert_tf.checkpoints import keras_hub_config
from albert_tf.errors import UserError


@pytest.fixture
def files(small_config, tmp_path):
    """Returns a function that writes a changed `config.json`, and gives it and a changed task."""

    def make(change_config=lambda content: None, change_task=lambda content: None):
        content = keras_hub_config.backbone(small_config)
        task = keras_hub_config.task(small_config, "text_classifier", None)
        change_config(content)
        change_task(task)
        (tmp_path / "config.json").write_text(json.dumps(content))
        return tmp_path / "config.json", task

    return make


def test_round_trip(files, small_config):
    assert keras_hub_config.to_config(*files()) == small_config
    without = dataclasses.replace(small_config, id2label=None)
    assert keras_hub_config.to_config(files()[0], None) == without


@pytest.mark.parametrize(
    ("activation", "problem_type"),
    [
        ("linear", None),
        (None, None),
        ("softmax", "single_label_classification"),
        ("sigmoid", "multi_label_classification"),
    ],
)
def test_a_classifiers_settings(files, activation, problem_type):
    changed = {"activation": activation, "dropout": 0.2, "num_classes": 4}
    config = keras_hub_config.to_config(*files(change_task=lambda c: c["config"].update(changed)))
    assert (config.problem_type, config.classifier_dropout_prob) == (problem_type, 0.2)
    assert config.labels == ("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(class_name="BertBackbone"), "of AlbertBackbone. Received.*BertBackb"),
        (lambda c: c["config"].update(colour=3), "with colour unknown and nothing missing"),
        (lambda c: c["config"].pop("num_heads"), "nothing unknown and num_heads missing"),
        (lambda c: c["config"].update(num_heads=3), "must be a multiple of num_attention_heads"),
        (lambda c: c["config"].update(max_sequence_length=None), "must be a whole number"),
        (lambda c: c.pop("config"), "KerasHub's JSON.*Received: class_name, module"),
        (lambda c: c.update(config=3), "KerasHub's JSON.*Received: class_name, config"),
    ],
)
def test_configurations_that_are_no_alberts(files, change, message):
    with pytest.raises(UserError, match=message):
        keras_hub_config.to_config(*files(change))


def test_an_activation_after_the_logits(files):
    changed = files(change_task=lambda c: c["config"].update(activation="relu"))
    with pytest.raises(UserError, match="one of linear, softmax, sigmoid. Received: 'relu'"):
        keras_hub_config.to_config(*changed)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "gelu"}, "hidden_act 'gelu' .it has 'gelu_new'"),
        ({"hidden_act": "relu"}, "hidden_act 'relu' .it has 'gelu_new'"),
        ({"layer_norm_eps": 1e-5}, "layer_norm_eps 1e-05 .it has 1e-12"),
        ({"num_hidden_groups": 2}, "num_hidden_layers 3 in 2 groups"),
        ({"hidden_dropout_prob": 0.2}, "hidden_dropout_prob 0.2, attention_probs_dropout_prob 0.0"),
    ],
)
def test_unsupported_settings(small_config, changes, message):
    keras_hub_config.check_expressible(small_config)
    with pytest.raises(UserError, match=message):
        keras_hub_config.check_expressible(dataclasses.replace(small_config, **changes))


def test_everything_is_listed(small_config):
    config = dataclasses.replace(small_config, hidden_act="relu", layer_norm_eps=1e-5)
    with pytest.raises(UserError, match="hidden_act 'relu' .*; layer_norm_eps 1e-05"):
        keras_hub_config.check_expressible(config)

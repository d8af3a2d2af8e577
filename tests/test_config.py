import dataclasses
import json

import numpy as np
import pytest

from albert_tf import models
from albert_tf.config import SHARING, SIZES, AlbertConfig, applied_parameters, group_schedule
from albert_tf.config import parameters as parameters_of
from albert_tf.errors import UserError


@pytest.mark.parametrize("name", SIZES)
def test_dict_round_trip(name):
    config = AlbertConfig.from_size(name, id2label={0: "no", 1: "yes", 2: "maybe"})
    assert AlbertConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(("size", "dropout"), [("large", 0.1), ("xlarge", 0.1), ("xxlarge", 0.0)])
def test_v1_and_v2_differ_in_dropout_only_and_v2_is_the_default(size, dropout):
    v1, v2 = AlbertConfig.from_size(f"{size}-v1"), AlbertConfig.from_size(f"{size}-v2")
    assert (v1.hidden_dropout_prob, v2.hidden_dropout_prob) == (dropout, 0.0)
    assert dataclasses.replace(v1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0) == v2
    assert AlbertConfig.from_size(size) == v2


def test_is_frozen_and_hashable():
    config, same, other = (AlbertConfig(id2label={0: label}) for label in ("a", "a", "b"))
    with pytest.raises(dataclasses.FrozenInstanceError, match="hidden_size"):
        config.hidden_size = 3
    assert hash(config) == hash(same) != hash(other)


def test_unknown_fields():
    with pytest.raises(TypeError, match="Unknown option colour, size: .* a field of AlbertConfig"):
        AlbertConfig().replace(size=3, colour=2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_size": 21, "num_attention_heads": 5}, "multiple of num_attention_heads.*=21"),
        ({"num_hidden_layers": 3, "num_hidden_groups": 4}, "must not exceed.*=4.*=3"),
        ({"num_hidden_layers": 64, "inner_group_num": 64}, "num_hidden_layers . inner.* 1024"),
        ({"num_hidden_layers": True}, "num_hidden_layers must be a whole number.* True"),
        ({"hidden_act": "mish"}, "hidden_act must be one of .*gelu_new.*mish"),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob .* below 1. Received: 1.0"),
        ({"layer_norm_eps": 0.0}, "layer_norm_eps .* above 0. Received: 0.0"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps must be .*Received: nan"),
        ({"thresholds": "0.5"}, "thresholds must be a list of numbers. Received: '0.5'"),
        ({"thresholds": ["0.5"]}, "thresholds must be a number.* Received: '0.5'"),
        ({"thresholds": [float("nan")]}, "thresholds must be .*finite. Received: nan"),
        ({"largest_score": 0}, "largest_score must be a number, above 0. Received: 0"),
        ({"pad_token_id": 30000}, "pad_token_id must be null or an id below vocab_size"),
        ({"problem_type": "ranking"}, "problem_type must be one of"),
    ],
)
def test_values_out_of_range(values, message):
    with pytest.raises(ValueError, match=message):
        AlbertConfig(**values)


NUMBERS = [field.name for field in dataclasses.fields(AlbertConfig) if field.type is int]


@pytest.mark.parametrize("field", [*NUMBERS, "num_labels"])
def test_numbers_have_bounds(field):
    """A file of a few bytes can't claim a model that no machine allocates."""
    with pytest.raises(UserError, match=f"{field} must be .*between 1 and .* 1000000000"):
        AlbertConfig.from_dict({field: 10**9})


def test_unknown_size():
    with pytest.raises(UserError, match="one of base-v1, .*Received: 'huge'"):
        AlbertConfig.from_size("huge")


def test_what_a_task_stores_is_written_only_if_set():
    assert not {"thresholds", "largest_score"} & AlbertConfig().to_dict().keys()
    config = AlbertConfig(thresholds=[0.25, 1], largest_score=5.0)
    assert (config.thresholds, config.largest_score) == ((0.25, 1.0), 5.0)
    assert AlbertConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_the_schedule_of_groups_is_the_originals_up_to_17_layers():
    for layers in range(1, 18):
        for groups in range(1, layers + 1):
            original = [int(layer / layers * groups) for layer in range(layers)]
            assert group_schedule(layers, groups) == original


@pytest.mark.parametrize("share", SHARING)
def test_a_model_has_as_many(small_config, share):
    """Every variable once, and every kernel as often as a pass applies it."""
    config = small_config.replace(share=share, num_hidden_groups=2, inner_group_num=2)
    model = models.AlbertModel(config)
    assert parameters_of(config) == model.count_params()
    visited = [block for group in model.encoder.schedule for block in model.encoder.group(group)]
    layers = [model.embedding.projection, *visited, model.pooler]
    kernels = [each for layer in layers for each in layer.weights if each.name == "kernel"]
    applied = [model.embedding.word_embeddings, *kernels]
    assert applied_parameters(config) == sum(np.prod(each.shape) for each in applied)


@pytest.mark.parametrize(
    ("size", "parameters", "applied"),
    [
        ("base", 11_683_584, 89e6),
        ("large", 17_683_968, 307e6),
        ("xlarge", 58_724_864, 1216e6),
        ("xxlarge", 222_595_584, 2437e6),
    ],
)
def test_published_sizes(size, parameters, applied):
    """Parameters: the released checkpoints'. Applied: the figures in the paper's notes."""
    for version in ("", "-v1", "-v2"):
        assert parameters_of(AlbertConfig.from_size(size + version)) == parameters
    found = applied_parameters(AlbertConfig.from_size(size))
    assert found == pytest.approx(applied, abs=5e5)

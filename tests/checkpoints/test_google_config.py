import dataclasses
import json

import pytest

from albert_tf.checkpoints.google import layers_in_other_groups, to_google
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError


@pytest.mark.parametrize("hidden_act", ["gelu_new", "relu", "tanh"])
def test_round_trip(small_config, hidden_act):
    config = dataclasses.replace(small_config, hidden_act=hidden_act, id2label=None)
    assert AlbertConfig.from_dict(to_google(config)) == config


def test_keys_are_those_of_published_files(golden, small_config):
    published = golden / "B2_google_exported_graph" / "albert_config.json"
    assert to_google(small_config).keys() == json.loads(published.read_text()).keys()


def test_the_tanh_approximation_is_googles_gelu(small_config):
    assert to_google(small_config)["hidden_act"] == "gelu"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_act": "gelu"}, "activations gelu_new, relu, tanh. Received: hidden_act='gelu'"),
        ({"hidden_act": "silu"}, "Received: hidden_act='silu'. Keep this model in another format"),
        ({"layer_norm_eps": 1e-6}, "has layer_norm_eps=1e-12. Received: 1e-06"),
        (
            {"num_hidden_layers": 22, "num_hidden_groups": 22},
            "num_hidden_layers=22 in 22 groups, where its rounding gives layer 15 another",
        ),
        ({"num_hidden_layers": 22, "share": "ffn"}, "22 in 22 groups"),
    ],
)
def test_what_the_original_can_not_express(small_config, change, message):
    with pytest.raises(UserError, match=message):
        to_google(dataclasses.replace(small_config, **change))


def test_rounding_agrees_with_both_formulas_run_apart(golden):
    facts = json.loads((golden / "B_original_tf1" / "group_index_rounding.json").read_text())
    for pair in facts["pairs_where_original_or_hf_deviates_from_exact"]:
        layers, groups = pair["L"], pair["G"]
        exact = [layer * groups // layers for layer in range(layers)]
        original, theirs = (
            exact if pair[who] == "exact" else pair[who] for who in ("original", "hf")
        )
        config = AlbertConfig(num_hidden_layers=layers, num_hidden_groups=groups)
        assert layers_in_other_groups(config) == [
            layer for layer in range(layers) if original[layer] != theirs[layer]
        ]
    assert layers_in_other_groups(AlbertConfig(num_hidden_layers=17, num_hidden_groups=13)) == []

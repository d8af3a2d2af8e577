import dataclasses

import numpy as np

from albert_tf.checkpoints import keras_hub_names, names


def test_every_weight_of_the_backbone_has_a_place(small_config):
    config = dataclasses.replace(small_config, num_hidden_groups=3, inner_group_num=2)
    parts = ("embeddings", "encoder", "pooler")
    expected = {name for name in names.shapes(config) if name.split(".")[0] in parts}
    places = keras_hub_names.backbone(config)
    assert places.keys() == expected
    assert len({place[:3] for place in places.values()}) == len(places)


def test_layers_are_numbered_in_the_order_of_the_graph(small_config):
    config = dataclasses.replace(small_config, num_hidden_groups=3, inner_group_num=2)
    paths = [
        keras_hub_names.layer_path(f"group_{group}_inner_layer_{inner}", config)
        for group in range(3)
        for inner in range(2)
    ]
    assert paths[:2] == ["transformer_encoder", "transformer_encoder_1"]
    assert paths[5] == "transformer_encoder_5"


def test_shapes_there_and_back(small_config):
    # As KerasHub 0.32 stored them for these sizes: H=20, A=5, H/A=4, I=24, E=6.
    stored = {
        "attention.query.weight": (20, 5, 4),
        "attention.value.bias": (5, 4),
        "attention.dense.weight": (5, 4, 20),
        "attention.dense.bias": (20,),
        "ffn.weight": (20, 24),
    }
    prefix = "encoder.albert_layer_groups.0.albert_layers.0."
    wanted = names.shapes(small_config)
    for name, place in keras_hub_names.backbone(small_config).items():
        array = np.arange(np.prod(wanted[name]), dtype="float32").reshape(wanted[name])
        there = place.written(array, small_config)
        np.testing.assert_array_equal(place.read(there, small_config), array)
        short = name.removeprefix(prefix)
        assert there.shape == stored.get(short, there.shape)
        stored.pop(short, None)
    assert not stored

import dataclasses

import pytest

from albert_tf.checkpoints.hub_module import Facts, read_facts
from albert_tf.errors import UserError


@pytest.mark.parametrize("hidden_act", ["gelu_new", "relu", "tanh"])
@pytest.mark.parametrize(("layers", "inner"), [(3, 1), (4, 2)])
def test_a_graph_of_tensorflow_1(
    tf1_module, google_variables, small_config, tmp_path, hidden_act, layers, inner
):
    config = dataclasses.replace(
        small_config, hidden_act=hidden_act, num_hidden_layers=layers, inner_group_num=inner
    )
    folder = tf1_module(tmp_path / "module", config, google_variables(config))
    assert read_facts(folder) == Facts(layers * inner, 5, hidden_act)


@pytest.mark.parametrize("approximate", [True, False])
def test_functions_of_tensorflow_2(
    garden_module, garden_variables, small_config, tmp_path, approximate
):
    variables = garden_variables(small_config)
    folder = garden_module(tmp_path / "module", small_config, variables, approximate)
    assert read_facts(folder) == Facts(3, None, "gelu_new" if approximate else "gelu")


def test_a_graph_without_attention(tmp_path):
    import tensorflow as tf

    module = tf.Module()
    module.double = tf.function(lambda x: 2 * x, input_signature=[tf.TensorSpec([None])])
    tf.saved_model.save(module, tmp_path)
    assert read_facts(tmp_path) == Facts(None, None, None)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert read_facts(tmp_path) == Facts(None, None, None)


def test_a_damaged_file(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff\xff")
    with pytest.raises(UserError, match="must be a whole SavedModel. Received: .* Copy it again"):
        read_facts(tmp_path)

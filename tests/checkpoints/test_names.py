import dataclasses

import pytest

from albert_tf.checkpoints import names
from albert_tf.models import AlbertForSequenceClassification, AlbertModel


@pytest.mark.parametrize(("groups", "inner"), [(1, 1), (3, 1), (2, 2)])
def test_every_weight_has_one_name(small_config, groups, inner):
    config = dataclasses.replace(small_config, num_hidden_groups=groups, inner_group_num=inner)
    model = AlbertForSequenceClassification(config)
    named = [id(weight.variable) for weight in names.weights(model).values()]
    assert sorted(named) == sorted(id(variable) for variable in model.weights)
    last = f"encoder.albert_layer_groups.{groups - 1}.albert_layers.{inner - 1}.ffn.weight"
    assert last in names.weights(model)


def test_a_model_without_pooler_has_no_name_for_one(small_config):
    assert "pooler.weight" in names.weights(AlbertModel(small_config))
    assert "pooler.weight" not in names.weights(AlbertModel(small_config, add_pooling_layer=False))


def test_parts():
    assert names.part("classifier.weight") == "classifier"
    assert names.part("encoder.embedding_hidden_mapping_in.weight") is None

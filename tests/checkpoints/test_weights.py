import dataclasses

import numpy as np
import pytest

from albert_tf import models
from albert_tf.checkpoints import names, weights

CLASSES = [getattr(models, name) for name in models.__all__ if name.startswith("Albert")]


def faults(config, tensors):
    wanted = names.shapes(config)
    known = {name: tensor for name, tensor in tensors.items() if name in wanted}
    return [*weights.misfits(config, wanted, tensors), *weights.bad_values(known)]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_shapes_are_the_models(small_config, cls):
    config = dataclasses.replace(
        small_config,
        num_hidden_groups=3,
        inner_group_num=2,
        answerability=cls is models.AlbertForQuestionAnswering,
    )
    model = cls(config)
    tensors = names.without_prefix(weights.extract(model))
    assert len(tensors) == len(model.weights)
    assert faults(model.config, tensors) == []


def test_faults(small_config):
    model = models.AlbertForSequenceClassification(small_config)
    tensors = names.without_prefix(weights.extract(model))
    del tensors["classifier.bias"], tensors["embeddings.LayerNorm.bias"]
    tensors["pooler.weight"] = np.zeros((20, 21), "float32")
    tensors["pooler.bias"] = np.zeros((20, 1), "float32")
    tensors["classifier.weight"] = np.full((3, 20), np.inf, "float32")
    tensors["extra"] = np.zeros(2)
    assert sorted(faults(small_config, tensors)) == [
        "another shape: pooler.bias is (20, 1) in the checkpoint, (20,) by the configuration "
        "(hidden_size)",
        "another shape: pooler.weight is (20, 21) in the checkpoint, (20, 20) by the configuration "
        "(hidden_size)",
        "missing from the checkpoint: classifier.bias (any,)",
        "missing from the checkpoint: embeddings.LayerNorm.bias (6,)",
        "not finite: classifier.weight",
        "unknown to the model: extra (2,)",
    ]

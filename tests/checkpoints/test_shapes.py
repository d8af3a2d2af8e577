import dataclasses

import numpy as np
import pytest

from albert_tf import models
from albert_tf.checkpoints import shapes, weights

CLASSES = [getattr(models, name) for name in models.__all__ if name.startswith("Albert")]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("changes", [{}, {"num_hidden_groups": 3, "inner_group_num": 2}], ids=str)
def test_shapes_are_the_models(small_config, cls, changes):
    model = cls(dataclasses.replace(small_config, **changes))
    tensors = {
        name.removeprefix("albert."): tensor for name, tensor in weights.extract(model).items()
    }
    assert list(shapes.faults(model.config, tensors)) == []


def test_answerability(small_config):
    config = dataclasses.replace(small_config, answerability=True)
    model = models.AlbertForQuestionAnswering(config)
    tensors = {
        name.removeprefix("albert."): tensor for name, tensor in weights.extract(model).items()
    }
    assert "answer_class.dense_1.weight" in tensors
    assert list(shapes.faults(config, tensors)) == []


def test_faults(small_config):
    model = models.AlbertForSequenceClassification(small_config)
    tensors = {
        name.removeprefix("albert."): tensor for name, tensor in weights.extract(model).items()
    }
    del tensors["classifier.bias"], tensors["embeddings.LayerNorm.bias"]
    tensors["pooler.weight"] = np.zeros((20, 21), "float32")
    tensors["pooler.bias"] = np.zeros((20, 1), "float32")
    tensors["classifier.weight"] = np.full((3, 20), np.inf, "float32")
    tensors["extra"] = np.zeros(2)
    assert sorted(shapes.faults(small_config, tensors)) == [
        "another shape: pooler.bias is (20, 1) in the checkpoint, (20,) by the configuration "
        "(hidden_size)",
        "another shape: pooler.weight is (20, 21) in the checkpoint, (20, 20) by the configuration "
        "(hidden_size)",
        "missing from the checkpoint: classifier.bias (any,)",
        "missing from the checkpoint: embeddings.LayerNorm.bias (6,)",
        "not finite: classifier.weight",
        "unknown to every model: extra (2,)",
    ]

from types import SimpleNamespace

import keras
import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.optimizers import AlbertAdamW
from albert_tf.training.finetune import class_weights, freeze

pytestmark = pytest.mark.usefixtures("without_graphs")


def model_of(**config):
    sizes = {"num_hidden_layers": 4, "vocab_size": 31, "num_labels": 2, **config}
    return AlbertForSequenceClassification(AlbertConfig.from_size("tiny", **sizes))


def changed(model, **optimizer):
    """Returns the parts of the model that a step changes, and each weight's largest change."""
    model.compile(AlbertAdamW(0.1, **optimizer))
    weights = [*model.albert.trainable_variables, *model.albert.non_trainable_variables]
    weights = {each.path: each for each in weights if "seed" not in each.path}
    before = {path: keras.ops.convert_to_numpy(each).copy() for path, each in weights.items()}
    model.train_on_batch(np.arange(5, 19, dtype="int32").reshape(2, 7), np.array([0, 1]))
    moves = {
        path: float(np.abs(keras.ops.convert_to_numpy(each) - before[path]).max())
        for path, each in weights.items()
    }
    parts = ("embedding", "group_0", "group_1", "pooler")
    return {part for part in parts for path in moves if part in path and moves[path]}, moves


def test_frozen_embeddings():
    model = model_of()
    freeze(model, 0)
    assert changed(model)[0] == {"group_0", "pooler"}


@pytest.mark.parametrize(
    ("layers", "expected"), [(1, {"group_0", "group_1", "pooler"}), (2, {"group_1", "pooler"})]
)
def test_a_group_is_frozen_with_its_last_layer(layers, expected):
    """Has two groups of two layers each; weight decay doesn't move frozen weights."""
    model = model_of(num_hidden_groups=2)
    freeze(model, layers)
    assert changed(model)[0] == expected


def test_shared_weights_train_by_the_gradient_of_later_layers():
    """Compares the gradient with that of a model whose first layers give the same input."""
    model, whole = model_of(), model_of()
    whole.set_weights(model.get_weights())
    freeze(model, 4)
    assert changed(model)[0] == {"pooler"}
    partly = model_of()
    partly.set_weights(whole.get_weights())
    freeze(partly, 3)
    assert changed(partly)[0] == {"group_0", "pooler"}


CONFIG = AlbertConfig(id2label={0: "bad", 1: "fine", 2: "good"})


def weights_of(given, labels):
    ids = [[2, 3]] * len(labels)
    rows = Rows({"input_ids": ids, "token_type_ids": ids}, {"labels": labels}, 0)
    return class_weights(SimpleNamespace(class_weights=given), CONFIG, rows)


def test_balanced_weights_give_each_class_that_is_there_the_same_sum():
    found = weights_of(("balanced",), [0, 0, 0, 2])
    assert found == pytest.approx((4 / 6, 1.0, 4 / 2))
    assert weights_of(("balanced",), [[0, -100], [2, 0], [0, -100]]) == found


def test_weights_by_label():
    assert weights_of(("good=2.5",), [0, 1]) == [1.0, 1.0, 2.5]
    assert weights_of((), [0, 1]) is None


@pytest.mark.parametrize("each", ["good", "good=", "good=x", "good=nan", "good=inf", "=1"])
def test_weights_that_are_none(each):
    with pytest.raises(UserError, match="LABEL=WEIGHT each"):
        weights_of((each,), [0, 1])

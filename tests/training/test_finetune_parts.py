from types import SimpleNamespace

import keras
import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification, unshare
from albert_tf.optimizers import AlbertAdamW
from albert_tf.recipes import OWN_DATA
from albert_tf.training.finetune import Plan, class_weights, freeze, warn_not_learned

PARTS = ("embedding", "group_0", "group_1", "pooler")


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize(
    ("groups", "layers", "expected"),
    [
        (1, 0, {"group_0", "pooler"}),  # the embeddings alone
        (1, 3, {"group_0", "pooler"}),  # shared weights train by the last layer's gradient
        (1, 4, {"pooler"}),
        (2, 1, {"group_0", "group_1", "pooler"}),  # a group is frozen with its last layer
        (2, 2, {"group_1", "pooler"}),
    ],
)
def test_frozen_layers(groups, layers, expected):
    """Compares the weights before and after a step; weight decay doesn't move frozen ones."""
    sizes = {"num_hidden_layers": 4, "vocab_size": 31, "num_labels": 2}
    config = AlbertConfig.from_size("tiny", **sizes, num_hidden_groups=groups)
    model = AlbertForSequenceClassification(config)
    freeze(model, layers)
    model.compile(AlbertAdamW(0.1))
    before = [keras.ops.convert_to_numpy(weight) + 0 for weight in model.albert.weights]
    model.train_on_batch(np.arange(5, 19, dtype="int32").reshape(2, 7), np.array([0, 1]))
    moved = [
        weight.path
        for weight, value in zip(model.albert.weights, before, strict=True)
        if (keras.ops.convert_to_numpy(weight) != value).any()
    ]
    assert {part for part in PARTS for path in moved if part in path} == expected


@pytest.mark.usefixtures("without_graphs")
def test_no_gradient_passes_frozen_layers():
    """Shared weights move by the last layer's gradient alone, as in a model that shares nothing."""
    sizes = {"num_hidden_layers": 3, "vocab_size": 31, "num_labels": 2}
    sizes |= dict.fromkeys(("hidden_dropout_prob", "classifier_dropout_prob"), 0.0)
    model = AlbertForSequenceClassification(AlbertConfig.from_size("tiny", **sizes))
    deep = unshare(model)
    freeze(model, 2)
    for each in (model, deep):
        each.compile(keras.optimizers.SGD(0.5))
        each.train_on_batch(np.arange(5, 19, dtype="int32").reshape(2, 7), np.array([0, 1]))
    (shared,) = model.albert.encoder.blocks
    *_, last = deep.albert.encoder.blocks
    for ours, theirs in zip(shared.get_weights(), last.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize(
    ("losses", "labels", "is_binary", "rate"),
    [
        ([1.79, 1.787], "abcdef", False, "6e-05"),  # ln 6 is 1.792
        ([1.85, 1.81, 1.79], "abcdef", False, "6e-05"),
        ([1.79, 2.4, 1.80], "abcdef", False, "6.66667e-06"),
        ([2.1], "abcdef", False, "6.66667e-06"),
        ([0.3, 0.21, 0.2], "ab", False, "6e-05"),  # one class is frequent
        ([0.2, 0.3], "ab", False, "6.66667e-06"),
        ([0.69, 0.68], "abcdef", True, "6e-05"),
        ([0.9], "abcdef", True, "6.66667e-06"),
        ([1.386, 1.385], "", False, "6e-05"),  # four choices
        ([1.386, 1.6], "", False, "6.66667e-06"),
    ],
)
def test_the_rate_to_try_depends_on_the_loss(caplog, losses, labels, is_binary, rate):
    report = {
        "data": {"labels": dict.fromkeys(labels, 9)},
        "settings": {"learning_rate": 2e-5},
        "history": [{"loss": 0.0, "val_loss": loss} for loss in losses],
    }
    warn_not_learned(report, is_binary)
    assert f"--learning-rate {rate} (" in caplog.text


CONFIG = AlbertConfig(id2label={0: "bad", 1: "fine", 2: "good"})


def weights_of(given, labels):
    ids = [[2, 3]] * len(labels)
    rows = Rows({"input_ids": ids, "token_type_ids": ids}, {"labels": labels}, 0)
    return class_weights(SimpleNamespace(class_weights=given), CONFIG, rows)


def test_weights_of_classes():
    """Balanced weights give each class that is there the same sum."""
    assert weights_of((), [0, 1]) is None
    assert weights_of(("good=2.5",), [0, 1]) == [1.0, 1.0, 2.5]
    assert weights_of(("balanced",), [0, 0, 0, 2]) == pytest.approx((4 / 6, 1.0, 4 / 2))
    of_tags = weights_of(("balanced",), [[0, -100], [2, 0], [0, -100]])
    assert of_tags == pytest.approx((4 / 6, 1.0, 4 / 2))


@pytest.mark.parametrize("each", ["good", "good=x", "good=nan", "good=inf", "=1", "bad=2"])
def test_weights_that_are_none(each):
    with pytest.raises(UserError, match=f"LABEL=WEIGHT.*Received: '{each}'"):
        weights_of(("bad=3", each), [0, 1])


def test_a_plan():
    """The last batch of an epoch is smaller; a share of the steps is warm-up."""
    recipe = OWN_DATA._replace(batch_size=8, epochs=3, warmup=0.2, learning_rate=0.5)
    plan = Plan.of(recipe, 51)
    assert (plan.epoch_steps, plan.steps) == (7, 21)
    assert float(plan.schedule(3)) == 0.5 > float(plan.schedule(2))
    assert [plan.examples_until(step) for step in (0, 2, 7, 15)] == [0, 16, 51, 110]
    assert Plan.of(recipe._replace(steps=5), 51).steps == 5
    assert float(Plan.of(recipe._replace(warmup=99.0), 51).schedule(19)) == 0.5

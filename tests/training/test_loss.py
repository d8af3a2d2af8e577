import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
from keras import ops
from scipy.special import log_softmax

from albert_tf import models
from albert_tf.config import AlbertConfig
from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError
from albert_tf.models import AlbertForPreTraining, AlbertForSequenceClassification
from albert_tf.training.loss import (
    COUNT,
    LOSS,
    Loss,
    batch_loss,
    class_weights,
    finetuning_means,
    pretraining_means,
)
from albert_tf.training.options import check_class_weights

B, P, V = 3, 4, 7
LABELS = np.array([[5, 0, -100, -100], [1, -100, -100, -100], [6, 6, 2, -100]], "int32")
ORDER = np.array([1, 0, 1], "int32")


class Pretraining:
    """The parts of `AlbertForPreTraining` that the loss reads, without weights."""

    targets = AlbertForPreTraining.targets
    loss_terms = AlbertForPreTraining.loss_terms


def drawn():
    generator = np.random.default_rng(1)
    return {
        "prediction_logits": ops.convert_to_tensor(
            generator.standard_normal((B, P, V)).astype("float32")
        ),
        "sop_logits": ops.convert_to_tensor(generator.standard_normal((B, 2)).astype("float32")),
    }


def by_hand(labels, logits):
    """Returns totals over unignored labels, computed one at a time."""
    loss = right = count = 0.0
    for place in np.ndindex(labels.shape):
        if labels[place] == -100:
            continue
        row = logits[place].astype("float64")
        loss += math.log(np.exp(row).sum()) - row[labels[place]]
        right += row.argmax() == labels[place]
        count += 1
    return loss, right, count


def in_tensors(labels):
    return {name: ops.convert_to_tensor(values) for name, values in labels.items()}


def test_totals_skip_ignored_labels():
    outputs = drawn()
    labels = in_tensors({"sentence_order_label": ORDER, "labels": LABELS})  # in any order
    found = ops.convert_to_numpy(Loss(Pretraining()).totals(labels, outputs))
    expected = [
        by_hand(LABELS, ops.convert_to_numpy(outputs["prediction_logits"])),
        by_hand(ORDER, ops.convert_to_numpy(outputs["sop_logits"])),
    ]
    assert [row[COUNT] for row in expected] == [6, B]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    counted = Loss(Pretraining()).counts(labels)
    np.testing.assert_array_equal(ops.convert_to_numpy(counted), found[:, COUNT])
    mean = sum(row[LOSS] / row[COUNT] for row in expected)
    totals = Loss(Pretraining()).totals(labels, outputs)
    assert float(batch_loss(totals, counted)) == pytest.approx(mean)


def test_totals_of_sentence_order_without_labels_are_0():
    labels = in_tensors({"labels": LABELS})
    found = Loss(Pretraining()).totals(labels, drawn())
    np.testing.assert_array_equal(found[1], [0, 0, 0])
    np.testing.assert_array_equal(Loss(Pretraining()).counts(labels), [6, 0])
    means = pretraining_means(ops.convert_to_numpy(found))
    assert set(means) == {"loss", "masked_lm_loss", "masked_lm_accuracy", "perplexity"}
    assert means["loss"] == means["masked_lm_loss"]


def test_means_are_of_all_predictions_not_of_parts():
    """Uses two parts with 1 and 9 predictions; the mean of their means would be 3."""
    few, many = [[1.0, 1.0, 1.0], [0.5, 0.0, 1.0]], [[45.0, 0.0, 9.0], [0.7, 1.0, 1.0]]
    means = pretraining_means(np.add(few, many))
    assert means["masked_lm_loss"] == pytest.approx(4.6)
    assert means["masked_lm_accuracy"] == pytest.approx(0.1)
    assert means["sentence_order_loss"] == pytest.approx(0.6)
    assert means["sentence_order_accuracy"] == pytest.approx(0.5)
    assert means["loss"] == pytest.approx(5.2)
    assert means["perplexity"] == pytest.approx(math.exp(4.6))


def test_means_without_predictions_and_of_a_huge_loss():
    assert pretraining_means(np.zeros((2, 3)))["loss"] == 0
    assert pretraining_means([[1e6, 0.0, 1.0], [0.0] * 3])["perplexity"] > 1e300
    assert math.isnan(pretraining_means([[math.nan, 0.0, 1.0], [0.0] * 3])["loss"])


def test_totals_of_classes_and_of_scores(small_config):
    """A classifier may ignore an example; every score counts and has no right answer."""
    classifier = AlbertForSequenceClassification(small_config)
    numbers, logits = np.array([1, 1, -100], "int32"), np.array([[0, 2, 1], [3, 1, 0], [5, 0, 0]])
    labels = in_tensors({"labels": numbers})
    outputs = in_tensors({"logits": logits.astype("float32")})
    found = ops.convert_to_numpy(Loss(classifier).totals(labels, outputs))
    np.testing.assert_allclose(found, [by_hand(numbers, logits)], 1e-5)
    assert finetuning_means(found, has_accuracy=True) == {
        "loss": pytest.approx(found[0, LOSS] / 2),
        "accuracy": 0.5,
    }
    np.testing.assert_array_equal(Loss(classifier).counts(labels), [2])

    config = dataclasses.replace(small_config, id2label={0: "score"}, problem_type="regression")
    regressor = AlbertForSequenceClassification(config)
    labels = in_tensors({"labels": np.array([1.5, 2.0], "float32")})
    outputs = in_tensors({"logits": np.array([[1.0], [4.0]], "float32")})
    found = ops.convert_to_numpy(Loss(regressor).totals(labels, outputs))
    np.testing.assert_allclose(found, [[0.25 + 4.0, 0, 2]])
    np.testing.assert_array_equal(Loss(regressor).counts(labels), [2])
    assert finetuning_means(found, has_accuracy=False) == {"loss": 2.125}


def numbers(values):
    return ops.convert_to_numpy(values)


def test_examples_that_fill_a_batch_up_do_not_count(small_config, small_features):
    """Compares with the batch without them, for each kind of label."""
    double = {name: np.concatenate([values, values]) for name, values in small_features.items()}
    weights = np.array([1, 1, 0, 0], "float32")
    spans = {"start_positions": [1, -100], "end_positions": [2, -100]}
    for name, problem_type, labels in (
        ("SequenceClassification", None, {"labels": [2, 0]}),
        ("SequenceClassification", "regression", {"labels": [0.5, 4.0]}),
        ("SequenceClassification", "multi_label_classification", {"labels": [[1.0, 0, 1]] * 2}),
        ("TokenClassification", None, {"labels": [[0, 1, 2, -100, 0, 0, 1]] * 2}),
        ("QuestionAnswering", None, spans),
    ):
        count = 1 if problem_type == "regression" else 3
        config = small_config.replace(problem_type=problem_type, num_labels=count)
        model = getattr(models, f"AlbertFor{name}")(config)
        arrays = {
            key: np.asarray(value, "float32" if problem_type else "int32")
            for key, value in labels.items()
        }
        twice = {key: np.concatenate([value, value]) for key, value in arrays.items()}
        twice["sample_weight"] = weights
        expected = Loss(model).totals(arrays, model(small_features))
        found = Loss(model).totals(twice, model(double))
        np.testing.assert_allclose(numbers(found), numbers(expected), rtol=1e-5, atol=1e-6)
        counted = numbers(Loss(model).counts(twice))
        np.testing.assert_array_equal(counted, numbers(expected)[:, COUNT])


def test_class_weights():
    """Compares with the formulas; ignored labels stay ignored."""
    labels, logits = (
        np.array([2, 0, -100, 0], "int32"),
        np.random.default_rng(3).normal(size=(4, 3)),
    )
    model = AlbertForSequenceClassification(AlbertConfig.from_size("tiny", num_labels=3))
    outputs = {"logits": ops.convert_to_tensor(logits.astype("float32"))}
    weights = np.array([0.5, 1.0, 3.0])
    logs = log_softmax(logits, axis=-1)
    expected = sum(
        -weights[label] * logs[row, label] for row, label in enumerate(labels) if label >= 0
    )
    changed = Loss(model, tuple(weights))
    found = numbers(changed.totals({"labels": labels}, outputs))
    assert found[0, LOSS] == pytest.approx(expected, rel=1e-5)
    plain = numbers(Loss(model).totals({"labels": labels}, outputs))
    assert found[0, 1:].tolist() == plain[0, 1:].tolist() == [plain[0, 1], 3.0]


CONFIG = AlbertConfig(id2label={0: "bad", 1: "fine", 2: "good"})
CLASSES = SimpleNamespace(model="AlbertForSequenceClassification")


def rows_of(labels):
    ids = [[2, 3]] * len(labels)
    return Rows({"input_ids": ids, "token_type_ids": ids}, {"labels": labels}, 0)


def given(*weights):
    return SimpleNamespace(class_weights=weights, task="classify")


def test_balanced_weights_give_each_class_that_is_there_the_same_sum():
    found = class_weights(given("balanced"), CLASSES, CONFIG, rows_of([0, 0, 0, 2]))
    assert found == pytest.approx((4 / 6, 1.0, 4 / 2))
    tags = rows_of([[0, -100], [2, 0], [0, -100]])
    assert class_weights(given("balanced"), CLASSES, CONFIG, tags) == found


def test_weights_by_label():
    found = class_weights(given("good=2.5"), CLASSES, CONFIG, rows_of([0, 1]))
    assert found == (1.0, 1.0, 2.5)
    assert class_weights(given(), CLASSES, CONFIG, rows_of([0, 1])) is None


def test_tasks_without_classes():
    scores = CONFIG.replace(problem_type="regression")
    choices = SimpleNamespace(model="AlbertForMultipleChoice")
    for task, config in ((CLASSES, scores), (choices, CONFIG)):
        check_class_weights(given(), task, config)
        with pytest.raises(UserError, match="needs one class for each text or word"):
            check_class_weights(given("balanced"), task, config)


@pytest.mark.parametrize("each", ["good", "good=", "good=x", "good=nan", "good=inf", "=1"])
def test_weights_that_are_none(each):
    with pytest.raises(UserError, match="LABEL=WEIGHT each"):
        check_class_weights(given(each), CLASSES, CONFIG)

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from albert_tf.config import AlbertConfig
from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError
from albert_tf.training.objective import Objective, check_objective, constant_loss, objective

CONFIG = AlbertConfig(id2label={0: "bad", 1: "fine", 2: "good"})
CLASSES = SimpleNamespace(model="AlbertForSequenceClassification")


def rows_of(labels):
    ids = [[2, 3]] * len(labels)
    return Rows({"input_ids": ids, "token_type_ids": ids}, {"labels": labels}, 0)


def given(*weights, smoothing=0.0):
    return SimpleNamespace(class_weights=weights, label_smoothing=smoothing, task="classify")


def test_balanced_weights_give_each_class_that_is_there_the_same_sum():
    found = objective(given("balanced"), CLASSES, CONFIG, rows_of([0, 0, 0, 2]))
    assert found.class_weights == pytest.approx((4 / 6, 1.0, 4 / 2))
    tags = rows_of([[0, -100], [2, 0], [0, -100]])
    assert objective(given("balanced"), CLASSES, CONFIG, tags) == found


def test_weights_by_label():
    found = objective(given("good=2.5", smoothing=0.1), CLASSES, CONFIG, rows_of([0, 1]))
    assert found == Objective((1.0, 1.0, 2.5), 0.1)
    assert objective(given(), CLASSES, CONFIG, rows_of([0, 1])) == Objective()


def test_tasks_without_classes():
    scores = CONFIG.replace(problem_type="regression")
    choices = SimpleNamespace(model="AlbertForMultipleChoice")
    for task, config in ((CLASSES, scores), (choices, CONFIG)):
        check_objective(given(), task, config)
        for options in (given("balanced"), given(smoothing=0.1)):
            with pytest.raises(UserError, match="need one class for each text or word"):
                check_objective(options, task, config)


@pytest.mark.parametrize("each", ["good", "good=", "good=x", "good=nan", "good=inf", "=1"])
def test_weights_that_are_none(each):
    with pytest.raises(UserError, match="LABEL=WEIGHT each"):
        check_objective(given(each), CLASSES, CONFIG)


@pytest.mark.parametrize("changed", [Objective(), Objective((0.5, 1.0, 3.0), 0.2)])
def test_no_constant_prediction_has_a_lower_loss(changed):
    labels = [0, 0, 2, 1, 0, 2]
    weights = np.array(changed.class_weights or (1.0, 1.0, 1.0))

    def loss(logits):
        logs = log_softmax(logits)
        smoothing = changed.label_smoothing
        each = (1 - smoothing) * logs + smoothing * logs.mean()
        return -np.mean([weights[label] * each[label] for label in labels])

    expected = minimize(loss, np.zeros(3)).fun
    assert constant_loss(rows_of(labels), CONFIG, changed) == pytest.approx(expected, abs=1e-6)


def test_constant_predictions_of_numbers_and_of_several_labels():
    scores, several = (
        CONFIG.replace(problem_type=kind) for kind in ("regression", "multi_label_classification")
    )
    assert constant_loss(rows_of([1.0, 3.0]), scores, Objective()) == 1.0
    found = constant_loss(rows_of([[1.0, 0.0], [0.0, 0.0]]), several, Objective())
    assert found == pytest.approx(np.log(2) / 2)
    assert constant_loss(rows_of([1, 1]), CONFIG, Objective()) is None

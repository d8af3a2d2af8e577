"""One model per task, and a batch that it learns from.

The tests of `test_base.py` run for each entry of `TASKS`, so a new head is a new entry.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

from albert_tf import models

B, C, T = 4, 3, 7


class Task(NamedTuple):
    """A head.

    Attributes:
        model: its class.
        inputs, labels: a batch.
        wrong: values that each label must not have.
        config: additional configuration fields.
    """

    model: type
    inputs: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]
    wrong: dict[str, list[float]]
    config: dict[str, Any] = {}


def batch(*shape):
    generator = np.random.default_rng(8)
    mask = (np.arange(T) < np.array([7, 4, 6, 3])[:, None]).astype("int32")
    mask = np.broadcast_to(mask.reshape(B, *[1] * (len(shape) - 2), T), shape)
    ids = generator.integers(5, 31, shape).astype("int32")
    ids[..., 0] = 2
    types = np.broadcast_to((np.arange(T) >= 2).astype("int32"), shape)
    return {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": types * mask}


TEXTS = batch(B, T)
POSITIONS = np.array([[1, 3], [2, 0], [4, 1], [1, 0]], "int32")
WORDS = np.array([[9, 8], [11, -100], [30, 5], [6, -100]], "int32")
PIECES = np.array(
    [
        [-100, 1, 2, 0, 1, 1, -100],
        [-100, 0, 2, -100, -100, -100, -100],
        [-100, 2, 2, 1, 0, -100, -100],
        [-100, 1, -100, -100, -100, -100, -100],
    ],
    "int32",
)
ORDER = {"sentence_order_label": np.array([0, 1, 1, 0], "int32")}
SPANS = {
    "start_positions": np.array([2, 2, 0, 0], "int32"),
    "end_positions": np.array([4, 2, 0, 0], "int32"),
}
IMPOSSIBLE = {"is_impossible": np.array([0, 0, 1, 1], "float32")}
WRONG_SPANS = {"start_positions": [0.5], "end_positions": [2.9]}
TASKS = {
    "pretraining": Task(
        models.AlbertForPreTraining,
        TEXTS,
        {"labels": PIECES, **ORDER},
        {"labels": [31], "sentence_order_label": [2]},
    ),
    "pretraining at positions": Task(
        models.AlbertForPreTraining,
        {**TEXTS, "masked_lm_positions": POSITIONS},
        {"labels": WORDS, **ORDER},
        {"labels": [31]},
    ),
    "masked lm": Task(models.AlbertForMaskedLM, TEXTS, {"labels": PIECES}, {"labels": [31]}),
    "sequence classification": Task(
        models.AlbertForSequenceClassification,
        TEXTS,
        {"labels": np.array([0, 1, 2, 1])},
        {"labels": [3, -1, 1.9, float("nan")]},
    ),
    "token classification": Task(
        models.AlbertForTokenClassification, TEXTS, {"labels": PIECES}, {"labels": [3, -1]}
    ),
    "question answering": Task(models.AlbertForQuestionAnswering, TEXTS, SPANS, WRONG_SPANS),
    "answerability": Task(
        models.AlbertForQuestionAnswering,
        TEXTS,
        {**SPANS, **IMPOSSIBLE},
        {**WRONG_SPANS, "is_impossible": [2.0]},
        {"answerability": True},
    ),
    "multiple choice": Task(
        models.AlbertForMultipleChoice,
        batch(B, C, T),
        {"labels": np.array([0, 2, 1, 1])},
        {"labels": [C, -1]},
    ),
}


@pytest.fixture(scope="session")
def shallow_config(small_config):
    """Returns `small_config` with one layer, which takes a third of the time."""
    return dataclasses.replace(small_config, num_hidden_layers=1)


@pytest.fixture(params=TASKS)
def task(request):
    return TASKS[request.param]


@pytest.fixture
def task_config(shallow_config, task):
    """Returns the task's configuration, without dropout and with larger weights."""
    return shallow_config.replace(classifier_dropout_prob=0.0, initializer_range=0.2, **task.config)


@pytest.fixture
def task_model(task, task_config, scrambled):
    return scrambled(task.model(task_config))

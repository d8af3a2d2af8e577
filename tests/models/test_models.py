import json
import shutil

import numpy as np
import pytest

from albert_tf import models
from albert_tf.errors import UserError
from albert_tf.models import CLASSES, load_pretrained
from albert_tf.tasks import TASKS


@pytest.fixture(scope="module")
def models_by_task(small_config, tmp_path_factory):
    """A model of each task and the directory that it was saved in, made when first asked for."""
    made = {}

    def make(task):
        if task not in made:
            made[task] = CLASSES[task](small_config), tmp_path_factory.mktemp(task)
            made[task][0].save_pretrained(made[task][1])
        return made[task]

    return make


@pytest.fixture
def saved(models_by_task, tmp_path):
    """A function: a task -> a model of it and a directory with it that may be changed."""

    def copy(task):
        model, folder = models_by_task(task)
        return model, shutil.copytree(folder, tmp_path / task)

    return copy


def rename(folder, architectures):
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = architectures
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("task", TASKS)
def test_the_class_that_was_saved_by_its_name_or_its_heads(task, saved):
    model, folder = saved(task)
    loaded = load_pretrained(folder)
    assert type(loaded) is type(model)
    assert loaded.newly_initialized == []
    for weight, expected in zip(loaded.weights, model.weights, strict=True):
        np.testing.assert_array_equal(weight, expected)
    rename(folder, None)
    assert type(load_pretrained(folder)) is type(model)


@pytest.mark.parametrize("prefix", ["TF", "Flax"])
def test_names_of_other_frameworks(prefix, saved):
    _, folder = saved("question-answering")
    rename(folder, [f"{prefix}AlbertForQuestionAnswering"])
    assert type(load_pretrained(folder)) is models.AlbertForQuestionAnswering


def test_options_reach_from_pretrained(saved):
    _, folder = saved("token-classification")
    model = load_pretrained(folder, dtype="mixed_bfloat16", hidden_dropout_prob=0.25)
    assert model.dtype_policy.name == "mixed_bfloat16"
    assert model.config.hidden_dropout_prob == 0.25


def test_a_named_task_takes_precedence(saved):
    _, folder = saved("token-classification")
    model = load_pretrained(folder, "question-answering")
    assert type(model) is models.AlbertForQuestionAnswering
    assert model.newly_initialized == ["qa_outputs"]
    rename(folder, None)
    assert type(load_pretrained(folder, "encoder")) is models.AlbertModel


@pytest.mark.parametrize(
    ("architectures", "received"),
    [
        (["RobertaForMaskedLM"], "RobertaForMaskedLM"),
        (["AlbertForPoetry", "TFRobertaModel"], "AlbertForPoetry, TFRobertaModel"),
    ],
)
def test_unknown_classes(architectures, received, saved):
    _, folder = saved("encoder")
    rename(folder, architectures)
    message = f"must name its class .* Received: {received}, in .*--task .*masked-lm"
    with pytest.raises(UserError, match=message):
        load_pretrained(folder)


def test_unknown_task(tmp_path):
    with pytest.raises(UserError, match="one of encoder, .*multiple-choice. Received: 'poetry'"):
        load_pretrained(tmp_path, "poetry")

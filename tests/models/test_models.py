import json

import pytest

from albert_tf import models
from albert_tf.errors import UserError
from albert_tf.models import CLASSES, load_pretrained
from albert_tf.tasks import TASKS


@pytest.fixture
def saved(shallow_config, tmp_path):
    """Returns a function that saves a model of a task, with the names of other architectures."""

    def save(task, **changes):
        CLASSES[task](shallow_config).save_pretrained(tmp_path)
        config = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps({**config, **changes}))
        return tmp_path

    return save


@pytest.mark.parametrize("task", TASKS)
def test_the_class_that_was_saved_by_its_name_or_its_heads(task, saved):
    folder = saved(task)
    assert type(load_pretrained(folder)) is CLASSES[task]
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "architectures": None}))
    model = load_pretrained(folder)
    assert type(model) is CLASSES[task] and model.newly_initialized == []


@pytest.mark.parametrize("prefix", ["TF", "Flax"])
def test_names_of_other_frameworks(prefix, saved):
    folder = saved("question-answering", architectures=[f"{prefix}AlbertForQuestionAnswering"])
    assert type(load_pretrained(folder)) is models.AlbertForQuestionAnswering


def test_a_named_task_takes_precedence(saved):
    folder = saved("token-classification")
    model = load_pretrained(folder, "question-answering", hidden_dropout_prob=0.25)
    assert type(model) is models.AlbertForQuestionAnswering
    assert model.newly_initialized == ["qa_outputs"]
    assert model.config.hidden_dropout_prob == 0.25
    assert type(load_pretrained(folder, "encoder")) is models.AlbertModel


def test_unknown_classes_and_tasks(saved):
    folder = saved("encoder", architectures=["AlbertForPoetry", "TFRobertaModel"])
    message = f"{folder}.*: AlbertForPoetry, TFRobertaModel.*--task.*masked-lm"
    with pytest.raises(UserError, match=message):
        load_pretrained(folder)
    with pytest.raises(UserError, match="one of encoder, .*multiple-choice. Received: 'poetry'"):
        load_pretrained(folder, "poetry")

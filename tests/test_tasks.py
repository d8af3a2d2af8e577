import inspect

import albert_tf
from albert_tf import models
from albert_tf.models import CLASSES
from albert_tf.models.examples import ENCODER_INPUTS
from albert_tf.pipelines import PIPELINES
from albert_tf.tasks import BY_PIPELINE, SIMILARITY, TASKS


def test_every_model_is_a_task():
    names = {name for name in models.__all__ if name.startswith("Albert")}
    assert {task.model for task in (*TASKS.values(), SIMILARITY)} == names
    assert models.AlbertForSimilarity.task is SIMILARITY
    for name, task in TASKS.items():
        assert task.name == name
        assert CLASSES[name].task is task
        takes_positions = "masked_lm_positions" in getattr(CLASSES[name], "task_inputs", ())
        assert task.takes_positions == takes_positions


def test_a_call_names_the_inputs_and_labels_of_its_head():
    for cls in (*CLASSES.values(), models.AlbertForSimilarity):
        assert getattr(albert_tf, cls.__name__) is cls
        own = dict.fromkeys((*cls.task_inputs, *cls.targets))
        options = ["output_attentions", "output_hidden_states", "unroll", "training"]
        if cls is models.AlbertModel:
            options.insert(-1, "pooled_only")
        assert list(inspect.signature(cls.call).parameters) == [
            "self",
            *ENCODER_INPUTS,
            *own,
            *options,
        ]


def test_each_pipeline_loads_one_task():
    assert set(BY_PIPELINE) == set(PIPELINES)
    assert len(BY_PIPELINE) == sum(len(task.pipelines) for task in TASKS.values())

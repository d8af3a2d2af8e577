"""Tasks by the name that `--task` gives."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.data.options import CHOICES, SIMILARITY, SQUAD, TAG, LabelledData, TaskData
from albert_tf.data.tasks.answers import QuestionAnswering
from albert_tf.data.tasks.base import Task
from albert_tf.data.tasks.choices import Choices
from albert_tf.data.tasks.classification import Classification
from albert_tf.data.tasks.similarity import Similarity
from albert_tf.data.tasks.tagging import Tagging

_TASKS: Final[dict[str, type[Task[Any, Any]]]] = {
    SQUAD: QuestionAnswering,
    TAG: Tagging,
    SIMILARITY: Similarity,
    **dict.fromkeys(CHOICES, Choices),
}


def task_of(options: TaskData, config: AlbertConfig | None = None) -> Task[Any, Any]:
    """Returns the task that the options name; `config` is a trained model's."""
    return _TASKS.get(options.task, Classification)(options, config)


class TrainingData(NamedTuple):
    """A task and the examples of a run, with a configuration that has the task's fields."""

    task: Task[Any, Any]
    train: Sequence[Any]
    dev: Sequence[Any]
    config: AlbertConfig


def training_data(options: LabelledData, dev_fraction: float, seed: int) -> TrainingData:
    """Reads and checks the data of a run without TensorFlow; parses each file once.

    Raises:
        UserError: files, rows or labels are not usable.
    """
    task = task_of(options)
    train, dev = task.train_and_dev(dev_fraction, seed)
    config = AlbertConfig(**task.config_fields(train))
    for examples in (train, dev):
        task.check(examples, config)
    return TrainingData(task, train, dev, config)

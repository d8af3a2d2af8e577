"""Tasks by their `--task` name, and the data of a run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.data.options import CHOICES, SIMILARITY, SQUAD, TAG, LabelledData, TaskData
from albert_tf.data.tasks.answers import QuestionAnswering, recipe_name
from albert_tf.data.tasks.base import Task
from albert_tf.data.tasks.choices import Choices
from albert_tf.data.tasks.labels import classification
from albert_tf.data.tasks.questions import trainable
from albert_tf.data.tasks.similarity import Similarity
from albert_tf.data.tasks.split import train_and_dev
from albert_tf.data.tasks.tagging import Tagging

_TASKS: Final[dict[str, Callable[..., Task[Any, Any]]]] = {
    SQUAD: QuestionAnswering,
    TAG: Tagging,
    SIMILARITY: Similarity,
    **dict.fromkeys(CHOICES, Choices),
}


def task_of(options: TaskData, config: AlbertConfig | None = None) -> Task[Any, Any]:
    """Returns the task named by the options. `config` is a trained model's configuration."""
    return _TASKS.get(options.task, classification)(options, config)


class TrainingData(NamedTuple):
    """A task and the examples of a run.

    Attributes:
        config_fields: the fields that the task sets in the model's configuration.
        config: a configuration with these fields.
        recipe: name of the hyperparameters in `albert_tf.recipes`.
    """

    task: Task[Any, Any]
    train: Sequence[Any]
    dev: Sequence[Any]
    config_fields: Mapping[str, Any]
    config: AlbertConfig
    recipe: str


def training_data(options: LabelledData, dev_fraction: float, seed: int) -> TrainingData:
    """Reads and checks the data of a run once, without TensorFlow.

    Raises:
        UserError: if files, rows, or labels can't be used.
    """
    task = task_of(options)
    train, dev = train_and_dev(task, dev_fraction, seed)
    recipe = options.task
    if isinstance(task, QuestionAnswering):
        train, recipe = trainable(train), recipe_name(train)
    fields = task.config_fields(train)
    config = AlbertConfig(**fields)
    task.check([*train, *dev], config)
    return TrainingData(task, train, dev, fields, config, recipe)

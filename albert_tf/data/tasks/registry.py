"""Tasks by the name that `--task` gives."""

from typing import Any, Final

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


def check_training_data(options: LabelledData) -> tuple[Task[Any, Any], Any]:
    """Reads the data of a training without TensorFlow.

    Returns:
        the task, and a configuration with its fields.
    Raises:
        UserError: files, rows or labels are not usable.
    """
    task = task_of(options)
    train = task.examples("train")
    config = AlbertConfig(**task.config_fields(train))
    task.check(train, config)
    if not options.data.is_file():
        task.check(task.examples("dev"), config)
    return task, config

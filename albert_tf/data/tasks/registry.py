"""Creates tasks by their `--task` name, and reads the examples of a run from one or more files."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.data.options import CHOICES, SIMILARITY, SQUAD, TAG, LabelledData, TaskData
from albert_tf.data.tasks.answers import QuestionAnswering, recipe_name
from albert_tf.data.tasks.base import Keys, Task
from albert_tf.data.tasks.choices import Choices
from albert_tf.data.tasks.labels import classification
from albert_tf.data.tasks.questions import trainable
from albert_tf.data.tasks.similarity import Similarity
from albert_tf.data.tasks.tagging import Tagging
from albert_tf.errors import UserError

_TASKS: Final[dict[str, type[Task[Any, Any]]]] = {
    SQUAD: QuestionAnswering,
    TAG: Tagging,
    SIMILARITY: Similarity,
    **dict.fromkeys(CHOICES, Choices),
}


def task_of(options: TaskData, config: AlbertConfig | None = None) -> Task[Any, Any]:
    """Returns the task named by the options. `config` is a trained model's configuration."""
    if options.task in _TASKS:
        return _TASKS[options.task](options)
    return classification(options, config)


class TrainingData(NamedTuple):
    """A task and the examples of a run.

    Attributes:
        config_fields: the fields that the task sets in the model's configuration.
        config: a configuration with these fields.
        recipe: name of the hyperparameters in `albert_tf.recipes`.
        test: examples on which the best version of the model is scored.
    """

    task: Task[Any, Any]
    train: Sequence[Any]
    dev: Sequence[Any]
    config_fields: Mapping[str, Any]
    config: AlbertConfig
    recipe: str
    test: Sequence[Any] = ()


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
    # None removes what the model has learned for a previous task.
    fields = {"thresholds": None, "largest_score": None, **task.config_fields(train)}
    config = AlbertConfig(**fields)
    task.check([*train, *dev], config)
    return TrainingData(task, train, dev, fields, config, recipe)


def read_split(task: Task[Any, Any], split: str, labelled: bool = True) -> list[Any]:
    """Reads the examples of "train", "dev", or "test"; see `Task.read`."""
    return [example for path in task.files(split) for example in task.read(path, labelled)]


def train_and_dev(
    task: Task[Any, Any], dev_fraction: float, seed: int
) -> tuple[list[Any], list[Any]]:
    """Reads the training examples and the dev examples.

    A folder or Hub dataset contains both splits. A single file is split.

    Raises:
        UserError: if the data can't be read or split, or nothing can be learned from it.
    """
    data = task.options.data
    if not data.is_file():
        return read_split(task, "train"), read_split(task, "dev")
    examples = task.read(data)
    keys = task.keys(examples)
    try:
        train, dev = split_rows(keys, len(examples), dev_fraction, seed)
    except ValueError as error:
        task.config_fields(examples)  # raises if nothing can be learned from the data
        of_groups = "" if keys.groups is None else f" in {len(set(keys.groups))} groups"
        once = len(_with_rare_labels(keys.labels or ()))
        raise UserError(
            f"{data} has too few examples to split with dev_fraction={dev_fraction}: "
            f"{len(examples)} examples{of_groups}, of which {once} have labels that occur only "
            "once. Add examples, or use a folder with files for train and dev."
        ) from error
    return [examples[row] for row in train], [examples[row] for row in dev]


def split_rows(
    keys: Keys, count: int, dev_fraction: float, seed: int
) -> tuple[list[int], list[int]]:
    """Returns the train rows and the dev rows; every label in dev also occurs in train.

    Args:
        dev_fraction: fraction of the rows, or of the groups, to use for dev.
    Raises:
        ValueError: if train or dev would be empty.
    """
    from sklearn import model_selection  # takes seconds to import

    labels, groups = keys.labels or [()] * count, keys.groups or range(count)
    rare: list[int] = []
    if keys.groups is not None:
        splitter = model_selection.GroupShuffleSplit(1, test_size=dev_fraction, random_state=seed)
        ((train, dev),) = splitter.split(range(count), groups=keys.groups)
    else:
        rare = _with_rare_labels(labels)  # stay in train, so that their labels are learned
        others = sorted({*range(count)} - {*rare})
        dev_count = max(1, round(dev_fraction * len(others)))
        strata = None
        if keys.strata is not None and others:
            strata = [str(keys.strata[row]) for row in others]  # sklearn rejects unequal tuples
            counts = Counter(strata)
            if min(counts.values()) < 2 or len(counts) > dev_count:  # too few to stratify
                strata = None
        train, dev = model_selection.train_test_split(
            others, test_size=dev_count, random_state=seed, stratify=strata
        )
    learned = {name for row in (*train, *rare) for name in labels[row]}
    unseen = {groups[row] for row in dev if not learned.issuperset(labels[row])}
    moved = [row for row in dev if groups[row] in unseen]
    if len(moved) == len(dev):
        raise ValueError("every dev row has a label that train lacks")
    return [*train, *rare, *moved], [row for row in dev if groups[row] not in unseen]


def _with_rare_labels(labels: Sequence[Sequence[str]]) -> list[int]:
    """Returns the rows with a label that occurs only once."""
    counts = Counter(chain(*labels))
    return [row for row, names in enumerate(labels) if any(counts[name] < 2 for name in names)]

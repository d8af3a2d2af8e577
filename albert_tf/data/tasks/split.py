"""Reads the examples of a split from separate files, or from part of a single file."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

from albert_tf.data.tasks.base import Keys, Task
from albert_tf.errors import UserError


def read_split(task: Task[Any, Any], split: str, labelled: bool = True) -> list[Any]:
    """Reads the examples of "train", "dev", or "test"; see `Task.read`."""
    return [example for path in task.files(split) for example in task.read(path, labelled)]


def train_and_dev(
    task: Task[Any, Any], dev_fraction: float, seed: int
) -> tuple[list[Any], list[Any]]:
    """Reads the training examples and the dev examples.

    A folder or hub dataset contains both splits. A single file is split.

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
        of_groups = "" if keys.groups is None else f" in {len(set(keys.groups))} documents"
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

    if keys.groups is not None:
        splitter = model_selection.GroupShuffleSplit(1, test_size=dev_fraction, random_state=seed)
        ((train, dev),) = splitter.split(range(count), groups=keys.groups)
        return list(train), list(dev)
    labels = keys.labels or [()] * count
    rare = _with_rare_labels(labels)  # stay in train, so that their labels are learned
    others = sorted({*range(count)} - {*rare})
    dev_count = max(1, round(dev_fraction * len(others)))
    strata = None
    if keys.strata is not None and others:
        strata = [str(keys.strata[row]) for row in others]  # scikit-learn rejects unequal tuples
        counts = Counter(strata)
        if min(counts.values()) < 2 or len(counts) > dev_count:  # too few to stratify
            strata = None
    train, dev = model_selection.train_test_split(
        others, test_size=dev_count, random_state=seed, stratify=strata
    )
    learned = {name for row in (*train, *rare) for name in labels[row]}
    unseen = [row for row in dev if not learned.issuperset(labels[row])]
    if len(unseen) == len(dev):
        raise ValueError("every dev row has a label that train lacks")
    return [*train, *rare, *unseen], [row for row in dev if learned.issuperset(labels[row])]


def _with_rare_labels(labels: Sequence[Sequence[str]]) -> list[int]:
    """Returns the rows with a label that occurs only once."""
    counts = Counter(chain(*labels))
    return [row for row, names in enumerate(labels) if any(counts[name] < 2 for name in names)]

"""Labels of a task: classes with names, or scores."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from albert_tf.data.options import LabelledData
from albert_tf.data.readers import Example, read_examples
from albert_tf.data.tasks import GLUE, dev_file, train_file
from albert_tf.errors import UserError, listed

# A key of scores: all predictions are of one class, the labels of several.
ONE_CLASS: Final = "one_class"


class Labels(NamedTuple):
    """The labels of a task.

    Attributes:
        names: the names of the classes in a model, in order; a single one for scores.
        numbers: the class of each label in the files; None for scores.
    """

    names: tuple[str, ...]
    numbers: dict[str, int] | None

    def number(self, example: Example) -> float:
        """An example's class, or its score.

        Raises:
            UserError: a label that the task doesn't have, or a score that isn't a number.
        """
        label = example.label or ""
        if self.numbers is not None:
            if label not in self.numbers:
                raise UserError(
                    f"A label must be one of {listed(self.numbers)}. "
                    f"Received: {label!r:.80}, {_place(example)}."
                )
            return self.numbers[label]
        try:
            score = float(label)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise UserError(
                f"A score must be a number. Received: {label!r:.80}, {_place(example)}."
            )
        return score


def task_labels(task: str, examples: Sequence[Example], regression: bool = False) -> Labels:
    """GLUE's labels in GLUE's order; for other data the labels of `examples`, sorted.

    Raises:
        UserError: all examples have the same label.
    """
    if _is_score(task, regression):
        return Labels(("score",), None)
    if task in GLUE:
        written, names = zip(*GLUE[task].labels, strict=True)
        return Labels(names, {label: number for number, label in enumerate(written)})
    found = _sorted({example.label or "" for example in examples})
    if len(found) < 2:
        raise UserError(
            "Classification needs at least two labels. "
            f"Received: {len(examples)} examples, all with the label {found[0]!r}."
        )
    return Labels(tuple(found), {label: number for number, label in enumerate(found)})


def _is_score(task: str, regression: bool) -> bool:
    return regression or (task in GLUE and not GLUE[task].labels)


def _sorted(labels: set[str]) -> list[str]:
    """Sorts by value if all are numbers: "2" before "10"."""
    try:
        return sorted(labels, key=float)
    except ValueError:
        return sorted(labels)


def model_labels(names: tuple[str, ...], task: str, regression: bool = False) -> Labels:
    """The labels of a trained model, by their spelling in the files of its task.

    A model of a GLUE task may name them as GLUE's files do, or LABEL_0, LABEL_1, … in GLUE's order.

    Raises:
        UserError: the model's labels aren't the task's.
    """
    if _is_score(task, regression):
        known: list[tuple[str, ...]] = [names[:1]]
        written: tuple[str, ...] = ()
    elif task in GLUE:
        written, named = zip(*GLUE[task].labels, strict=True)
        known = [named, written, tuple(f"LABEL_{number}" for number in range(len(written)))]
    else:
        written, known = names, [names]
    lowered = [name.lower() for name in names]
    for spelled in known:
        expected = [name.lower() for name in spelled]
        if sorted(expected) == sorted(lowered):
            pairs = zip(written, expected, strict=bool(written))
            return Labels(names, {label: lowered.index(name) for label, name in pairs} or None)
    wanted = "score" if _is_score(task, regression) else listed(known[0])
    raise UserError(
        f"The model's labels must be those of the task {task}: {wanted}. Received: "
        f"{listed(names)}. Give the task that the model was trained on, or for data of your own "
        "--task classify."
    )


def check_labels(options: LabelledData, labels: Labels | None = None) -> None:
    """Reads the examples of an evaluation by a model with `labels`, or else of a training.

    Raises:
        UserError: files, rows or labels are not usable.
    """
    finders = [dev_file] if labels or options.data.is_file() else [train_file, dev_file]
    for path in [find(options.data, options.task) for find in finders]:
        examples = read_examples(path, options.columns, options.skip_bad_rows)
        labels = labels or task_labels(options.task, examples, options.regression)
        for example in examples:
            labels.number(example)


def _place(example: Example) -> str:
    return example.place or f"for the text {example.text[:60]!r}"

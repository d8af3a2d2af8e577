"""Labels of a task: classes with names, or scores."""

from collections.abc import Sequence
from typing import NamedTuple

from albert_tf.data.readers import Example
from albert_tf.data.tasks import GLUE
from albert_tf.errors import UserError


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
                    f"A label must be one of {', '.join(self.numbers)}. "
                    f"Received: {label!r}, for the text {example.text[:60]!r}."
                )
            return self.numbers[label]
        try:
            return float(label)
        except ValueError:
            raise UserError(
                "A score must be a number. "
                f"Received: {label!r}, for the text {example.text[:60]!r}."
            ) from None


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

    Raises:
        UserError: the model's labels aren't the task's.
    """
    if _is_score(task, regression):
        expected: tuple[str, ...] = ("score",)
        numbers = None
    elif task in GLUE:
        expected = tuple(name for _, name in GLUE[task].labels)
        order = names if set(names) == set(expected) else expected
        numbers = {written: order.index(name) for written, name in GLUE[task].labels}
    else:
        expected, numbers = names, {name: number for number, name in enumerate(names)}
    if len(names) != len(expected):
        raise UserError(
            f"The model's labels must be those of the task {task}: {', '.join(expected)}. "
            f"Received: {', '.join(names)}."
        )
    return Labels(names, numbers)

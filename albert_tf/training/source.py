"""The training data of a resumable `fit`, whose order must be known."""

import hashlib
import itertools
from typing import Any, Final, NamedTuple

import keras
import numpy as np

from albert_tf.data.pipeline import Batches, batches_of
from albert_tf.errors import UserError
from albert_tf.models.fitting import Fit

_COMPARED: Final = 3  # batches that are read twice


class Source(NamedTuple):
    """The data that `fit` reads, whose order can be restored.

    Attributes:
        batches: the package's own batches that the data consists of, or None.
        sample: the first batch, if the data isn't only the package's own batches.
        digest: hexadecimal SHA-256 digest of the first batches of such data.
        is_endless: whether each epoch of `fit` reads on where the previous one ended.
    """

    batches: Batches | None
    sample: Any = None
    digest: str = ""
    is_endless: bool = False

    @classmethod
    def of(cls, fit: Fit) -> "Source":
        """Returns the source for a `fit` call.

        Raises:
            UserError: if the order of the data can't be restored.
        """
        data, steps = fit.data, fit.steps_per_epoch
        batches = batches_of(data)
        if batches is not None and batches is getattr(data, "batches", None):
            if steps is not None:
                raise UserError(
                    "With Resume, an epoch reads all texts or arrays. Omit steps_per_epoch, or "
                    "pass a dataset that repeats."
                )
            return cls(batches)
        if hasattr(data, "__next__") or (steps is not None and not hasattr(data, "cardinality")):
            raise UserError(
                "Resume requires texts, arrays, a tf.data.Dataset, or (without steps_per_epoch) a "
                f"keras.utils.PyDataset. Received: {type(data).__name__}."
            )
        number = -1 if steps is None else int(data.cardinality())  # negative: endless or unknown
        if steps is not None and number >= 0 and number != steps:
            raise UserError(
                "With steps_per_epoch, Resume requires a dataset that repeats. Pass "
                f"dataset.repeat(), or omit steps_per_epoch. Received: {number} batches, "
                f"steps_per_epoch={steps}."
            )
        at_once = fit.model.steps_per_execution
        if steps is not None and steps % at_once:  # Keras would train more steps
            raise UserError(
                "With Resume, steps_per_epoch must be a multiple of steps_per_execution. Received: "
                f"steps_per_epoch={steps}, steps_per_execution={at_once}."
            )
        if isinstance(data, keras.utils.PyDataset) and (fit.shuffle or _changes(data)):
            raise UserError(
                "With Resume, a PyDataset must return the same batches in each epoch. Pass "
                "shuffle=False to fit, and don't change the order in on_epoch_end."
            )
        first, again = (_first_batches(data, batches) for _ in range(2))
        digest = _digest(first)
        if digest != _digest(again):
            raise UserError(
                "With Resume, a dataset must yield the same batches whenever it is read. Pass "
                "reshuffle_each_iteration=False to shuffle, or pass texts or arrays to fit, which "
                "shuffles them in an order that Resume can restore."
            )
        return cls(batches, next(iter(first), None), digest, steps is not None and number < 0)

    def batch(self) -> Any:
        """Returns a batch with the structure of the data."""
        return (
            self.sample if self.digest or self.batches is None else self.batches.of(np.array([0]))
        )

    def settings(self) -> dict[str, Any]:
        """Returns, as JSON, what must not change when a run resumes."""
        settings: dict[str, Any] = {}
        if self.digest:
            settings |= {"first_batches_sha256": self.digest}
        if self.batches is not None:
            rows = self.batches.rows
            settings |= {
                "examples": len(rows),
                "examples_sha256": rows.digest(),
                "batch_size": self.batches.batch_size,
                "shuffle": self.batches.shuffle,
            }
        return settings


def _changes(data: keras.utils.PyDataset) -> bool:
    """Whether a dataset defines what happens between epochs, which may change its order."""
    return any(
        getattr(type(data), name) is not getattr(keras.utils.PyDataset, name)
        for name in ("on_epoch_begin", "on_epoch_end")
    )


def _first_batches(data: Any, batches: Batches | None) -> list[Any]:
    """Returns the first batches of a dataset, which can be a transformation of `batches`."""
    if isinstance(data, keras.utils.PyDataset):
        return [data[number] for number in range(min(_COMPARED, data.num_batches or _COMPARED))]
    if batches is not None:
        batches.next_epoch = 0
    first = list(itertools.islice(iter(data), _COMPARED))
    if batches is not None:
        batches.next_epoch = 0
    return first


def _digest(batches: list[Any]) -> str:
    """Returns the hexadecimal SHA-256 digest of batches."""
    total = hashlib.sha256()
    for values in keras.tree.flatten(batches):
        array = np.asarray(() if values is None else values)
        is_text = array.dtype.kind == "O"
        total.update(repr((array.shape, array.dtype.str)).encode())
        total.update(repr(array.tolist()).encode() if is_text else array.tobytes())
    return total.hexdigest()

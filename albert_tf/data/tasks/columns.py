"""Checks the columns of texts and labels that a task's rows are made of."""

import math
from collections.abc import Iterable
from typing import Any

from albert_tf.errors import UserError, short_repr


def columns(**given: Iterable[Any] | None) -> tuple[Any, ...]:
    """Converts columns to lists, because a pandas Series is indexed by label. Leaves None as is.

    Raises:
        UserError: a column is a single text or contains NaN, the columns are empty, or their
            lengths differ.
    """
    for name, values in given.items():
        if isinstance(values, str):
            raise UserError(f"{name} must be a list. Received: {short_repr(values)}.")
    lists = {name: None if values is None else list(values) for name, values in given.items()}
    for name, values in lists.items():
        for row, value in enumerate(values or ()):
            if isinstance(value, float) and math.isnan(value):
                raise UserError(
                    f"{name} must not contain missing values. Received: nan in row {row}. Drop the "
                    "row, or replace the value."
                )
    lengths = {name: len(values) for name, values in lists.items() if values is not None}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise UserError(
            "All columns must have one value per example. Received: "
            f"{', '.join(f'{number} {name}' for name, number in lengths.items())}."
        )
    return tuple(lists.values())

"""What the values of a configuration must be."""

from collections.abc import Callable, Mapping
from typing import Any


def require(name: str, value: Any, holds: Callable[[Any], bool], rule: str) -> None:
    """Refuses a value that breaks its rule."""
    if not holds(value):
        raise ValueError(f"{name} must be {rule}. Received: {name}={value!r}.")


def is_integer(value: Any) -> bool:
    """Whether it is an int; True and False aren't."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_positive_integer(value: Any) -> bool:
    """Whether it is 1, 2, …"""
    return is_integer(value) and value > 0


def is_fraction(value: Any) -> bool:
    """Whether it is a number in [0, 1)."""
    return _is_number(value) and 0 <= value < 1


def is_positive_number(value: Any) -> bool:
    """Whether it is a finite number above 0."""
    return _is_number(value) and 0 < value < float("inf")


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or is_integer(value)


def checked_labels(labels: Mapping[int, str]) -> dict[int, str]:
    """`id2label` in order, once it is sure to name every class, each otherwise."""
    ordered = {index: labels[index] for index in sorted(labels)}
    if not ordered or list(ordered) != list(range(len(ordered))):
        raise ValueError(
            f"id2label must name the classes 0, 1, 2, … without a gap. Received: {dict(labels)!r}."
        )
    if len(set(ordered.values())) < len(ordered):
        raise ValueError(f"id2label must not name two classes alike. Received: {dict(labels)!r}.")
    return ordered


def read_labels(values: Mapping[str, Any]) -> dict[int, str] | None:
    """Labels from `id2label`, or as many unnamed ones as `num_labels` asks for."""
    labels, count = values.get("id2label"), values.get("num_labels")
    if isinstance(labels, Mapping) and all(str(index).isdigit() for index in labels):
        return {int(index): label for index, label in labels.items()}
    if labels is not None:
        raise ValueError(f"id2label must map class numbers to names. Received: {labels!r}.")
    if count is None:
        return None
    require("num_labels", count, is_positive_integer, "a positive integer")
    return unnamed_labels(count)


def unnamed_labels(count: int) -> dict[int, str]:
    """`{0: "LABEL_0", …}`, the names that transformers gives classes without names."""
    return {index: f"LABEL_{index}" for index in range(count)}

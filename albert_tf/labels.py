"""The label names of a configuration, in every form that transformers uses."""

from collections.abc import Mapping
from typing import Any, Final

from albert_tf.errors import short_repr
from albert_tf.options import Range, check_number

_COUNT: Final = Range(1, 1_000_000)  # The names of a million labels take 150 MB.


def unnamed_labels(count: int) -> dict[int, str]:
    """Returns `{0: "LABEL_0", …}`, the names that transformers uses for unnamed classes."""
    check_number("num_labels", count, _COUNT)
    return {index: f"LABEL_{index}" for index in range(count)}


UNNAMED: Final = unnamed_labels(2)  # transformers also omits these defaults


def merge_labels(fields: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Merges `num_labels` and `label2id` into `id2label`; other fields are returned unchanged.

    Args:
        count: current number of classes. If `num_labels` is the same, their names are kept.
    Raises:
        ValueError: `num_labels` is out of range, or the arguments contradict each other.
    """
    merged = dict(fields)
    num_labels, label2id = merged.pop("num_labels", None), merged.pop("label2id", None)
    if num_labels is not None:
        check_number("num_labels", num_labels, _COUNT)
    if label2id is not None:
        inverse = _inverse(label2id)
        if merged.get("id2label") is None:
            merged["id2label"] = inverse
        elif sort_labels(merged["id2label"]) != sort_labels(inverse):
            raise ValueError(
                "label2id must be the inverse of id2label. Received: "
                f"label2id={short_repr(label2id)}, id2label={short_repr(merged['id2label'])}. "
                "Pass only one of them."
            )
    labels = merged.get("id2label")
    if labels is None and num_labels == count:
        merged.pop("id2label", None)
    elif labels is None and num_labels is not None:
        merged["id2label"] = unnamed_labels(int(num_labels))
    elif isinstance(labels, Mapping) and num_labels not in (None, len(labels)):
        raise ValueError(
            "num_labels must be the number of names in id2label. "
            f"Received: num_labels={num_labels}, id2label={short_repr(labels)}."
        )
    return merged


def _inverse(label2id: Any) -> dict[int, str]:
    """Returns `id2label`. Rejects two names for one class, of which only one would be kept."""
    is_mapping = isinstance(label2id, Mapping)
    if not is_mapping or len(set(label2id.values())) < len(label2id):
        raise ValueError(
            "label2id must map each name to a different class id. "
            f"Received: {short_repr(label2id)}."
        )
    return {index: name for name, index in label2id.items()}


def sort_labels(labels: Any) -> dict[int, str]:
    """Returns `id2label` sorted by integer class id (in JSON, class ids are strings).

    Numeric names are converted to strings, because the keys of `label2id` are always strings.

    Raises:
        ValueError: a name is missing, repeated, or not a valid string.
    """
    received = f"Received: {short_repr(labels)}."
    try:
        by_id = {
            int(index): str(name) if isinstance(name, int | float) else name
            for index, name in labels.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"id2label must map class ids to names. {received}") from None
    if not by_id or sorted(by_id) != list(range(len(by_id))):
        raise ValueError(f"id2label must name the classes 0, 1, 2, … without gaps. {received}")
    for name in by_id.values():
        # UTF-8 can't encode half of a surrogate pair.
        if not isinstance(name, str) or any("\ud800" <= char <= "\udfff" for char in name):
            raise ValueError(f"The names in id2label must be valid strings. {received}")
    if len(set(by_id.values())) < len(by_id):
        raise ValueError(f"The names in id2label must be unique. {received}")
    check_number("num_labels", len(by_id), _COUNT)
    return dict(sorted(by_id.items()))

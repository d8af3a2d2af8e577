"""The configuration of a checkpoint with other values, as `from_pretrained` takes them."""

import dataclasses
from typing import Any

from albert_tf.checkpoints import directory
from albert_tf.config import AlbertConfig
from albert_tf.config_checks import unnamed_labels


def _with_labels(config: AlbertConfig, changes: dict[str, Any]) -> dict[str, Any]:
    """`changes` with `id2label` alone in the place of the three ways to say labels.

    `num_labels` keeps the labels' names if their number stays.
    """
    others = dict(changes)
    count, names = others.pop("num_labels", None), others.pop("id2label", None)
    numbers = others.pop("label2id", None)
    if names is None and numbers is not None:
        names = {number: name for name, number in numbers.items()}
    if names is not None:
        names = {int(number): name for number, name in names.items()}
        if count not in (None, len(names)):
            raise ValueError(
                "num_labels must be the number of names in id2label. "
                f"Received: num_labels={count}, id2label={names}."
            )
        return {**others, "id2label": names}
    if count not in (None, config.num_labels):
        return {**others, "id2label": unnamed_labels(count)}
    return others


def overridden(config: AlbertConfig, changes: dict[str, Any]) -> AlbertConfig:
    """`config` with other values."""
    changes = _with_labels(config, changes)
    unknown = changes.keys() - {field.name for field in dataclasses.fields(config)}
    if unknown:
        raise TypeError(
            f"from_pretrained takes {', '.join(directory.HUB_OPTIONS)}, dtype and fields of "
            f"AlbertConfig. Received: {', '.join(sorted(unknown))}."
        )
    return dataclasses.replace(config, **changes)

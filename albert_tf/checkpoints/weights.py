"""Moves tensors between a model and a mapping of names to arrays, all or nothing."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from keras import ops

from albert_tf.checkpoints import names, shapes
from albert_tf.errors import UserError

logger = logging.getLogger(__name__)


def extract(model: Any) -> dict[str, np.ndarray]:
    """A model's weights under transformers' names, with the prefix "albert." where it has one."""
    is_task = hasattr(model, names.BACKBONE)
    tensors = {}
    for name, (variable, transposed) in names.weights(model).items():
        array = ops.convert_to_numpy(variable)
        if np.issubdtype(array.dtype, np.integer):
            raise UserError(
                "A checkpoint holds floating-point weights. "
                f"Received: {name} in {array.dtype}, as quantize() leaves it. Save the model "
                "before that, or export it in 8 bits."
            )
        tensor = array.T if transposed else array
        tensors[names.stored_name(name) if is_task else name] = np.ascontiguousarray(tensor)
    return tensors


def assign(
    model: Any,
    tensors: Mapping[str, np.ndarray],
    source: str,
    ignore_mismatched_sizes: bool = False,
) -> list[str]:
    """Gives a model the weights of a checkpoint; nothing is assigned unless everything fits.

    A whole part that may be absent (the pooler, a head) may be missing, and keeps its fresh
    weights, or be left over, and is ignored; either is logged.

    Args:
        model: the model to fill.
        tensors: arrays by Hugging Face's names, with or without the prefix "albert.".
        source: where they come from, for errors.
        ignore_mismatched_sizes: a head that has other shapes counts as absent.
    Returns:
        the parts that keep fresh weights, for example `["classifier"]`.
    Raises:
        UserError: a weight is missing, left over, not finite, or has another shape; both sides are
            listed.
    """
    wanted = names.weights(model)
    given = {name.removeprefix(f"{names.BACKBONE}."): tensor for name, tensor in tensors.items()}
    given = {name: tensor for name, tensor in given.items() if name not in names.REDUNDANT}
    if ignore_mismatched_sizes:
        differing = {names.part(name) for name in _misshapen(wanted, given)} - {None, names.POOLER}
        given = {name: given[name] for name in given if names.part(name) not in differing}
    fresh = _absent_parts(wanted, given)
    ignored = _absent_parts(given, wanted)
    missing = [name for name in wanted if name not in given and names.part(name) not in fresh]
    unused = [name for name in given if name not in wanted and names.part(name) not in ignored]
    common = {
        name: given[name].T if wanted[name].transposed else given[name]
        for name in wanted
        if name in given
    }
    faults = [
        *(f"missing from the checkpoint: {name} {_stored_shape(wanted[name])}" for name in missing),
        *(f"unknown to the model: {name} {tuple(given[name].shape)}" for name in unused),
        *_misshapen(wanted, given).values(),
        *_unequal(wanted, common),
        *(fault for name, tensor in common.items() if (fault := shapes.bad_values(name, tensor))),
    ]
    if faults:
        listing = "\n  ".join(faults)
        raise UserError(
            f"The weights of {source} must fit its configuration; nothing was loaded. Received:\n  "
            f"{listing}\n"
            "Is the configuration the one that these weights were saved with?"
        )
    for name, tensor in common.items():
        wanted[name].variable.assign(tensor.astype("float32"))
    if fresh:
        logger.warning(
            "%s: not in the checkpoint, so newly initialized: %s.", source, ", ".join(fresh)
        )
    if ignored:
        logger.info(
            "%s: in the checkpoint, but no part of this model: %s.", source, ", ".join(ignored)
        )
    return fresh


def _unequal(wanted: Mapping[str, names.Weight], common: Mapping[str, np.ndarray]) -> list[str]:
    """Tensors that are one weight in the model, but not alike in the checkpoint."""
    first: dict[int, str] = {}
    return [
        f"shared, but differs from {first[key]}: {name}"
        for name, tensor in common.items()
        if (key := id(wanted[name].variable))
        and not np.array_equal(common[first.setdefault(key, name)], tensor, equal_nan=True)
    ]


def _absent_parts(these: Mapping[str, Any], those: Mapping[str, Any]) -> list[str]:
    """The optional parts of which `these` has tensors and `those` has none."""
    present = {names.part(name) for name in those}
    return sorted({part for name in these if (part := names.part(name)) and part not in present})


def _stored_shape(weight: names.Weight) -> tuple[int, ...]:
    shape = tuple(weight.variable.shape)
    return shape[::-1] if weight.transposed else shape


def _misshapen(
    wanted: Mapping[str, names.Weight], given: Mapping[str, np.ndarray]
) -> dict[str, str]:
    """What is wrong with each tensor whose shape isn't the configuration's, by its name."""
    faults = {
        name: shapes.another_shape(name, given[name].shape, _stored_shape(weight))
        for name, weight in wanted.items()
        if name in given
    }
    return {name: fault for name, fault in faults.items() if fault}

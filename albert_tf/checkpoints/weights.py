"""Checkpoints in memory: compared with a configuration, and moved into and out of models."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from albert_tf.checkpoints import names
from albert_tf.checkpoints.weight_files import is_floating
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError

logger = logging.getLogger(__name__)
Shape = Sequence[int | None]  # None: any length
_LARGE = 1e6  # trained weights stay below 100
_SHOWN = 50  # items in a message


class Checkpoint(NamedTuple):
    """A checkpoint of any format in memory.

    Attributes:
        config: of the model that was saved.
        tensors: by Hugging Face's names without the prefix "albert.", in its orientation.
        origin: path and format, for messages.
        folder: directory of the files; None if there is none.
    """

    config: AlbertConfig
    tensors: dict[str, np.ndarray]
    origin: str
    folder: Path | None = None


def extract(model: Any) -> dict[str, np.ndarray]:
    """Returns a model's weights by Hugging Face's names without "albert.".

    Raises:
        UserError: the model has others, or they are quantized.
    """
    from keras import ops

    if others := model.build_added():
        raise UserError(
            "A checkpoint holds the weights of ALBERT and its heads. Received: a subclass with "
            f"others, {', '.join(others)}. Save it with model.save('model.keras')."
        )
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
        tensors[name] = np.ascontiguousarray(tensor)
    return tensors


def assign(
    model: Any,
    tensors: Mapping[str, np.ndarray],
    source: str,
    ignore_mismatched_sizes: bool = False,
) -> list[str]:
    """Gives a model the weights of a checkpoint, or raises before any of them changes.

    The pooler and the heads may be missing on either side: missing in the file, they are newly
    initialized; missing in the model, ignored. Both are logged.

    Args:
        model: the model to fill.
        tensors: arrays by Hugging Face's names without "albert.".
        source: their origin, for errors.
        ignore_mismatched_sizes: treat a head of another shape as missing.
    Returns:
        the newly initialized parts, for example `["classifier"]`.
    Raises:
        UserError: lists every weight that is missing, unknown, not finite or of another shape.
    """
    variables = names.weights(model)
    wanted = {name: _stored_shape(weight) for name, weight in variables.items()}
    given = tensors
    parts = {part for name in _misshapen(wanted, given) if (part := names.part(name))}
    way_out = ""
    if heads := sorted(parts - {names.POOLER}):
        way_out = f"Give ignore_mismatched_sizes=True to initialize {', '.join(heads)} anew."
    if ignore_mismatched_sizes:
        given = {name: given[name] for name in given if names.part(name) not in heads}
    common = {name: given[name] for name in wanted if name in given}
    faults = [*misfits(model.config, wanted, given), *_unequal(variables, common)]
    require_fit([*faults, *bad_values(common, source)], source, "loaded", way_out)
    for name, tensor in common.items():
        tensor = tensor.T if variables[name].transposed else tensor
        variables[name].variable.assign(tensor.astype("float32"))
    new_parts, ignored = _absent_parts(wanted, given), _absent_parts(given, wanted)
    if new_parts:
        logger.warning(
            "%s: not in the checkpoint, so newly initialized: %s.", source, ", ".join(new_parts)
        )
    if ignored:
        logger.info(
            "%s: in the checkpoint, but no part of this model: %s.", source, ", ".join(ignored)
        )
    return new_parts


def check_backbone(checkpoint: Checkpoint) -> None:
    """Compares the shapes of encoder and pooler with the configuration, before a model is built.

    Raises:
        UserError: lists every weight that is missing, unknown or of another shape, heads' too.
    """

    def is_backbone(name: str) -> bool:
        return names.part(name) in (None, names.POOLER)

    config = checkpoint.config
    wanted, given = names.shapes(config), checkpoint.tensors
    backbone = {name: tensor for name, tensor in given.items() if is_backbone(name)}
    shapes = {name: shape for name, shape in wanted.items() if is_backbone(name)}
    if any(misfits(config, shapes, backbone)):
        require_fit(list(misfits(config, wanted, given)), checkpoint.origin, "loaded")


def misfits(
    config: AlbertConfig, wanted: Mapping[str, Shape], given: Mapping[str, Any]
) -> Iterator[str]:
    """Describes every tensor that is missing, unknown or of another shape.

    Args:
        config: decides the shapes; errors name its fields.
        wanted: the shape of each weight.
        given: anything with a `shape`, by name. Whole parts may be absent on either side.
    """
    new_parts, ignored = _absent_parts(wanted, given), _absent_parts(given, wanted)
    for name, shape in wanted.items():
        if name not in given and names.part(name) not in new_parts:
            yield f"missing from the checkpoint: {name} {_readable(shape)}"
    for name, tensor in given.items():
        if name not in wanted and names.part(name) not in ignored:
            yield f"unknown to the model: {name} {tuple(tensor.shape)}"
    axes = names.axes(config)
    for name in _misshapen(wanted, given):
        stored, shape = given[name].shape, wanted[name]
        letters = axes[name]
        if len(stored) == len(shape):
            pairs = zip(letters, zip(stored, shape, strict=True), strict=True)
            letters = [letter for letter, (size, expected) in pairs if expected not in (None, size)]
        fields = dict.fromkeys(names.FIELDS[letter] for letter in letters if letter in names.FIELDS)
        decided = f" ({', '.join(fields)})" if fields else ""
        yield (
            f"another shape: {name} is {_readable(stored)} in the checkpoint, "
            f"{_readable(shape)} by the configuration{decided}"
        )


def bad_values(tensors: Mapping[str, np.ndarray], source: str) -> list[str]:
    """Describes every tensor that is not floating-point or not finite; warns of large numbers."""
    faults, large = [], []
    for name, tensor in tensors.items():
        if not is_floating(tensor):
            faults.append(f"not floating-point: {name}, {tensor.dtype}")
            continue
        largest = _largest(tensor)
        if not np.isfinite(largest):
            faults.append(f"not finite: {name}")
        elif largest > _LARGE:
            large.append(f"{name} ({largest:.2g})")
    if large:
        logger.warning(
            "%s: weights larger than %g, which training does not produce: %s. Is the file damaged?",
            source,
            _LARGE,
            _listed(large, ", "),
        )
    return faults


def _largest(tensor: np.ndarray) -> np.ndarray:
    """Returns the largest magnitude as float32; NaN if there is a NaN."""
    with np.errstate(over="ignore"):
        extremes = (tensor.max(initial=0), -tensor.min(initial=0))
        return np.maximum(*np.asarray(extremes, "float32"))


def _listed(items: Sequence[str], separator: str) -> str:
    more = [f"and {len(items) - _SHOWN} more"] * (len(items) > _SHOWN)
    return separator.join([*items[:_SHOWN], *more])


def require_fit(faults: Sequence[str], source: str, done: str, way_out: str = "") -> None:
    """Raises one error that lists all faults.

    Args:
        done: the action that was refused, "loaded" or "written".
        way_out: a sentence for the end. Default: asks whether the configuration is right.
    """
    if faults:
        listing = _listed(faults, "\n  ")
        raise UserError(
            f"The weights of {source} must fit its configuration; nothing was {done}. Received:\n  "
            f"{listing}\n"
            + (way_out or "Is the configuration the one that these weights were saved with?")
        )


def _unequal(wanted: Mapping[str, names.Weight], common: Mapping[str, np.ndarray]) -> list[str]:
    """Describes tensors that the model shares and that differ in the checkpoint."""
    first: dict[int, str] = {}
    return [
        f"shared, but differs from {first[key]}: {name}"
        for name, tensor in common.items()
        if (key := id(wanted[name].variable))
        and not np.array_equal(common[first.setdefault(key, name)], tensor, equal_nan=True)
    ]


def _absent_parts(these: Mapping[str, Any], those: Mapping[str, Any]) -> list[str]:
    """Returns the optional parts of which `these` has tensors and `those` has none."""
    present = {names.part(name) for name in those}
    return sorted({part for name in these if (part := names.part(name)) and part not in present})


def _misshapen(wanted: Mapping[str, Shape], given: Mapping[str, Any]) -> list[str]:
    def fits(stored: Shape, shape: Shape) -> bool:
        pairs = zip(stored, shape, strict=False)
        return len(stored) == len(shape) and all(
            expected in (None, size) for size, expected in pairs
        )

    return [
        name
        for name, shape in wanted.items()
        if name in given and not fits(given[name].shape, shape)
    ]


def _stored_shape(weight: names.Weight) -> tuple[int, ...]:
    shape = tuple(weight.variable.shape)
    return shape[::-1] if weight.transposed else shape


def _readable(shape: Shape) -> str:
    sizes = ", ".join("any" if size is None else str(size) for size in shape)
    return f"({sizes},)" if len(shape) == 1 else f"({sizes})"

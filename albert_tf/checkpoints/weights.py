"""Compares in-memory checkpoints with a configuration, and copies weights to and from models."""

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
Shape = Sequence[int | None]  # None allows any size
_LARGE = 1e6  # Trained weights stay below 100.
_SHOWN = 50  # maximum number of items listed in a message


class Checkpoint(NamedTuple):
    """A checkpoint in memory, from any format.

    Attributes:
        config: configuration of the saved model.
        tensors: arrays in Hugging Face's orientation, keyed by Hugging Face names without
            "albert.".
        origin: path and format, for use in error messages.
        folder: directory of the files, or None.
    """

    config: AlbertConfig
    tensors: dict[str, np.ndarray]
    origin: str
    folder: Path | None = None


def identity_projection(width: int) -> dict[str, np.ndarray]:
    """Returns the projection's tensors, for formats that store no projection if E = H."""
    return {
        f"{names.PROJECTION}.weight": np.eye(width, dtype="float32"),
        f"{names.PROJECTION}.bias": np.zeros(width, "float32"),
    }


def stored_variables(model: Any, way_out: str = "") -> dict[str, names.Weight]:
    """Returns the variables that a checkpoint contains, keyed as in `extract`.

    Args:
        way_out: last sentence of an error message; by default, how to save the model otherwise.
    Raises:
        UserError: if a checkpoint can't contain the model, because it has other layers or is
            quantized.
    """
    from keras.backend import standardize_dtype

    if others := model.build_added():
        raise UserError(
            "A checkpoint can contain only the weights of ALBERT and its heads, but this subclass "
            f"adds {', '.join(others)}. " + (way_out or "Save it with model.save('model.keras').")
        )
    variables = names.weights(model)
    for name, (variable, _) in variables.items():
        if "int" in (dtype := standardize_dtype(variable.dtype)):
            raise UserError(
                f"The model is quantized: {name} is {dtype}. "
                + (way_out or "Save it before you call quantize(), or export it in 8 bits.")
            )
    return variables


def extract(model: Any) -> dict[str, np.ndarray]:
    """Returns a model's weights, keyed by Hugging Face's names without "albert."."""
    from keras import ops

    tensors = {}
    for name, (variable, transposed) in stored_variables(model).items():
        array = ops.convert_to_numpy(variable)
        tensors[name] = np.ascontiguousarray(array.T if transposed else array)
    return tensors


def assign(
    model: Any,
    tensors: Mapping[str, np.ndarray],
    source: str,
    ignore_mismatched_sizes: bool = False,
) -> list[str]:
    """Loads a checkpoint's weights into a model, or raises an error before any weight changes.

    A pooler or head that is missing from the checkpoint is newly initialized. One that is missing
    from the model is ignored. Both are logged.

    Args:
        tensors: arrays, keyed by Hugging Face's names without "albert.".
        source: where the tensors came from, for use in log and error messages.
        ignore_mismatched_sizes: whether to treat a head with a different shape as missing.
    Returns:
        The newly initialized parts, for example `["classifier"]`.
    Raises:
        UserError: if weights are missing, unknown, not finite, or have the wrong shape.
    """
    variables = names.weights(model)
    wanted = {
        name: tuple(variable.shape)[:: -1 if transposed else 1]
        for name, (variable, transposed) in variables.items()
    }
    given = tensors
    parts = {part for name in _wrong_shapes(wanted, given) if (part := names.part(name))}
    way_out = ""
    if heads := sorted(parts - {names.POOLER}):
        way_out = f"Pass ignore_mismatched_sizes=True to newly initialize {', '.join(heads)}."
    if ignore_mismatched_sizes:
        given = {name: given[name] for name in given if names.part(name) not in heads}
    common = {name: given[name] for name in wanted if name in given}
    faults = [*misfits(model.config, wanted, given), *_shared_faults(variables, common)]
    require_fit([*faults, *bad_values(common, source)], source, "loaded", way_out)
    for name, tensor in common.items():
        variable, transposed = variables[name]
        if hasattr(variable, "assign"):  # a kernel merged with its LoRA weights isn't a variable
            variable.assign((tensor.T if transposed else tensor).astype("float32"))
    new_parts, ignored = _absent_parts(wanted, given), _absent_parts(given, wanted)
    if new_parts:
        logger.warning(
            "%s has no matching weights for these parts, which were newly initialized: %s.",
            source,
            ", ".join(new_parts),
        )
    if ignored:
        logger.info(
            "%s contains parts that this model lacks, which were ignored: %s.",
            source,
            ", ".join(ignored),
        )
    return new_parts


def check_backbone(checkpoint: Checkpoint) -> None:
    """Compares the encoder's and pooler's shapes with the configuration before a model is built.

    If they don't fit, the error also lists the faults of the heads.
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
    """Describes every tensor that is missing or unknown, or has the wrong shape.

    Args:
        config: configuration that determines the shapes.
        wanted: shape of each weight, keyed by name.
        given: objects with a `shape`, keyed by name. Optional parts may be absent on either side.
    """
    new_parts, ignored = _absent_parts(wanted, given), _absent_parts(given, wanted)
    for name, shape in wanted.items():
        if name not in given and names.part(name) not in new_parts:
            yield f"missing from the checkpoint: {name} {_shape_text(shape)}"
    for name, tensor in given.items():
        if name not in wanted and names.part(name) not in ignored:
            yield f"unknown to the model: {name} {tuple(tensor.shape)}"
    axes = names.axes(config)
    for name in _wrong_shapes(wanted, given):
        stored, shape = given[name].shape, wanted[name]
        letters = axes[name]
        if len(stored) == len(shape):
            pairs = zip(letters, zip(stored, shape, strict=True), strict=True)
            letters = [letter for letter, (size, expected) in pairs if expected not in (None, size)]
        fields = dict.fromkeys(names.FIELDS[letter] for letter in letters if letter in names.FIELDS)
        decided = f" ({', '.join(fields)})" if fields else ""
        yield (
            f"wrong shape: {name} is {_shape_text(stored)} in the checkpoint, but "
            f"{_shape_text(shape)} according to the configuration{decided}"
        )


def bad_values(tensors: Mapping[str, np.ndarray], source: str) -> list[str]:
    """Describes every non-float or non-finite tensor; warns about large weights."""
    faults, large = [], []
    for name, tensor in tensors.items():
        if not is_floating(tensor):
            faults.append(f"not floating-point: {name}, {tensor.dtype}")
            continue
        with np.errstate(over="ignore"):
            extremes = (tensor.max(initial=0), -tensor.min(initial=0))
            largest = np.maximum(*np.asarray(extremes, "float32"))  # NaN if any value is NaN
        if not np.isfinite(largest):
            faults.append(f"not finite: {name}")
        elif largest > _LARGE:
            large.append(f"{name} ({largest:.2g})")
    if large:
        logger.warning(
            "%s contains weights above %g, which training doesn't produce: %s. Is it damaged?",
            source,
            _LARGE,
            _listed(large, ", "),
        )
    return faults


def _listed(items: Sequence[str], separator: str) -> str:
    more = [f"and {len(items) - _SHOWN} more"] * (len(items) > _SHOWN)
    return separator.join([*items[:_SHOWN], *more])


def require_fit(faults: Sequence[str], source: str, done: str, way_out: str = "") -> None:
    """Raises one error that lists all faults.

    Args:
        done: "loaded" or "written".
        way_out: last sentence of the message; by default, a question about the configuration.
    """
    if faults:
        listing = _listed(faults, "\n  ")
        raise UserError(
            f"The weights of {source} don't fit the configuration; nothing was {done}:\n  "
            f"{listing}\n" + (way_out or "Were these weights saved with this configuration?")
        )


def _shared_faults(
    wanted: Mapping[str, names.Weight], common: Mapping[str, np.ndarray]
) -> list[str]:
    """Describes tensors that share a variable in the model but differ in the checkpoint."""
    first: dict[int, str] = {}
    return [
        f"shared, but differs from {first[key]}: {name}"
        for name, tensor in common.items()
        if (key := id(wanted[name].variable))
        and not np.array_equal(common[first.setdefault(key, name)], tensor, equal_nan=True)
    ]


def _absent_parts(these: Mapping[str, Any], those: Mapping[str, Any]) -> list[str]:
    """Returns the optional parts for which `these` contains tensors and `those` contains none."""
    present = {names.part(name) for name in those}
    return sorted({part for name in these if (part := names.part(name)) and part not in present})


def _wrong_shapes(wanted: Mapping[str, Shape], given: Mapping[str, Any]) -> list[str]:
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


def _shape_text(shape: Shape) -> str:
    sizes = ", ".join("any" if size is None else str(size) for size in shape)
    return f"({sizes},)" if len(shape) == 1 else f"({sizes})"

"""The files of a run: its state while it lasts, a model directory with a report at its end."""

import contextlib
import hashlib
import json
import logging
import os
import platform
import shutil
import zlib
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
from keras import ops

from albert_tf.checkpoints import finder, names, weights
from albert_tf.checkpoints.sentence_transformers import MODULES
from albert_tf.checkpoints.weight_files import read_tensors, write_tensors
from albert_tf.errors import UserError
from albert_tf.files import (
    locked,
    replace_files,
    write_json,
    written_atomically,
)
from albert_tf.models.base import PreTrainedModel
from albert_tf.optimizers import inner
from albert_tf.outputs import BEST, CHECKPOINTS, LOGS, STEP, VERSION
from albert_tf.training.options import check_output

REPORT: Final = "report.json"
STATE: Final = "state.safetensors"
_SETTINGS: Final = "settings"
_PROGRESS: Final = "progress"
_CHECKSUM: Final = "checksum"


def publish(output: Path, report: Mapping[str, Any]) -> None:
    """Moves the best version to the output; the checkpoints stay until that is whole.

    Removes a list of modules of another model.
    """
    best = output / CHECKPOINTS / BEST
    files = [path for pattern in ("*", "[0-9]_*/*") for path in best.glob(pattern)]
    paths = {path.relative_to(best).as_posix(): path for path in files if path.is_file()}
    replace_files(output, {name: partial(shutil.copyfile, path) for name, path in paths.items()})
    if MODULES not in paths:
        (output / MODULES).unlink(missing_ok=True)
    write_json(output / REPORT, report)
    remove_folder(output / CHECKPOINTS)


def steps_in(folder: Path) -> list[Path]:
    """Returns the checkpoints in a folder, oldest first."""
    return sorted(folder.glob(STEP))


@contextlib.contextmanager
def silent_about_new_weights(output: Path) -> Iterator[None]:
    """Hides the warning of newly initialized weights where a run resumes: it replaces them."""
    before = weights.logger.level
    if steps_in(output / CHECKPOINTS):
        weights.logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        weights.logger.setLevel(before)


@contextlib.contextmanager
def lock_output(output: Path, force: bool) -> Iterator[None]:
    """Locks an output that is new or contains an interrupted run; `force` starts it again.

    Raises:
        UserError: another run writes to it, or `check_output` rejects it.
    """
    with locked(output):
        check_output(output, force)
        shutil.rmtree(_trash_path(output / CHECKPOINTS), ignore_errors=True)
        if force:
            remove_folder(output / CHECKPOINTS)
            shutil.rmtree(output / LOGS, ignore_errors=True)
        yield


@contextlib.contextmanager
def written_through(folder: Path) -> Iterator[Path]:
    """Yields a new folder, which replaces a version of the same run even after a power failure."""
    with written_atomically(folder, force=True, own=VERSION) as new:
        yield new
        for path in new.rglob("*"):
            if path.is_file():
                with path.open("r+b") as file:  # Windows flushes no file that was opened to read
                    os.fsync(file.fileno())


def remove_folder(folder: Path) -> None:
    """Removes a folder if there is one; a kill at any moment leaves it whole or absent."""
    shutil.rmtree(_trash_path(folder), ignore_errors=True)
    if folder.exists():
        folder.rename(_trash_path(folder))
        shutil.rmtree(_trash_path(folder))


def _trash_path(folder: Path) -> Path:
    """Returns the temporary path that a folder is moved to before it is deleted."""
    return folder.with_name(f".{folder.name}.removed")


def versions() -> dict[str, Any]:
    """Returns the versions of Python and of the packages that decide what a run computes."""
    packages = ("albert_tf", "tensorflow", "keras", "jax", "torch", "sentencepiece")
    versions_by_name = {"python": platform.python_version()}
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions_by_name[name] = metadata.version(name)
    return versions_by_name


def digest(content: Any) -> str:
    """Returns the SHA-256 of an object's JSON, in hexadecimal."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def save_state(
    folder: Path,
    model: PreTrainedModel,
    settings: Mapping[str, Any],
    progress: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Writes what a run needs in addition to the model's weights, which must be in the folder.

    It is the optimizer's state and the dropout seeds.

    Args:
        folder: a model directory; the file isn't written atomically.
        settings: compared when the run is resumed.
        progress: JSON.
        tensors: arrays of the progress, by names that aren't numbers.
    """
    variables = _variables(model)
    arrays = {name: ops.convert_to_numpy(variable) for name, variable in variables.items()}
    arrays |= tensors or {}
    described = {_SETTINGS: json.dumps(settings), _PROGRESS: json.dumps(progress)}
    described[_CHECKSUM] = _checksum(folder, arrays, described)
    write_tensors(folder / STATE, arrays, described)


def read_state(folder: Path, way_out: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Returns the tensors and the progress of `save_state`'s file.

    Args:
        folder: the checkpoint.
        way_out: what to do about a damaged checkpoint, for messages.
    Raises:
        UserError: the file, or the weights in the folder, are damaged.
    """
    path = folder / STATE
    try:
        tensors, saved = read_tensors(path)
        if saved.pop(_CHECKSUM, None) != _checksum(folder, tensors, saved):
            raise UserError("") from ValueError("its checksum has changed")
    except UserError as error:
        raise UserError(
            f"The checkpoint {folder} is incomplete or damaged: {error.__cause__}. {way_out}"
        ) from error
    return tensors, {**json.loads(saved[_PROGRESS]), _SETTINGS: json.loads(saved[_SETTINGS])}


def load_state(
    folder: Path, model: PreTrainedModel, tensors: Mapping[str, np.ndarray], way_out: str
) -> None:
    """Restores a compiled model from its directory and the tensors of `read_state`.

    Raises:
        UserError: they belong to another model.
    """
    variables = _variables(model)
    if variables.keys() != {name for name in tensors if name.isdigit()}:
        raise UserError(f"{folder} belongs to another model or Keras version. {way_out}")
    stored = finder.find(folder).read()
    weights.assign(model, stored.tensors, stored.origin)
    for name, variable in variables.items():
        variable.assign(tensors[name])


def _checksum(folder: Path, tensors: Mapping[str, Any], described: Mapping[str, str]) -> str:
    """Returns a checksum of the content of `save_state`'s file, and of the folder's weights."""
    total = zlib.crc32(json.dumps(described, sort_keys=True).encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name]).reshape(-1)
        total = zlib.crc32(array.view("uint8").data, total)
    for path in sorted(folder.glob("*.safetensors")):
        if path.name != STATE:
            total = zlib.crc32(path.read_bytes(), total)
    return str(total)


def _variables(model: PreTrainedModel) -> dict[str, Any]:
    """Returns variables of model and optimizer by number.

    Metrics, and what `save_pretrained` writes, are left out.
    """
    optimizer = model.optimizer
    if not optimizer.built:  # a loss scaler would build itself anew
        optimizer.build(model.trainable_variables)
    all_of_them = [*model.variables, *optimizer.variables, *inner(optimizer).variables]
    elsewhere = [
        *model.metrics_variables,
        *(weight.variable for weight in names.weights(model).values()),
    ]
    left_out = {id(variable) for variable in elsewhere}
    unique = {id(variable): variable for variable in all_of_them if id(variable) not in left_out}
    return {f"{number:05d}": variable for number, variable in enumerate(unique.values())}

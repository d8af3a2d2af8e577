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
    require_same,
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
    folder: Path, model: PreTrainedModel, settings: Mapping[str, Any], progress: Mapping[str, Any]
) -> None:
    """Writes what a run needs besides the model's weights, which `save_pretrained` writes there.

    It is the optimizer and the seeds of dropout.

    Args:
        folder: a model directory; the file isn't written atomically.
        settings: compared when the run is resumed.
        progress: JSON.
    """
    tensors = {name: ops.convert_to_numpy(variable) for name, variable in _variables(model).items()}
    described = {_SETTINGS: json.dumps(settings), _PROGRESS: json.dumps(progress)}
    described[_CHECKSUM] = _checksum(tensors, described)
    write_tensors(folder / STATE, tensors, described)


def read_state(
    folder: Path, settings: Mapping[str, Any]
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Returns the tensors and the progress of `save_state`'s file.

    Raises:
        UserError: it is damaged, or was saved with other settings; each is named.
    """
    path = folder / STATE
    try:
        tensors, saved = read_tensors(path)
        if saved.pop(_CHECKSUM, None) != _checksum(tensors, saved):
            raise UserError("") from ValueError("another checksum than when it was written")
    except UserError as error:
        raise UserError(
            f"The state of the run must be a whole file. Received: {path} ({error.__cause__}). "
            f"Start again with force=True, or remove {folder}."
        ) from error
    require_same(folder, json.loads(saved[_SETTINGS]), settings)
    return tensors, json.loads(saved[_PROGRESS])


def load_state(folder: Path, model: PreTrainedModel, tensors: Mapping[str, np.ndarray]) -> None:
    """Restores a compiled model from its directory and the tensors of `read_state`.

    Raises:
        UserError: they belong to another model, or the directory is damaged.
    """
    variables = _variables(model)
    if variables.keys() != tensors.keys():
        raise UserError(
            f"{folder / STATE} belongs to another model or Keras version. Start again with "
            f"force=True, or remove {folder}."
        )
    try:
        stored = finder.find(folder).read()
    except UserError as error:
        raise UserError(f"{error} Or start again with force=True.") from error
    weights.assign(model, stored.tensors, stored.origin)
    for name, variable in variables.items():
        variable.assign(tensors[name])


def _checksum(tensors: Mapping[str, Any], described: Mapping[str, str]) -> str:
    """Returns a checksum of the content of `save_state`'s file."""
    total = zlib.crc32(json.dumps(described, sort_keys=True).encode())
    for name in sorted(tensors):
        total = zlib.crc32(
            np.ascontiguousarray(tensors[name]).reshape(-1).view("uint8").data, total
        )
    return str(total)


def _variables(model: PreTrainedModel) -> dict[str, Any]:
    """Model and optimizer variables by place, without metrics and what `save_pretrained` writes."""
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

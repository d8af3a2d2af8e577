"""All that a run needs to go on exactly: weights, optimizer, random seeds and position."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import keras
from keras import ops

from albert_tf.checkpoints.weight_files import read_tensors, write_tensors
from albert_tf.errors import UserError

SETTINGS: Final = "settings"
PROGRESS: Final = "progress"


def save_state(
    path: Path, model: keras.Model, settings: Mapping[str, Any], progress: Mapping[str, Any]
) -> None:
    """Writes every variable of a compiled model, its dropout seeds and its optimizer included.

    Args:
        path: a safetensors file; replaced whole or not at all.
        settings: what must be the same when the run goes on.
        progress: how far it is; JSON.
    """
    tensors = {name: ops.convert_to_numpy(variable) for name, variable in _variables(model).items()}
    write_tensors(path, tensors, {SETTINGS: json.dumps(settings), PROGRESS: json.dumps(progress)})


def load_state(path: Path, model: keras.Model, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Puts a compiled model back where `save_state` found it; returns the progress.

    Raises:
        UserError: the state is damaged, or was saved with other settings; each is named.
    """
    try:
        tensors, metadata = read_tensors(path)
    except UserError as error:
        raise UserError(
            f"The state of the run must be a whole file. Received: {path} ({error.__cause__}). "
            "Start anew with --force."
        ) from error
    _require_same(path, json.loads(metadata[SETTINGS]), settings)
    variables = _variables(model)
    if variables.keys() != tensors.keys():
        raise UserError(
            f"{path} belongs to another model or Keras version. Start anew with --force."
        )
    for name, variable in variables.items():
        variable.assign(tensors[name])
    return json.loads(metadata[PROGRESS])


def _variables(model: keras.Model) -> dict[str, Any]:
    """Model and optimizer variables by place; metrics start afresh each epoch and stay out."""
    optimizer = model.optimizer
    if not optimizer.built:  # a loss scaler builds itself anew each time it is asked
        optimizer.build(model.trainable_variables)
    inner = getattr(optimizer, "inner_optimizer", None)
    kept = [*model.variables, *optimizer.variables, *(inner.variables if inner else ())]
    metrics = {id(variable) for variable in model.metrics_variables}
    unique = {id(variable): variable for variable in kept if id(variable) not in metrics}
    return {f"{place:05d}": variable for place, variable in enumerate(unique.values())}


def _require_same(path: Path, saved: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    now = json.loads(json.dumps(settings))
    changed = [
        f"{name}: {saved.get(name)!r} then, {now.get(name)!r} now"
        for name in sorted({*saved, *now})
        if saved.get(name) != now.get(name)
    ]
    if changed:
        raise UserError(
            "An interrupted run goes on with the settings it began with. "
            f"Received for {path.parent}: {'; '.join(changed)}. "
            "Give the same settings, or start anew with --force."
        )

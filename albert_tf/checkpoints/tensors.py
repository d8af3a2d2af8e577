"""safetensors files: whole or absent when written, checked when read."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from albert_tf.errors import UserError
from albert_tf.files import written_atomically


def write_tensors(
    path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Writes a safetensors file in the place of what stands at `path`.

    Raises:
        OSError: it can't be written; what stood there stays.
    """
    with written_atomically(path, force=True) as target:
        try:
            safetensors.numpy.save_file(dict(tensors), target, metadata=dict(metadata))
        except safetensors.SafetensorError as error:
            code = re.search(r"os error (\d+)", str(error))  # a full disk comes as this class too
            number = int(code.group(1)) if code else 0
            raise OSError(number, os.strerror(number) if code else str(error), str(path)) from error


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The tensors of a safetensors file by name, and its metadata.

    Raises:
        UserError: the file is damaged.
    """
    try:
        with safetensors.safe_open(path, framework="np") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except safetensors.SafetensorError as error:
        raise UserError(
            f"{path} must be a whole safetensors file. Received {path.stat().st_size:,} bytes "
            f"that don't read as one ({error}). Copy it again from its source."
        ) from error

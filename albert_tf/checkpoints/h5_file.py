"""HDF5 files, in which Keras keeps weights: read whole, with float16 and bfloat16 as float32."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf.errors import UserError

_OPTIMIZERS: Final = ("optimizer", "optimizer_weights")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    """An `h5py.File` for reading.

    Raises:
        UserError: h5py isn't installed, or the file is damaged.
    """
    try:
        import h5py
    except ImportError as error:
        raise UserError(
            f"HDF5 files are read with h5py, which isn't installed. Received: {path}. "
            "pip install h5py."
        ) from error
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError) as error:
        if not path.is_file():
            raise
        raise UserError(
            f"{path} must be a whole HDF5 file. Received {path.stat().st_size:,} bytes that don't "
            f"read as one ({error}). Copy it again from its source."
        ) from error


def datasets(group: Any) -> dict[str, np.ndarray]:
    """Every dataset of a file or group by its path, except optimizers'."""
    import h5py

    found: dict[str, np.ndarray] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and name.split("/")[0] not in _OPTIMIZERS:
            found[name] = as_array(item)

    group.visititems(visit)
    return found


def as_array(dataset: Any) -> np.ndarray:
    """A dataset's values, floating-point ones as float32.

    Raises:
        UserError: quantized weights, or a type that isn't a number.
    """
    import ml_dtypes

    array = np.asarray(dataset[()])
    if array.dtype.kind == "V" and dataset.attrs.get("dtype") == "bfloat16":  # as Keras stores it
        array = array.view(ml_dtypes.bfloat16)
    if array.dtype.kind != "f" and array.dtype != ml_dtypes.bfloat16:
        raise UserError(
            f"Weights must be floating-point numbers. Received {dataset.name} as {array.dtype}. "
            "Is the model quantized? Save it before that."
        )
    return array.astype("float32", copy=False)


def read(path: Path) -> dict[str, np.ndarray]:
    """Every weight of a file by its path, float32.

    Raises:
        UserError: h5py isn't installed, the file is damaged, or its weights are quantized.
    """
    with opened(path) as file:
        return datasets(file)

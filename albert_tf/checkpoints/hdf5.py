"""Files of HDF5: TensorFlow's and KerasHub's weights, read only if they lie in the file itself."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf.checkpoints.weight_files import (
    as_float32,
    damaged,
    imported,
    is_floating,
    no_number,
    require_stored,
)
from albert_tf.errors import UserError

_OPTIMIZERS: Final = ("optimizer", "optimizer_weights")  # groups that hold no weights


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Yields an `h5py.File` for reading, which was checked to hold all its data itself.

    Raises:
        UserError: h5py isn't installed, the file is damaged, or it refers to other files.
    """
    h5py = imported("h5py", "HDF5", path, "h5py")
    try:
        with h5py.File(path, "r") as file:
            _check(h5py, path, file)
            yield file
    except UserError:
        raise
    except Exception as error:  # damage shows in every way: OSError, RuntimeError, KeyError, …
        if not path.is_file():
            raise
        raise damaged(path, "HDF5", error) from error


def _check(h5py: Any, path: Path, file: Any) -> None:
    """Refuses links and datasets by which a file gives the content of others, before any is read.

    Raises:
        UserError: there is one, or the datasets claim more bytes than the file has.
    """
    sizes: list[int] = []

    def foreign_link(name: str, link: Any) -> str | None:
        return None if isinstance(link, h5py.HardLink) else f"{name} is a {type(link).__name__}"

    def foreign_dataset(name: str, item: Any) -> str | None:
        if not isinstance(item, h5py.Dataset):
            return None
        if item.is_virtual or item.external:
            return f"{name} is {'a virtual dataset' if item.is_virtual else 'in another file'}"
        sizes.append(item.nbytes)
        return None

    if found := file.visititems_links(foreign_link) or file.visititems(foreign_dataset):
        raise UserError(
            f"An HDF5 file must hold all its weights itself. Received: {path}, whose {found}. "
            "Nothing was read. Get the weights as safetensors from someone you trust."
        )
    require_stored(path, sum(sizes))


def read(path: Path) -> dict[str, np.ndarray]:
    """Returns every weight of a file by its path, float32.

    Raises:
        UserError: h5py isn't installed, the file is damaged, or its weights are quantized.
    """
    with opened(path) as file:
        return datasets(file)


def datasets(file: Any) -> dict[str, np.ndarray]:
    """Returns every dataset of an opened file by its path, float32, except an optimizer's.

    Raises:
        UserError: quantized weights, or a type that isn't a number.
    """
    found: dict[str, np.ndarray] = {}

    def visit(name: str, item: Any) -> None:
        if hasattr(item, "shape") and name.split("/")[0] not in _OPTIMIZERS:
            found[name] = _array(item)

    file.visititems(visit)
    return found


def _array(dataset: Any) -> np.ndarray:
    is_brain = dataset.dtype.kind == "V" and dataset.attrs.get("dtype") == "bfloat16"
    if not is_brain and not is_floating(dataset):
        raise no_number(Path(dataset.file.filename), dataset.name, dataset.dtype)
    array = np.asarray(dataset[()])
    if is_brain:  # as Keras stores it
        import ml_dtypes

        array = array.view(ml_dtypes.bfloat16)
    return as_float32(array)

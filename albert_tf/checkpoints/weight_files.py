"""Reads safetensors, PyTorch, Flax, and HDF5 files, without running any code that they contain.

The package for a format is imported when the first such file is read. A damaged file may raise any
exception, which `CheckpointLocation.read` turns into a one-sentence message.
"""

import contextlib
import importlib
import os
import pickle
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf.errors import UserError, listed

# flax.serialization: msgpack extension type 1 is an array, stored as (shape, dtype, bytes).
_FLAX_ARRAY: Final = 1
_FLAX_CHUNKED: Final = "__msgpack_chunked_array__"  # an array over 1 GiB, in chunks
# Supported safetensors dtypes. Integers occur in buffers such as position_ids.
_SAFETENSORS: Final = frozenset(
    {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"}
)
_PYTORCH_DTYPES: Final = (
    "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()  # noqa: SIM905
)
_STORAGE: Final = re.compile(r"/data/\d+$")  # an entry in torch's zip files
_HDF5_OPTIMIZERS: Final = ("optimizer", "optimizer_weights")  # groups without model weights
_FLAX_DTYPES: Final = frozenset({"float16", "bfloat16", "float32", "float64", "int32", "int64"})


def is_floating(array: Any) -> bool:
    """Returns whether an array has a floating-point dtype, bfloat16 included."""
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def as_float32(array: np.ndarray) -> np.ndarray:
    """Converts floating-point arrays to float32; returns other arrays unchanged."""
    return array.astype("float32", copy=False) if is_floating(array) else array


def write_tensors(
    path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Writes a safetensors file, but not atomically; raises OSError if it can't be written."""
    import safetensors.numpy

    try:
        safetensors.numpy.save_file(dict(tensors), path, metadata=dict(metadata))
    except safetensors.SafetensorError as error:
        code = re.search(r"os error (\d+)", str(error))  # such as a full disk
        number = int(code.group(1)) if code else 0
        raise OSError(number, os.strerror(number) if code else str(error), str(path)) from error


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Returns the tensors of a safetensors file, keyed by name, and its metadata."""
    import ml_dtypes  # noqa: F401 (registers the NumPy dtype "bfloat16", which safetensors needs)

    with _open_safetensors(path) as file:
        for name in file.keys():  # noqa: SIM118
            if (dtype := file.get_slice(name).get_dtype()) not in _SAFETENSORS:
                raise no_number(path, name, dtype)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return tensors, file.metadata() or {}


def read_metadata(path: Path) -> dict[str, str]:
    """Returns the metadata of a safetensors file, without reading its tensors."""
    with _open_safetensors(path) as file:
        return file.metadata() or {}


@contextlib.contextmanager
def _open_safetensors(path: Path) -> Iterator[Any]:
    import safetensors

    path.open("rb").close()  # safetensors reports every file that can't be opened as missing.
    try:
        with safetensors.safe_open(path, framework="np") as file:
            yield file
    except safetensors.SafetensorError as error:
        raise UserError(
            f"{path} ({path.stat().st_size:,} bytes) is truncated, or isn't a safetensors file "
            f"({error}). Copy it again from its source."
        ) from error


def read_pytorch(path: Path) -> dict[str, np.ndarray]:
    """Returns the tensors of a state dict, keyed by name; floating-point tensors become float32.

    Zip files are mapped into memory. Files from torch before 1.6 are read as a whole.

    Raises:
        UserError: if torch isn't installed, or if the file contains code or isn't a state dict of
            dense tensors.
    """
    torch = _require_package(
        "torch", "PyTorch", path, "albert_tf[torch], or save them as safetensors"
    )
    stored = _stored_sizes(path) if zipfile.is_zipfile(path) else None
    content = _load_pytorch(torch, path, mmap=stored is not None)
    received = None if isinstance(content, Mapping) and content else type(content).__name__
    for name, value in () if received else content.items():
        if not isinstance(value, torch.Tensor):
            received = f"{name} with {type(value).__name__}"
    if received:
        raise UserError(
            f"{path} must contain a model's state dict, which maps names to tensors. Received: "
            f"{received}. Save model.state_dict(), or use save_pretrained."
        )
    dtypes = {getattr(torch, name) for name in _PYTORCH_DTYPES}
    for name, tensor in content.items():
        is_dense = tensor.layout == torch.strided and not tensor.is_nested
        if not is_dense or tensor.device.type != "cpu" or tensor.dtype not in dtypes:
            received = f"{tensor.dtype}, {tensor.layout}{', nested' * tensor.is_nested}"
            raise no_number(path, name, f"{received}, on {tensor.device}")
    # A tensor with a stride of 0 could claim any size. Tied matrices are listed under two names, so
    # the claimed bytes may be twice the stored ones.
    declared = sum(tensor.numel() * tensor.element_size() for tensor in content.values())
    require_stored(path, declared // 2)
    if stored is not None:
        storages = (tensor.untyped_storage() for tensor in content.values())
        sizes = {storage.data_ptr(): storage.nbytes() for storage in storages if storage.nbytes()}
        if stored != [size for _, size in sorted(sizes.items())]:
            raise ValueError("the sizes of its storages differ from what its tensors claim")
    tensors = {str(name): tensor.detach() for name, tensor in content.items()}
    return {
        name: (tensor.to(torch.float32) if tensor.is_floating_point() else tensor).numpy()
        for name, tensor in tensors.items()
    }


def _load_pytorch(torch: Any, path: Path, mmap: bool) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except pickle.UnpicklingError as error:
        code = re.search(r".*(?:nsupported (?:global|class)|GLOBAL).*", str(error))
        if code is None:
            raise
        raise UserError(
            f"{path} is a pickle file that contains code, which was not run "
            f"({code.group().strip()[:120]}). Get the weights in safetensors format from a source "
            "you trust."
        ) from error


def _stored_sizes(path: Path) -> list[int]:
    """Returns the size in bytes of each storage in a zip file, in file order.

    torch maps a storage at its offset, with the size that the pickle claims. torch doesn't check
    CRCs or whether entries are compressed, so this function does. `read_pytorch` checks the sizes.
    """
    with zipfile.ZipFile(path) as archive:
        entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
        require_stored(path, sum(entry.file_size for entry in entries))
        for entry in entries:
            if entry.compress_type != zipfile.ZIP_STORED:
                raise zipfile.BadZipFile(f"{entry.filename} is compressed")
        if damaged := archive.testzip():
            raise zipfile.BadZipFile(f"the CRC of {damaged} is wrong")
    sizes = (entry.file_size for entry in entries if _STORAGE.search(entry.filename))
    return [size for size in sizes if size]


def read_flax(path: Path) -> dict[str, np.ndarray]:
    """Returns the arrays of a Flax file, keyed by path; floating-point arrays become float32."""
    import ml_dtypes

    msgpack = _require_package("msgpack", "Flax", path, "msgpack, or save them as safetensors")

    def array(code: int, data: bytes) -> np.ndarray:
        if code != _FLAX_ARRAY:
            raise ValueError(f"extension {code}, but arrays use {_FLAX_ARRAY}")
        shape, name, content = msgpack.unpackb(data)
        if name not in _FLAX_DTYPES:
            raise ValueError(f"an array of {name}")
        dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
        return as_float32(np.frombuffer(content, dtype).reshape(shape))

    content = msgpack.unpackb(path.read_bytes(), ext_hook=array, strict_map_key=True)
    return dict(_flat(content, ()))


def _flat(tree: Any, path: tuple[str, ...]) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(tree, dict) and tree.get(_FLAX_CHUNKED):
        # Flax writes tuples as dicts with the keys "0", "1", …
        pieces, shape = tree["chunks"], tree["shape"]
        flat = np.concatenate([pieces[str(index)] for index in range(len(pieces))])
        tree = flat.reshape([shape[str(index)] for index in range(len(shape))])
    if isinstance(tree, dict):
        for name, branch in tree.items():
            yield from _flat(branch, (*path, name))
    elif isinstance(tree, np.ndarray) and path:
        yield "/".join(path), tree
    else:
        raise ValueError(f"{'/'.join(path) or 'the file'} is {type(tree).__name__}, not an array")


def is_keras_2(path: Path) -> bool:
    """Returns whether a file is an HDF5 file written by Keras 2."""
    if path.suffix not in (".h5", ".hdf5") or not path.is_file():
        return False
    with open_hdf5(path) as file:
        version = file.attrs.get("keras_version", "")
    return (version.decode() if isinstance(version, bytes) else version).startswith("2.")


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[None]:
    """Raises a `UserError` in place of the errors of HDF5, ZIP, and Keras for unreadable files."""
    try:
        yield
    except UserError:
        raise
    except (OSError, RuntimeError, KeyError, SystemError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, OSError) and error.errno is not None:  # HDF5's message would be long.
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise UserError(
            f"{path} is damaged, in a different format, or from a different model "
            f"({str(error)[:160]}). Copy it again from its source."
        ) from error


@contextlib.contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """Opens an HDF5 file for reading, and checks that it contains all of its data."""
    h5py = _require_package("h5py", "HDF5", path, "h5py")
    with whole_file(path), h5py.File(path, "r") as file:
        _check_hdf5(h5py, path, file)
        yield file


def _check_hdf5(h5py: Any, path: Path, file: Any) -> None:
    """Raises UserError if links or datasets refer to other files, or to missing bytes."""
    sizes: list[int] = []
    short: list[str] = []

    def foreign_link(name: str, link: Any) -> str | None:
        return None if isinstance(link, h5py.HardLink) else f"{name} is a {type(link).__name__}"

    def foreign_dataset(name: str, item: Any) -> str | None:
        if not isinstance(item, h5py.Dataset):
            return None
        if item.is_virtual or item.external:
            return f"{name} is {'a virtual dataset' if item.is_virtual else 'in another file'}"
        sizes.append(item.nbytes)
        if item.id.get_storage_size() < item.nbytes:  # HDF5 would read missing data as 0.
            short.append(name)
        return None

    if foreign := file.visititems_links(foreign_link) or file.visititems(foreign_dataset):
        raise UserError(
            f"{path} may refer to data in other files: {foreign}. Nothing was read. Get the "
            "weights in safetensors format from a source you trust."
        )
    require_stored(path, sum(sizes))
    if short:
        raise UserError(
            f"{path} is truncated or compressed: it has fewer bytes than {listed(short)} claims. "
            "Copy it again from its source, or save it uncompressed."
        )


def read_hdf5(path: Path) -> dict[str, np.ndarray]:
    """Returns every weight of an HDF5 file in float32, keyed by path."""
    with open_hdf5(path) as file:
        return hdf5_datasets(file)


def hdf5_datasets(file: Any) -> dict[str, np.ndarray]:
    """Returns every dataset of an open file in float32, except the optimizer's, keyed by path."""
    tensors: dict[str, np.ndarray] = {}

    def visit(name: str, item: Any) -> None:
        if hasattr(item, "shape") and name.split("/")[0] not in _HDF5_OPTIMIZERS:
            tensors[name] = _hdf5_array(item)

    file.visititems(visit)
    return tensors


def _hdf5_array(dataset: Any) -> np.ndarray:
    is_brain = dataset.dtype.kind == "V" and dataset.attrs.get("dtype") == "bfloat16"
    if not is_brain and not is_floating(dataset):
        raise no_number(Path(dataset.file.filename), dataset.name, dataset.dtype)
    array = np.asarray(dataset[()])
    if is_brain:  # as Keras stores it
        import ml_dtypes

        array = array.view(ml_dtypes.bfloat16)
    return as_float32(array)


def _require_package(package: str, kind: str, path: Path, way_out: str) -> Any:
    """Imports a package that a format needs, or raises an error that explains how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise UserError(
            f"Reading {kind} files such as {path} requires {package}, which isn't installed. "
            f"Run pip install {way_out}."
        ) from error


def require_stored(path: Path, declared: int, stored: int | None = None) -> None:
    """Rejects tensors that declare more bytes than are stored, which could exhaust memory.

    Args:
        stored: number of stored bytes; by default, the file's size.
    """
    stored = path.stat().st_size if stored is None else stored
    if declared > stored:
        raise UserError(
            f"{path} is truncated or compressed: it has {stored:,} bytes, but claims {declared:,}. "
            "Copy it again from its source, or save it uncompressed."
        )


def no_number(path: Path, name: str, dtype: Any) -> UserError:
    """Returns the error for a tensor whose dtype isn't supported."""
    return UserError(
        "Weights must be floating-point numbers of at least 16 bits. Received: "
        f"{name} as {dtype} in {path}. If the model is quantized, save it before quantization."
    )

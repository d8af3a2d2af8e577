"""Flax's weight files, `flax_model.msgpack`: nested names with arrays, read without flax."""

from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf.errors import UserError

# flax.serialization: type 1 of msgpack's extensions is an array as (shape, dtype, bytes).
_ARRAY: Final = 1
_CHUNKED: Final = "__msgpack_chunked_array__"  # an array over 1 GiB, in pieces
_DTYPES: Final = frozenset({"float16", "bfloat16", "float32", "float64", "int32", "int64"})


def read(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file by their names with "/" between, float32 where floating point.

    Raises:
        UserError: msgpack isn't installed, the file is damaged, or holds something else.
    """
    try:
        import msgpack
    except ImportError as error:
        raise UserError(
            f"Flax's files are read with msgpack, which isn't installed. Received: {path}. "
            "pip install msgpack, or save the model as safetensors."
        ) from error
    try:
        with open(path, "rb") as file:
            content = msgpack.unpackb(file.read(), ext_hook=_array, strict_map_key=True)
        return dict(_flat(content, ()))
    except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
        raise UserError(
            f"{path} must be a whole file of Flax's. Received {path.stat().st_size:,} bytes that "
            f"don't read as one ({type(error).__name__}: {error}). Copy it again from its source."
        ) from error


def _array(code: int, data: bytes) -> np.ndarray:
    import ml_dtypes
    import msgpack

    if code != _ARRAY:
        raise ValueError(f"extension {code}, where arrays have {_ARRAY}")
    shape, name, content = msgpack.unpackb(data)
    if name not in _DTYPES:
        raise ValueError(f"an array of {name}")
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    array = np.frombuffer(content, dtype).reshape(shape)
    return array.astype("float32", copy=False) if "float" in name else array


def _flat(tree: Any, path: tuple[str, ...]) -> Any:
    if isinstance(tree, dict) and tree.get(_CHUNKED):
        tree = _joined(tree)
    if isinstance(tree, dict):
        for name, branch in tree.items():
            yield from _flat(branch, (*path, name))
    elif isinstance(tree, np.ndarray) and path:
        yield "/".join(path), tree
    else:
        raise ValueError(f"{'/'.join(path) or 'the file'} is {type(tree).__name__}, not an array")


def _joined(tree: dict[str, Any]) -> np.ndarray:
    """An array from its pieces; tuples are written as dicts by "0", "1", …"""
    pieces, shape = tree["chunks"], tree["shape"]
    flat = np.concatenate([pieces[str(index)] for index in range(len(pieces))])
    return flat.reshape([shape[str(index)] for index in range(len(shape))])

"""The index of a TensorFlow checkpoint, read before TensorFlow reads it.

TensorFlow ends the whole process at a shape or dtype that can't be, and takes the bytes of a
big-endian checkpoint for little-endian ones.

Sources: TensorFlow's tensor_bundle.proto for the entries; LevelDB's "table format" for the file.
"""

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from albert_tf.errors import UserError, short_repr
from albert_tf.files import read_bytes

_FOOTER: Final = 48  # bytes: the places of two blocks, and the magic number
_MAGIC: Final = struct.pack("<Q", 0xDB4775248B80FB57)
_TRAILER: Final = 5  # bytes after a block: its compression and its checksum
_LARGEST: Final = 2**62  # bytes; beyond it TensorFlow's numbers overflow
_MOST_DIMENSIONS: Final = 254
_UNCOMPRESSED: Final = 0
_HEADER: Final = b""  # the first key


def check_index(path: Path) -> None:
    """Refuses an index with entries that no checkpoint has.

    Raises:
        UserError: it is damaged or big-endian, or an entry's dtype, shape or place can't be.
    """
    from tensorflow.core.protobuf import tensor_bundle_pb2

    try:
        entries = dict(_entries(read_bytes(path)))
        header = tensor_bundle_pb2.BundleHeaderProto.FromString(entries.pop(_HEADER))
        tensors = {
            name: tensor_bundle_pb2.BundleEntryProto.FromString(value)
            for name, value in entries.items()
        }
    except UserError:
        raise
    except Exception as error:  # damage shows in every way: IndexError, KeyError, DecodeError, …
        raise UserError(
            f"A checkpoint's index must be whole. Received: {path}, which doesn't read as one "
            f"({type(error).__name__}). Copy it again from its source."
        ) from error
    if header.endianness != tensor_bundle_pb2.BundleHeaderProto.LITTLE:
        raise UserError(
            f"A checkpoint must be little-endian. Received: {path}, a big-endian one. Load it on "
            "the machine that wrote it, and save it as safetensors."
        )
    for name, entry in tensors.items():
        if fault := _fault(entry, header.num_shards):
            raise UserError(
                f"A checkpoint's tensors must be ones that there can be. Received: {path}, whose "
                f"{short_repr(name.decode('utf-8', 'replace'))} has {fault}. Copy it again from "
                "its source."
            )


def _fault(entry: Any, shards: int) -> str | None:
    """Returns what of an entry can't be."""
    import tensorflow as tf

    sizes = [dimension.size for dimension in entry.shape.dim]
    try:
        width = tf.dtypes.as_dtype(entry.dtype).size
    except TypeError:
        return f"the dtype {entry.dtype}"
    is_shape = len(sizes) <= _MOST_DIMENSIONS and min(sizes, default=0) >= 0
    largest = math.prod(max(size, 1) for size in sizes) * width  # TensorFlow multiplies before a 0
    if entry.shape.unknown_rank or not is_shape or largest > _LARGEST:
        return f"the shape {short_repr(sizes)}"
    if not 0 <= entry.shard_id < shards or entry.offset < 0 or entry.size < 0:
        return f"{entry.size} bytes at {entry.offset} of shard {entry.shard_id} of {shards}"
    return None


def _entries(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields keys and values of a table."""
    if content[-len(_MAGIC) :] != _MAGIC:
        raise ValueError("no table")
    footer = content[-_FOOTER:]
    _, at = _number(footer, 0)
    _, at = _number(footer, at)
    for _, handle in _block(content, footer[at:]):
        yield from _block(content, handle)


def _block(content: bytes, handle: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields keys and values of the block at a place; a key shares its beginning with the last."""
    offset, at = _number(handle, 0)
    size, _ = _number(handle, at)
    block, compression = content[offset : offset + size], content[offset + size]
    if compression != _UNCOMPRESSED or offset + size + _TRAILER > len(content):
        raise ValueError("compressed or cut")
    (restarts,) = struct.unpack("<I", block[-4:])
    end, at, key = len(block) - 4 * (1 + restarts), 0, b""
    while at < end:
        shared, at = _number(block, at)
        length, at = _number(block, at)
        value, at = _number(block, at)
        key = key[:shared] + block[at : at + length]
        at += length
        yield key, block[at : at + value]
        at += value


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Reads a varint; returns it and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return value, at

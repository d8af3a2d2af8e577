"""Finds, reads, and writes TensorFlow checkpoint files."""

import glob
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf.checkpoints.weight_files import no_number, require_stored
from albert_tf.errors import UserError
from albert_tf.files import masked_crc, read_bytes, tensorflow_errors

_OBJECT_GRAPH: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"
STATE: Final = "checkpoint"  # file that names the latest checkpoint in a folder
# Variables of optimizers and training loops.
_BOOKKEEPING: Final = re.compile(
    r"(^|/)(adam_[mv]|(Adam|LAMB|Momentum|Adagrad)(_\d+)?|ExponentialMovingAverage|global_step"
    r"|beta[12]_power(_\d+)?|(current_)?loss_scale|good_steps|save_counter)(/|$)"
    r"|OPTIMIZER_SLOT|^optimizer/|(^|/)(_variables|keras_api/metrics)/\d"
)
_ENDING: Final = re.compile(r"\.(index|meta|data-(\d{5})-of-(\d{5}))$")
# An index contains TensorFlow's tensor_bundle.proto in LevelDB's "table format".
_FOOTER: Final = 48  # bytes: the positions of two blocks, and the magic number
_MAGIC: Final = struct.pack("<Q", 0xDB4775248B80FB57)
_TRAILER: Final = 5  # bytes after a block: its compression and its checksum
_UNCOMPRESSED: Final = 0
_HEADER: Final = b""  # key of the header, which is the first entry


def find_prefix(path: Path) -> Path | None:
    """Returns a checkpoint's prefix (path without suffix), or None if there is no checkpoint.

    Args:
        path: a prefix, one of its files, or a folder. In a folder, the file `checkpoint` names
            the checkpoint to use, unless there is only one.
    Raises:
        UserError: if a folder contains several checkpoints, and `checkpoint` names none of them.
    """
    if not path.is_dir():
        prefix = path.with_name(_ENDING.sub("", path.name))
        return prefix if prefix.name in _prefixes(path.parent) else None
    prefixes = _prefixes(path)
    if (path / STATE).is_file():
        text = read_bytes(path / STATE).decode("utf-8", "replace")
        match = re.search(r'^\s*model_checkpoint_path:\s*"([^"]*)"', text, re.MULTILINE)
        # Drop the folder, because the checkpoint may have been moved.
        latest = re.split(r"[/\\]", match.group(1))[-1] if match else ""
        if latest in prefixes:
            return path / latest
    if len(prefixes) > 1:
        raise UserError(
            f"{path} contains several checkpoints ({', '.join(prefixes)}), and no file {STATE!r} "
            "that names one of them. Pass the path of one, without a suffix."
        )
    return path / prefixes[0] if prefixes else None


def read_variables(prefix: Path) -> dict[str, np.ndarray]:
    """Returns the weights of a TensorFlow 1 or 2 checkpoint, keyed by variable name.

    Skips optimizer slots, moving averages, metrics, scalars such as counters, and all variables
    that aren't floating-point.
    Doesn't use TensorFlow's reader, which aborts the process on an invalid shape or dtype.

    Args:
        prefix: the path of the files without the suffixes ".index" and ".data-00000-of-00001".
    Raises:
        UserError: if a file is missing or too short, or a variable's dtype isn't supported. Other
            damage can raise any exception.
    """
    import tensorflow as tf
    from tensorflow.core.protobuf import tensor_bundle_pb2

    shards = _shards(prefix)
    values = dict(_entries(read_bytes(prefix.with_name(f"{prefix.name}.index"))))
    header = tensor_bundle_pb2.BundleHeaderProto.FromString(values.pop(_HEADER))
    if header.endianness != tensor_bundle_pb2.BundleHeaderProto.LITTLE:
        raise ValueError("it is big-endian")
    entries = {
        key.decode(): tensor_bundle_pb2.BundleEntryProto.FromString(value)
        for key, value in values.items()
    }

    keys = {key: key for key in entries}
    if _OBJECT_GRAPH in entries:
        # A string is stored as its length, a checksum of the length, and its bytes.
        graph = _read(entries[_OBJECT_GRAPH], shards)
        length, at = _varint(graph, 0)
        keys = dict(_by_full_name(graph[at + 4 : at + 4 + length]))
    weights = {}
    for name, key in sorted(keys.items()):
        dtype = tf.dtypes.as_dtype(entries[key].dtype)
        if dtype != dtype.base_dtype:  # such as 101, which aborts TensorFlow's reader
            raise ValueError(f"{key} has dtype {dtype.name}, which can't be stored in a checkpoint")
        is_array = dtype.is_floating and entries[key].shape.dim
        if is_array and not _BOOKKEEPING.search(name):
            if dtype.size < 2:
                raise no_number(prefix, key, dtype.name)
            weights[name] = entries[key], dtype.as_numpy_dtype
    declared = sum(entry.size for entry, _ in weights.values())
    require_stored(prefix, declared, sum(shard.stat().st_size for shard in shards))
    tensors = {}
    for name, (entry, dtype) in weights.items():
        stored = _read(entry, shards)
        if masked_crc(stored) != entry.crc32c:
            raise ValueError(f"the CRC of {name} is wrong")
        sizes = [axis.size for axis in entry.shape.dim]
        tensors[name] = np.frombuffer(stored, dtype).reshape(sizes)
    return tensors


def _read(entry: Any, shards: Sequence[Path]) -> bytes:
    """Returns the bytes of a variable."""
    shard = shards[entry.shard_id]
    if not 0 <= entry.offset <= entry.offset + entry.size <= shard.stat().st_size:
        raise ValueError(f"{entry.size} bytes at {entry.offset} aren't in {shard.name}")
    with shard.open("rb") as file:
        file.seek(entry.offset)
        return file.read(entry.size)


def write_variables(prefix: Path, variables: Mapping[str, np.ndarray]) -> None:
    """Writes `prefix.index` and `prefix.data-00000-of-00001`, as TensorFlow 1's Saver does."""
    import tensorflow as tf

    names = sorted(variables)
    with tensorflow_errors(prefix), tf.device("cpu:0"):
        tf.raw_ops.SaveV2(
            prefix=os.fsencode(prefix),
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.constant(variables[name]) for name in names],
        )


def _by_full_name(graph: bytes) -> Iterator[tuple[str, str]]:
    """Yields each variable's name and its key, a path in TensorFlow 2's object graph."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    for node in trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph).nodes:
        for attribute in node.attributes:
            key = attribute.checkpoint_key
            if attribute.full_name and not _BOOKKEEPING.search(key):
                yield attribute.full_name, key


def _shards(prefix: Path) -> list[Path]:
    """Returns the data files of a checkpoint, or raises UserError listing the missing ones."""
    if not prefix.with_name(f"{prefix.name}.index").is_file():
        raise UserError(
            f"The checkpoint {prefix} has no {prefix.name}.index. Copy it to the same folder."
        )
    shards = {
        match.group(2, 3)
        for path in prefix.parent.glob(f"{glob.escape(prefix.name)}.data-*")
        if path.is_file() and (match := _ENDING.search(path.name))
    }
    total = max((count for _, count in shards), default="00001")
    names = {
        f"{number:05d}": f"{prefix.name}.data-{number:05d}-of-{total}"
        for number in range(int(total))
    }
    if missing := [name for number, name in names.items() if (number, total) not in shards]:
        raise UserError(
            f"The checkpoint {prefix} is incomplete. Copy the missing files to the same folder: "
            f"{', '.join(missing)}."
        )
    return [prefix.with_name(name) for name in names.values()]


def _prefixes(folder: Path) -> list[str]:
    """Returns the names of the checkpoints in a folder, including those without an .index file."""
    files = folder.iterdir() if folder.is_dir() else ()
    matches = ((file, _ENDING.search(file.name)) for file in files if file.is_file())
    return sorted(
        {file.name[: match.start()] for file, match in matches if match and match[1] != "meta"}
    )


def _entries(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of a table."""
    if content[-len(_MAGIC) :] != _MAGIC:
        raise ValueError("not a table")
    footer = content[-_FOOTER:]
    _, at = _varint(footer, 0)
    _, at = _varint(footer, at)
    for _, handle in _block(content, footer[at:]):
        yield from _block(content, handle)


def _block(content: bytes, handle: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of a block. A key may share a prefix with the key before it."""
    offset, at = _varint(handle, 0)
    size, _ = _varint(handle, at)
    block, compression = content[offset : offset + size], content[offset + size]
    if compression != _UNCOMPRESSED or offset + size + _TRAILER > len(content):
        raise ValueError("compressed or truncated")
    checked = content[offset : offset + size + _TRAILER]
    if struct.pack("<I", masked_crc(checked[:-4])) != checked[-4:]:
        raise ValueError("the CRC of a block is wrong")
    (restarts,) = struct.unpack("<I", block[-4:])
    end, at, key = len(block) - 4 * (1 + restarts), 0, b""
    while at < end:
        shared, at = _varint(block, at)
        length, at = _varint(block, at)
        value, at = _varint(block, at)
        key = key[:shared] + block[at : at + length]
        at += length
        yield key, block[at : at + value]
        at += value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns a varint and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return value, at

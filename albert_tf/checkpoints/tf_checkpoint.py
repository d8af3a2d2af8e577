"""TensorFlow's checkpoint files: finds, reads and writes them."""

import contextlib
import glob
import math
import re
import struct
import tempfile
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf.checkpoints.weight_files import no_number, require_stored
from albert_tf.errors import UserError, short_repr
from albert_tf.files import WILDCARDS, link_or_copy, read_bytes

_OBJECT_GRAPH: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"
STATE: Final = "checkpoint"  # the file that names a folder's latest checkpoint
# Variables of optimizers and training loops.
_BOOKKEEPING: Final = re.compile(
    r"(^|/)(adam_[mv]|(Adam|LAMB|Momentum|Adagrad)(_\d+)?|ExponentialMovingAverage|global_step"
    r"|beta[12]_power(_\d+)?|(current_)?loss_scale|good_steps|save_counter)(/|$)"
    r"|OPTIMIZER_SLOT|^optimizer/"
)
_ENDING: Final = re.compile(r"\.(index|meta|data-(\d{5})-of-(\d{5}))$")
# Of an index: TensorFlow's tensor_bundle.proto in LevelDB's "table format".
_FOOTER: Final = 48  # bytes: the positions of two blocks, and the magic number
_MAGIC: Final = struct.pack("<Q", 0xDB4775248B80FB57)
_TRAILER: Final = 5  # bytes after a block: its compression and its checksum
_LARGEST: Final = 2**62  # bytes; beyond it TensorFlow's numbers overflow
_MOST_DIMENSIONS: Final = 254
_UNCOMPRESSED: Final = 0
_HEADER: Final = b""  # the first key


def find_prefix(path: Path) -> Path | None:
    """Returns the path of a checkpoint's files without their endings; None if there is none.

    Args:
        path: that path, one of the files, or their folder: its only checkpoint, or the one that
            its file `checkpoint` names.
    Raises:
        UserError: the folder holds several, and no file says which is the latest.
    """
    if not path.is_dir():
        prefix = path.with_name(_ENDING.sub("", path.name))
        return prefix if prefix.name in _prefixes(path.parent) else None
    prefixes = _prefixes(path)
    latest = _latest(path)
    if latest in prefixes:
        return path / latest
    if len(prefixes) > 1:
        raise UserError(
            f"A directory must hold one checkpoint, or a file {STATE!r} that names one of them. "
            f"Received: {path} with {', '.join(prefixes)}. Give one of these paths without its "
            "ending."
        )
    return path / prefixes[0] if prefixes else None


def read_variables(prefix: Path) -> dict[str, np.ndarray]:
    """Returns the weights of a checkpoint of TensorFlow 1 or 2 by variable name.

    Skips optimizer slots, moving averages, counters and whatever isn't floating-point.

    Args:
        prefix: the path of the files without ".index" and ".data-00000-of-00001".
    Raises:
        UserError: a file is missing or damaged.
    """
    import tensorflow as tf

    _check_files(prefix)
    _check_index(prefix.with_name(f"{prefix.name}.index"))
    try:
        with _without_wildcards(prefix) as path:
            reader = tf.train.load_checkpoint(str(path))
            dtypes = reader.get_variable_to_dtype_map()
            graph = reader.get_tensor(_OBJECT_GRAPH) if _OBJECT_GRAPH in dtypes else None
            keys = {key: key for key in dtypes} if graph is None else dict(_by_full_name(graph))
            weights = {
                name: key
                for name, key in sorted(keys.items())
                if dtypes[key].is_floating and not _BOOKKEEPING.search(name)
            }
            _check_sizes(prefix, reader, set(weights.values()))
            tensors = {name: reader.get_tensor(key) for name, key in weights.items()}
            del reader  # closes the files, which may be copies that are removed now
            return tensors
    except UserError:
        raise
    except Exception as error:  # a damaged file can raise any exception
        raise UserError(
            f"A checkpoint must be whole. Received: {prefix}, which doesn't read as one "
            f"({next(iter(str(error).splitlines()), '')[:160]}). Copy it again from its source."
        ) from error


@contextlib.contextmanager
def _without_wildcards(prefix: Path) -> Iterator[Path]:
    """Yields another path of a checkpoint's files, if TensorFlow would read theirs as a pattern."""
    if not WILDCARDS & set(prefix.as_posix()):
        yield prefix
        return
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder, "model")
        for file in prefix.parent.glob(f"{glob.escape(prefix.name)}.*"):
            ending = file.name.removeprefix(prefix.name)
            link_or_copy(file.resolve(), other.with_name(f"{other.name}{ending}"))
        yield other


def _check_sizes(prefix: Path, reader: Any, keys: Set[str]) -> None:
    """Refuses variables that take more bytes than there are, and floats of fewer than 16 bits."""
    dtypes, shapes = reader.get_variable_to_dtype_map(), reader.get_variable_to_shape_map()
    for key in keys:
        if dtypes[key].size < 2:
            raise no_number(prefix, key, dtypes[key].name)
    files = prefix.parent.glob(f"{glob.escape(prefix.name)}.data-*")
    declared = sum(dtypes[key].size * math.prod(shapes[key]) for key in keys)
    require_stored(prefix, declared, sum(file.stat().st_size for file in files))


def write_variables(prefix: Path, variables: Mapping[str, np.ndarray]) -> None:
    """Writes `prefix.index` and `prefix.data-00000-of-00001` in the format of TensorFlow 1's Saver.

    Raises:
        OSError: they can't be written.
    """
    import tensorflow as tf

    names = sorted(variables)
    try:
        with tf.device("cpu:0"):
            tf.raw_ops.SaveV2(
                prefix=str(prefix),
                tensor_names=names,
                shape_and_slices=[""] * len(names),
                tensors=[tf.constant(variables[name]) for name in names],
            )
    except tf.errors.OpError as error:
        raise OSError(f"{prefix} can't be written: {error.message}") from error


def _by_full_name(graph: bytes) -> Iterator[tuple[str, str]]:
    """Yields the name and key of each variable of TensorFlow 2, whose keys are paths."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    for node in trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph).nodes:
        for attribute in node.attributes:
            key = attribute.checkpoint_key
            if attribute.full_name and not _BOOKKEEPING.search(key):
                yield attribute.full_name, key


def _check_files(prefix: Path) -> None:
    """Raises an error that names the files that a checkpoint lacks; TensorFlow's names none."""
    if not prefix.with_name(f"{prefix.name}.index").is_file():
        raise UserError(
            f"A checkpoint needs its .index file. Received: {prefix}, and there is no "
            f"{prefix.name}.index. Copy it there too."
        )
    shards = {
        match.group(2, 3)
        for path in prefix.parent.glob(f"{glob.escape(prefix.name)}.data-*")
        if path.is_file() and (match := _ENDING.search(path.name))
    }
    total = max((count for _, count in shards), default="00001")
    missing = [
        f"{prefix.name}.data-{number:05d}-of-{total}"
        for number in range(int(total))
        if (f"{number:05d}", total) not in shards
    ]
    if missing:
        raise UserError(
            f"A checkpoint needs all its .data files. Received: {prefix}, without "
            f"{', '.join(missing)}. Copy them there too."
        )


def _prefixes(folder: Path) -> list[str]:
    """Returns the names of the checkpoints in a folder; one without .index counts too."""
    files = folder.iterdir() if folder.is_dir() else ()
    matches = ((file, _ENDING.search(file.name)) for file in files if file.is_file())
    return sorted(
        {file.name[: match.start()] for file, match in matches if match and match[1] != "meta"}
    )


def _latest(folder: Path) -> str | None:
    """Returns the name in the file `checkpoint`, without its folder: files get moved."""
    path = folder / STATE
    if not path.is_file():
        return None
    text = read_bytes(path).decode("utf-8", "replace")
    match = re.search(r'^\s*model_checkpoint_path:\s*"([^"]*)"', text, re.MULTILINE)
    return re.split(r"[/\\]", match.group(1))[-1] if match else None


def _check_index(path: Path) -> None:
    """Refuses an index with entries that no checkpoint has, before TensorFlow reads it.

    TensorFlow ends the whole process at a shape or dtype that can't be, and takes the bytes of a
    big-endian checkpoint for little-endian ones.

    Raises:
        UserError: it is damaged or big-endian, or an entry's dtype, shape or position is wrong.
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
    except Exception as error:  # a damaged file can raise any exception
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
                f"A checkpoint's entries must be possible. Received: {path}, whose "
                f"{short_repr(name.decode('utf-8', 'replace'))} has {fault}. Copy it again from "
                "its source."
            )


def _fault(entry: Any, shards: int) -> str | None:
    """Returns the impossible property of an entry, or None."""
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
    """Yields keys and values of the block at a handle; a key may share the last one's prefix."""
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

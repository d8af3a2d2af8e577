"""TensorFlow's checkpoint files: finds, reads and writes them."""

import contextlib
import glob
import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf.checkpoints.bundle_index import check_index
from albert_tf.checkpoints.weight_files import no_number, require_stored
from albert_tf.errors import UserError
from albert_tf.files import WILDCARDS, read_bytes

_OBJECT_GRAPH: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"
STATE: Final = "checkpoint"  # the file that names a folder's latest checkpoint
# Variables of optimizers and training loops.
_BOOKKEEPING: Final = re.compile(
    r"(^|/)(adam_[mv]|(Adam|LAMB|Momentum|Adagrad)(_\d+)?|ExponentialMovingAverage|global_step"
    r"|beta[12]_power(_\d+)?|(current_)?loss_scale|good_steps|save_counter)(/|$)"
    r"|OPTIMIZER_SLOT|^optimizer/"
)
_ENDING: Final = re.compile(r"\.(index|meta|data-(\d{5})-of-(\d{5}))$")


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
    found = _prefixes(path)
    latest = _latest(path)
    if latest in found:
        return path / latest
    if len(found) > 1:
        raise UserError(
            f"A directory must hold one checkpoint, or a file {STATE!r} that names one of them. "
            f"Received: {path} with {', '.join(found)}. Give one of these paths without its ending."
        )
    return path / found[0] if found else None


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
    check_index(prefix.with_name(f"{prefix.name}.index"))
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
            return {name: reader.get_tensor(key) for name, key in weights.items()}
    except UserError:
        raise
    except Exception as error:  # damage shows in every way: OpError, RuntimeError, KeyError, …
        raise UserError(
            f"A checkpoint must be whole. Received: {prefix}, which doesn't read as one "
            f"({next(iter(str(error).splitlines()), '')[:160]}). Copy it again from its source."
        ) from error


@contextlib.contextmanager
def _without_wildcards(prefix: Path) -> Iterator[Path]:
    """Yields another path of a checkpoint's files, if TensorFlow would read theirs as a pattern."""
    if not WILDCARDS & set(str(prefix)):
        yield prefix
        return
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder, "model")
        for file in prefix.parent.glob(f"{glob.escape(prefix.name)}.*"):
            ending = file.name.removeprefix(prefix.name)
            other.with_name(f"{other.name}{ending}").symlink_to(file.resolve())
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

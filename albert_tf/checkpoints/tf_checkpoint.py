"""TensorFlow's checkpoint files, in and out; the one place that asks TensorFlow for them."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from albert_tf.errors import UserError

_OBJECT_GRAPH: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"
# What optimizers and training loops keep beside the weights.
_BOOKKEEPING: Final = re.compile(
    r"(^|/)(adam_[mv]|(Adam|LAMB|Momentum|Adagrad)(_\d+)?|ExponentialMovingAverage|global_step"
    r"|beta[12]_power(_\d+)?|(current_)?loss_scale|good_steps|save_counter)(/|$)"
    r"|OPTIMIZER_SLOT|^optimizer/"
)
_SHARD: Final = re.compile(r"\.data-(\d{5})-of-(\d{5})$")


def read_variables(prefix: Path) -> dict[str, np.ndarray]:
    """The weights of a checkpoint by variable name, as TensorFlow 1 and 2 write it.

    Optimizer slots, moving averages, counters and whatever isn't floating-point are left out.

    Args:
        prefix: the path of the files without ".index" and ".data-00000-of-00001".
    Raises:
        UserError: a file is missing or damaged.
    """
    import tensorflow as tf

    _check_files(prefix)
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        dtypes = reader.get_variable_to_dtype_map()
        graph = reader.get_tensor(_OBJECT_GRAPH) if _OBJECT_GRAPH in dtypes else None
        keys = {key: key for key in dtypes} if graph is None else dict(_by_full_name(graph))
        return {
            name: reader.get_tensor(key)
            for name, key in sorted(keys.items())
            if dtypes[key].is_floating and not _BOOKKEEPING.search(name)
        }
    except (tf.errors.OpError, RuntimeError, IndexError) as error:
        raise UserError(
            f"A checkpoint must be whole. Received: {prefix}, which doesn't read as one "
            f"({str(error).splitlines()[0][:160]}). Copy it again from its source."
        ) from error


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
    """Variable name and key of each variable of TensorFlow 2's checkpoint, whose keys are paths."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    for node in trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph).nodes:
        for attribute in node.attributes:
            key = attribute.checkpoint_key
            if attribute.full_name and not _BOOKKEEPING.search(key):
                yield attribute.full_name, key


def _check_files(prefix: Path) -> None:
    """Refuses a checkpoint of which a file is missing: TensorFlow's own words name none."""
    if not prefix.with_name(f"{prefix.name}.index").is_file():
        raise UserError(
            f"A checkpoint needs its .index file. Received: {prefix}, and there is no "
            f"{prefix.name}.index. Copy it there too."
        )
    shards = {
        match.groups()
        for path in prefix.parent.glob(f"{prefix.name}.data-*")
        if (match := _SHARD.search(path.name))
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

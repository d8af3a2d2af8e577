"""The strategies of TensorFlow and JAX that spread training over devices and hosts."""

import contextlib
import functools
import json
import os
from typing import Any, Final

import keras

from albert_tf.errors import UserError
from albert_tf.options import cores

# Parts of a batch that TensorFlow computes at the same time on a CPU. One product of a small matrix
# leaves threads idle; two products, each on half of the threads, don't.
SIDE_BY_SIDE: Final = 2
# Either one tells keras.distribution.initialize about several processes.
JAX_CLUSTER: Final = ("KERAS_DISTRIBUTION_JOB_ADDRESSES", "KERAS_DISTRIBUTION_NUM_PROCESSES")


def tensorflow_strategy(name: str) -> Any:
    import tensorflow as tf

    if name == "auto":
        name = _best_of_tensorflow()
    if name == "tpu":
        return _tpu()
    if name == "multi-worker":
        return _multi_worker()
    if name == "mirrored":  # by name, because TF_CONFIG would add other hosts' devices
        return tf.distribute.MirroredStrategy(_local_devices())
    return tf.distribute.get_strategy()


def side_by_side() -> int:
    """Returns the number of parts of a batch that one device of TensorFlow computes in parallel."""
    import tensorflow as tf

    accelerators = tf.config.list_physical_devices("GPU") + tf.config.list_physical_devices("TPU")
    return 1 if accelerators else SIDE_BY_SIDE


def share_threads() -> None:
    """Divides the CPU's threads among the parts of a batch, for a process that only trains.

    On two cores a step of `small` takes three quarters of its time then; predictions one by one
    take up to 1.7 times theirs. Call it before TensorFlow computes anything: later it has no
    effect, nor on several hosts, on accelerators, or where the user has set the threads.
    """
    if keras.backend.backend() != "tensorflow" or "TF_CONFIG" in os.environ or side_by_side() == 1:
        return
    import tensorflow as tf

    threading = tf.config.threading
    chosen = (
        threading.get_intra_op_parallelism_threads(),
        threading.get_inter_op_parallelism_threads(),
        *map(os.environ.get, ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")),
    )
    if not any(chosen):
        with contextlib.suppress(RuntimeError):  # TensorFlow has begun
            threading.set_intra_op_parallelism_threads(max(1, cores() // SIDE_BY_SIDE))
            threading.set_inter_op_parallelism_threads(SIDE_BY_SIDE)


def _best_of_tensorflow() -> str:
    import tensorflow as tf

    if os.environ.get("TPU_NAME") or tf.config.list_physical_devices("TPU"):
        return "tpu"
    # Before devices are listed, because that starts what a strategy of several hosts must start.
    if _workers(required=False) > 1:
        return "multi-worker"
    return "mirrored" if len(_local_devices()) > 1 else "none"


def _multi_worker() -> Any:
    _workers(required=True)
    return _connected(os.environ["TF_CONFIG"])


# A second strategy would restart TensorFlow's server and interrupt another host that is ahead of
# this one ("Delete called on non-empty BufRendezvous").
@functools.cache
def _connected(tf_config: str) -> Any:
    """Connects to the hosts in `tf_config`, the environment's; once in a process."""
    import tensorflow as tf

    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except tf.errors.UnknownError as error:
        here = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        place = here.cluster_spec().task_address(here.task_type, here.task_id)
        raise UserError(
            "This host must be able to listen at its address in TF_CONFIG. "
            f"Received: {place} ({error.message}). Give it a free port, the same on each host."
        ) from error


def _local_devices() -> list[str]:
    import tensorflow as tf

    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return [device.name for device in devices]


def _workers(required: bool) -> int:
    """Returns the number of hosts in `TF_CONFIG`, after a check of all its values."""
    text = os.environ.get("TF_CONFIG", "")
    try:
        settings = json.loads(text) if text else {}
        cluster = {kind: list(places) for kind, places in settings.get("cluster", {}).items()}
        if not cluster and not required:
            return 1
        task = settings["task"]["type"], int(settings["task"]["index"])
        usable = cluster.keys() <= {"chief", "worker"} and task[1] in range(len(cluster[task[0]]))
    except (AttributeError, KeyError, TypeError, ValueError):
        usable = False
    if not usable:
        raise UserError(
            "TF_CONFIG must name the hosts and the index of this one: "
            '{"cluster": {"worker": ["HOST:PORT", "HOST:PORT"]}, '
            '"task": {"type": "worker", "index": 0}}. '
            f"Received: {text or 'none'}. Set it on each host, or give --strategy none."
        )
    return sum(map(len, cluster.values()))


def _tpu() -> Any:
    import tensorflow as tf

    place = os.environ.get("TPU_NAME") or "local"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect(place)
    except (ValueError, OSError, RuntimeError, tf.errors.OpError) as error:
        raise UserError(
            f"A TPU must be in reach. Received: none ({place}: {str(error).splitlines()[0]}). "
            "On a TPU VM install tensorflow-tpu; for one elsewhere set TPU_NAME; without one give "
            "--strategy auto."
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def jax_strategy(name: str) -> Any:
    import jax

    named = any(os.environ.get(variable) for variable in JAX_CLUSTER)
    if name == "multi-worker" or (name in ("auto", "tpu") and named):
        _join()
    if name == "tpu" and jax.default_backend() != "tpu":
        raise UserError(
            f"A TPU must be in reach. Received: {jax.default_backend()} devices alone. "
            "Install jax[tpu] on a TPU VM; without one give --strategy auto."
        )
    if name == "none" or (name == "auto" and jax.device_count() == 1):
        return None
    # Each host reads its own part of a batch.
    return keras.distribution.DataParallel(auto_shard_dataset=False)


def _join() -> None:
    """Connects to the other processes."""
    import jax

    if jax.distributed.is_initialized():
        return
    try:
        keras.distribution.initialize()
    except (ValueError, RuntimeError) as error:
        raise UserError(
            "KERAS_DISTRIBUTION_JOB_ADDRESSES (HOST:PORT of the first host), "
            "KERAS_DISTRIBUTION_NUM_PROCESSES and KERAS_DISTRIBUTION_PROCESS_ID must name the "
            f"hosts, where no Slurm, MPI or cloud does. Received: {str(error).splitlines()[0]} "
            "Set them on each host, or give --strategy none."
        ) from error

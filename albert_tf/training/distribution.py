"""Training on one device, multiple devices, multiple hosts, or a TPU."""

import contextlib
import functools
import json
import os
from collections.abc import Iterator
from typing import Any, Final

import keras
import numpy as np

from albert_tf.errors import UserError
from albert_tf.options import cores
from albert_tf.training.options import Strategy

# If either variable is set, keras.distribution.initialize connects to multiple processes.
JAX_CLUSTER: Final = ("KERAS_DISTRIBUTION_JOB_ADDRESSES", "KERAS_DISTRIBUTION_NUM_PROCESSES")


def strategy_for(name: Strategy) -> Any:
    """Returns the named strategy. Call it before TensorFlow or JAX computes anything.

    Args:
        name: one of the values of `Strategy`. "auto" selects the first that is available: a TPU,
            the hosts in the environment, multiple devices of this host, or one device.
    Returns:
        on TensorFlow, a `tf.distribute.Strategy`; on JAX, a `keras.distribution.DataParallel`, or
        None for one device; on torch, None. Create the model in its `scope`.
    Raises:
        UserError: if the strategy isn't available here.
    """
    backend = keras.backend.backend()
    if keras.distribution.distribution() is not None and backend != "jax":
        raise UserError(
            "keras.distribution works only on the JAX backend. "
            f"Received: {keras.distribution.distribution()} on {backend}. Set KERAS_BACKEND=jax, "
            "or call keras.distribution.set_distribution(None)."
        )
    if backend == "tensorflow":
        return tensorflow_strategy(name)
    if backend == "jax":
        return jax_strategy(name)
    if name not in ("auto", "none"):
        raise UserError(
            f"The {backend} backend trains on one device only. Received: strategy={name}. "
            "Set KERAS_BACKEND=tensorflow or jax, or omit the strategy."
        )
    return None


def scope(strategy: Any) -> contextlib.AbstractContextManager[Any]:
    """Returns the scope in which to create the model and, on JAX, to train it."""
    return contextlib.nullcontext() if strategy is None else strategy.scope()


def replicas(strategy: Any) -> int:
    """Returns the number of model replicas over all hosts."""
    if strategy is None:
        return 1
    if isinstance(strategy, keras.distribution.DataParallel):
        return strategy.num_model_replicas
    return strategy.num_replicas_in_sync


def shared(dataset: Any, strategy: Any, batch_size: int) -> Any:
    """Returns the dataset for `fit`, which TensorFlow distributes if there are several replicas.

    Args:
        dataset: a dataset that yields this host's part of each global batch.
        batch_size: number of examples in a global batch.
    """
    count = replicas(strategy)
    if count == 1 or keras.backend.backend() != "tensorflow":
        return dataset
    per_replica = dataset.rebatch(batch_size // count, drop_remainder=True)
    return strategy.distribute_datasets_from_function(lambda context: per_replica)


def hosts(strategy: Any) -> tuple[int, int]:
    """Returns the rank of this host and the number of hosts that train together."""
    if isinstance(strategy, keras.distribution.DataParallel):
        import jax

        return jax.process_index(), jax.process_count()
    resolver = getattr(strategy, "cluster_resolver", None)
    if resolver is None or resolver.task_type is None:
        return 0, 1
    workers = resolver.cluster_spec().as_dict()
    chiefs = len(workers.get("chief", ()))
    first = 0 if resolver.task_type == "chief" else chiefs
    return first + resolver.task_id, chiefs + len(workers.get("worker", ()))


def is_chief(strategy: Any) -> bool:
    """Returns whether this host writes the files."""
    return hosts(strategy)[0] == 0


def check_same_step(strategy: Any, step: int) -> None:
    """Rejects hosts that would resume from different checkpoints.

    Raises:
        UserError: if the hosts are at different steps.
    """
    index, count = hosts(strategy)
    if count == 1:
        return
    if isinstance(strategy, keras.distribution.DataParallel):
        from jax.experimental.multihost_utils import process_allgather

        steps = process_allgather(np.array([step])).ravel().tolist()
    else:
        import tensorflow as tf

        gathered = strategy.gather(strategy.run(lambda: tf.constant([step])), axis=0)
        steps = gathered.numpy().tolist()
    if len(set(steps)) > 1:
        raise UserError(
            "All hosts must resume from the same checkpoint. "
            f"Received: step {step} on host {index}, {sorted({*steps} - {step})} on other hosts. "
            "Use an --output on a shared file system."
        )


@contextlib.contextmanager
def errors_of_lost_hosts(strategy: Any) -> Iterator[None]:
    """Raises a `UserError` if the connection to another TensorFlow host is lost in the block."""
    if keras.backend.backend() != "tensorflow" or hosts(strategy)[1] == 1:
        yield
        return
    import tensorflow as tf

    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError) as error:
        raise UserError(
            f"The connection to another host was lost ({error.message.strip().splitlines()[0]}). "
            "Run the same command again on all hosts to resume from the last checkpoint."
        ) from error


def tensorflow_strategy(name: str) -> Any:
    import tensorflow as tf

    if name == "auto":
        name = "none"
        if os.environ.get("TPU_NAME") or tf.config.list_physical_devices("TPU"):
            name = "tpu"
        # Must come before listing devices, which initializes TensorFlow before this strategy can.
        elif _workers(required=False) > 1:
            name = "multi-worker"
        elif len(_local_devices()) > 1:
            name = "mirrored"
    if name == "tpu":
        return _tpu()
    if name == "multi-worker":
        _workers(required=True)
        return _connect(os.environ["TF_CONFIG"])
    if name == "mirrored":  # names the devices, because TF_CONFIG would add other hosts' devices
        return tf.distribute.MirroredStrategy(_local_devices())
    return tf.distribute.get_strategy()


def share_threads() -> None:
    """Divides a batch into slices and the CPU threads among them, for a process that only trains.

    On two cores, a training step of `small` then takes 15% to 20% less time, but tracing takes
    longer, and single predictions take up to 1.7 times as long. Call it before TensorFlow computes
    anything. It does nothing on multiple hosts, with accelerators, or if the user has set the
    number of threads.
    """
    if keras.backend.backend() != "tensorflow" or "TF_CONFIG" in os.environ:
        return
    import tensorflow as tf

    from albert_tf.models.steps_tensorflow import SLICES, has_accelerator

    if has_accelerator():
        return
    threading = tf.config.threading
    user_settings = (
        threading.get_intra_op_parallelism_threads(),
        threading.get_inter_op_parallelism_threads(),
        *map(os.environ.get, ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")),
    )
    if not any(user_settings):
        with contextlib.suppress(RuntimeError):  # TensorFlow is already initialized
            threading.set_intra_op_parallelism_threads(max(1, cores() // SLICES))
            threading.set_inter_op_parallelism_threads(SLICES)


# Cached, because a second strategy would restart TensorFlow's server and interrupt hosts that are
# ahead of this one ("Delete called on non-empty BufRendezvous").
@functools.cache
def _connect(tf_config: str) -> Any:
    """Connects to the hosts in the environment's `tf_config`, once per process."""
    import tensorflow as tf

    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except tf.errors.UnknownError as error:
        here = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        address = here.cluster_spec().task_address(here.task_type, here.task_id)
        raise UserError(
            f"This host can't listen on its address in TF_CONFIG: {address} ({error.message}). "
            "Use a free port, and set the same address on all hosts."
        ) from error


def _local_devices() -> list[str]:
    import tensorflow as tf

    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return [device.name for device in devices]


def _workers(required: bool) -> int:
    """Checks `TF_CONFIG` and returns the number of hosts in it."""
    text = os.environ.get("TF_CONFIG", "")
    try:
        settings = json.loads(text) if text else {}
        cluster = {role: list(addresses) for role, addresses in settings.get("cluster", {}).items()}
        if not cluster and not required:
            return 1
        task = settings["task"]["type"], int(settings["task"]["index"])
        usable = cluster.keys() <= {"chief", "worker"} and task[1] in range(len(cluster[task[0]]))
    except (AttributeError, KeyError, TypeError, ValueError):
        usable = False
    if not usable:
        raise UserError(
            "TF_CONFIG must contain the addresses of all hosts and the index of this one: "
            '{"cluster": {"worker": ["HOST:PORT", "HOST:PORT"]}, '
            '"task": {"type": "worker", "index": 0}}. '
            f"Received: {text or 'none'}. Set it on each host, or pass --strategy none."
        )
    return sum(map(len, cluster.values()))


def _tpu() -> Any:
    import tensorflow as tf

    tpu = os.environ.get("TPU_NAME") or "local"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect(tpu)
    except (ValueError, OSError, RuntimeError, tf.errors.OpError) as error:
        raise UserError(
            f"No TPU was found ({tpu}: {str(error).splitlines()[0]}). Install tensorflow-tpu on a "
            "TPU VM, set TPU_NAME for a remote TPU, or pass --strategy auto to train without one."
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def jax_strategy(name: str) -> Any:
    import jax

    has_cluster = any(os.environ.get(variable) for variable in JAX_CLUSTER)
    if name == "multi-worker" or (name in ("auto", "tpu") and has_cluster):
        _join()
    if name == "tpu" and jax.default_backend() != "tpu":
        raise UserError(
            f"No TPU was found, only {jax.default_backend()} devices. Install jax[tpu] on a TPU "
            "VM, or pass --strategy auto to train without one."
        )
    if name == "none" or (name == "auto" and jax.device_count() == 1):
        return None
    # Each host already reads only its own part of a batch.
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
            f"Can't connect to the other hosts: {str(error).splitlines()[0]} Without Slurm, MPI, "
            "or a cloud cluster, set KERAS_DISTRIBUTION_JOB_ADDRESSES (the first host's "
            "HOST:PORT), KERAS_DISTRIBUTION_NUM_PROCESSES, and KERAS_DISTRIBUTION_PROCESS_ID on "
            "each host, or pass --strategy none."
        ) from error

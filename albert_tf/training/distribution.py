"""Devices of training: one, several, several hosts, a TPU."""

import contextlib
import functools
import json
import os
from collections.abc import Iterator
from typing import Any, Final, get_args

import keras
import numpy as np

from albert_tf.errors import UserError
from albert_tf.options import cores
from albert_tf.training.options import Strategy

# Either one tells keras.distribution.initialize about several processes.
JAX_CLUSTER: Final = ("KERAS_DISTRIBUTION_JOB_ADDRESSES", "KERAS_DISTRIBUTION_NUM_PROCESSES")


def strategy_for(name: str) -> Any:
    """Returns the named strategy. Call it before TensorFlow or JAX compute anything.

    Args:
        name: one of `Strategy`. "auto" selects a TPU if there is one, else the hosts in the
            environment, else all devices of this host if there are several, else one device.
    Returns:
        on TensorFlow a `tf.distribute.Strategy`; on JAX a `keras.distribution.DataParallel`, or
        None for one device; on torch None. The model must be created in its `scope`.
    Raises:
        UserError: the strategy doesn't exist, or isn't available here.
    """
    if name not in get_args(Strategy):
        names = ", ".join(get_args(Strategy))
        raise UserError(f"strategy must be one of {names}. Received: {name}.")
    backend = keras.backend.backend()
    if keras.distribution.distribution() is not None and backend != "jax":
        raise UserError(
            "keras.distribution works on the JAX backend only; the others ignore it. "
            f"Received: {keras.distribution.distribution()} on {backend}. Set KERAS_BACKEND=jax, "
            "or remove it with keras.distribution.set_distribution(None)."
        )
    if backend == "tensorflow":
        return tensorflow_strategy(name)
    if backend == "jax":
        return jax_strategy(name)
    if name not in ("auto", "none"):
        raise UserError(
            f"The {backend} backend trains on one device. Received: strategy={name}. "
            "Set KERAS_BACKEND=tensorflow or jax, or omit the strategy."
        )
    return None


def scope(strategy: Any) -> contextlib.AbstractContextManager[Any]:
    """Returns the scope to create the model in, and on JAX to train it in."""
    return contextlib.nullcontext() if strategy is None else strategy.scope()


def replicas(strategy: Any) -> int:
    """Returns the number of devices, over all hosts, that train a copy of the model."""
    if strategy is None:
        return 1
    if isinstance(strategy, keras.distribution.DataParallel):
        return strategy.num_model_replicas
    return strategy.num_replicas_in_sync


def shared(dataset: Any, strategy: Any, batch_size: int) -> Any:
    """Returns the data for `fit`, split among the replicas if TensorFlow has several.

    Args:
        dataset: this host's part of each global batch.
        batch_size: examples of a global batch.
    """
    count = replicas(strategy)
    if count == 1 or keras.backend.backend() != "tensorflow":
        return dataset
    per_replica = dataset.rebatch(batch_size // count, drop_remainder=True)
    return strategy.distribute_datasets_from_function(lambda context: per_replica)


def hosts(strategy: Any) -> tuple[int, int]:
    """Returns the number of this host, from 0, and of all that train together."""
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
    """Whether this host writes the files."""
    return hosts(strategy)[0] == 0


def check_same_step(strategy: Any, step: int) -> None:
    """Refuses hosts that would resume from different checkpoints.

    Raises:
        UserError: not all hosts are at this step.
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
            "All hosts must see the same checkpoints. "
            f"Received: step {step} on host {index}, others {sorted({*steps} - {step})}. "
            "Give an --output on a shared file system."
        )


@contextlib.contextmanager
def errors_of_lost_hosts(strategy: Any) -> Iterator[None]:
    """Turns the loss of a TensorFlow host within the block into a `UserError`."""
    if keras.backend.backend() != "tensorflow" or hosts(strategy)[1] == 1:
        yield
        return
    import tensorflow as tf

    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError) as error:
        raise UserError(
            "All hosts must train to the end. Received: another one is gone "
            f"({error.message.strip().splitlines()[0]}). Start the same command again on all of "
            "them: it resumes at the last checkpoint."
        ) from error


def tensorflow_strategy(name: str) -> Any:
    import tensorflow as tf

    if name == "auto":
        name = "none"
        if os.environ.get("TPU_NAME") or tf.config.list_physical_devices("TPU"):
            name = "tpu"
        # Before devices are listed, because that starts what a strategy of several hosts must.
        elif _workers(required=False) > 1:
            name = "multi-worker"
        elif len(_local_devices()) > 1:
            name = "mirrored"
    if name == "tpu":
        return _tpu()
    if name == "multi-worker":
        _workers(required=True)
        return _connected(os.environ["TF_CONFIG"])
    if name == "mirrored":  # by name, because TF_CONFIG would add other hosts' devices
        return tf.distribute.MirroredStrategy(_local_devices())
    return tf.distribute.get_strategy()


def share_threads() -> None:
    """Divides the CPU's threads among the slices of a batch, for a process that only trains.

    On two cores a step of `small` takes three quarters of its time then; predictions one by one
    take up to 1.7 times theirs. Call it before TensorFlow computes anything: later it has no
    effect, nor on several hosts, on accelerators, or where the user has set the threads.
    """
    if keras.backend.backend() != "tensorflow" or "TF_CONFIG" in os.environ:
        return
    import tensorflow as tf

    from albert_tf.models.steps_tensorflow import SLICES, parallel_slices

    if parallel_slices() == 1:
        return
    threading = tf.config.threading
    chosen = (
        threading.get_intra_op_parallelism_threads(),
        threading.get_inter_op_parallelism_threads(),
        *map(os.environ.get, ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")),
    )
    if not any(chosen):
        with contextlib.suppress(RuntimeError):  # TensorFlow has begun
            threading.set_intra_op_parallelism_threads(max(1, cores() // SLICES))
            threading.set_inter_op_parallelism_threads(SLICES)


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
        address = here.cluster_spec().task_address(here.task_type, here.task_id)
        raise UserError(
            "This host must be able to listen at its address in TF_CONFIG. "
            f"Received: {address} ({error.message}). Give it a free port, the same on each host."
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
        cluster = {role: list(addresses) for role, addresses in settings.get("cluster", {}).items()}
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

    tpu = os.environ.get("TPU_NAME") or "local"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect(tpu)
    except (ValueError, OSError, RuntimeError, tf.errors.OpError) as error:
        raise UserError(
            f"A TPU must be in reach. Received: none ({tpu}: {str(error).splitlines()[0]}). "
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

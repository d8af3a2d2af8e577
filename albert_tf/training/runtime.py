"""Where training runs (one device, several, several hosts, a TPU), and in which precision."""

import contextlib
import dataclasses
import functools
import json
import os
from collections.abc import Iterator
from typing import Any, Final

import keras
import numpy as np

from albert_tf.errors import UserError

STRATEGIES: Final = ("auto", "none", "mirrored", "multi-worker", "tpu")
DTYPE_POLICIES: Final = ("float32", "mixed_bfloat16", "mixed_float16")
# Either says, to keras.distribution.initialize, that there are several processes.
JAX_CLUSTER: Final = ("KERAS_DISTRIBUTION_JOB_ADDRESSES", "KERAS_DISTRIBUTION_NUM_PROCESSES")


@dataclasses.dataclass(frozen=True)
class Hosts:
    """The processes that train together: this one's number, from 0, and how many there are."""

    index: int
    count: int


def strategy_for(name: str) -> Any:
    """How training is spread over devices. Call it before TensorFlow or JAX compute anything.

    Args:
        name: one of `STRATEGIES`. "auto" takes a TPU if there is one, else the hosts that the
            environment names, else all devices of this host if there are several, else one device.
    Returns:
        on TensorFlow a `tf.distribute.Strategy`; on JAX a `keras.distribution.DataParallel`, or
        None for one device; on torch None. The model must be made in its `scope`.
    Raises:
        UserError: there is no such strategy, or not here; what to do about it.
    """
    if name not in STRATEGIES:
        raise UserError(f"strategy must be one of {', '.join(STRATEGIES)}. Received: {name}.")
    backend = keras.backend.backend()
    if keras.distribution.distribution() is not None and backend != "jax":
        raise UserError(
            "keras.distribution spreads training on the JAX backend alone; others take no notice. "
            f"Received: {keras.distribution.distribution()} on {backend}. Set KERAS_BACKEND=jax, "
            "or take it away with keras.distribution.set_distribution(None)."
        )
    if backend == "tensorflow":
        return _of_tensorflow(name)
    if backend == "jax":
        return _of_jax(name)
    if name not in ("auto", "none"):
        raise UserError(
            f"The {backend} backend trains on one device. Received: strategy={name}. "
            "Set KERAS_BACKEND=tensorflow or jax, or leave the strategy out."
        )
    return None


def scope(strategy: Any) -> contextlib.AbstractContextManager[Any]:
    """Where the model is made, and trained on JAX."""
    return contextlib.nullcontext() if strategy is None else strategy.scope()


def replicas(strategy: Any) -> int:
    """On how many devices, of all hosts, a copy of the model trains."""
    if strategy is None:
        return 1
    if isinstance(strategy, keras.distribution.DataParallel):
        return strategy.num_model_replicas
    return strategy.num_replicas_in_sync


def hosts(strategy: Any) -> Hosts:
    """Which of the hosts this is."""
    if isinstance(strategy, keras.distribution.DataParallel):
        import jax

        return Hosts(jax.process_index(), jax.process_count())
    resolver = getattr(strategy, "cluster_resolver", None)
    if resolver is None or resolver.task_type is None:
        return Hosts(0, 1)
    workers = resolver.cluster_spec().as_dict()
    chiefs = len(workers.get("chief", ()))
    first = 0 if resolver.task_type == "chief" else chiefs
    return Hosts(first + resolver.task_id, chiefs + len(workers.get("worker", ())))


def is_chief(strategy: Any) -> bool:
    """Whether this host writes what is written once."""
    return hosts(strategy).index == 0


def check_same_step(strategy: Any, step: int) -> None:
    """Refuses hosts that go on from different checkpoints, before they train.

    Raises:
        UserError: they are not all at this step.
    """
    here = hosts(strategy)
    if here.count == 1:
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
            f"Received: step {step} on host {here.index}, others {sorted({*steps} - {step})}. "
            "Give an --output on a file system that they share."
        )


@contextlib.contextmanager
def together(strategy: Any) -> Iterator[None]:
    """Within the block the hosts of TensorFlow need each other; it says so if one is gone.

    Raises:
        UserError: another host was stopped, failed or is out of reach.
    """
    if keras.backend.backend() != "tensorflow" or hosts(strategy).count == 1:
        yield
        return
    import tensorflow as tf

    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError) as error:
        raise UserError(
            "All hosts must train to the end. Received: another one is gone "
            f"({error.message.strip().splitlines()[0]}). Give all of them the same command again: "
            "it goes on from the last checkpoint."
        ) from error


def check_dtype_policy(name: str) -> None:
    """Refuses precisions that don't train.

    Raises:
        UserError: weights in half precision lose small updates; there is no such policy.
    """
    if name in DTYPE_POLICIES:
        return
    half = name in ("bfloat16", "float16")
    why = " Weights in half precision lose small updates, and don't train." if half else ""
    way_out = f"mixed_{name}" if half else "float32"
    raise UserError(
        f"dtype_policy must be one of {', '.join(DTYPE_POLICIES)}.{why} Received: {name}. "
        f"Give {way_out}."
    )


def _of_tensorflow(name: str) -> Any:
    import tensorflow as tf

    if name == "auto":
        name = _best_of_tensorflow()
    if name == "tpu":
        return _tpu()
    if name == "multi-worker":
        return _multi_worker()
    if name == "mirrored":  # named, since TF_CONFIG would bring in other hosts' devices
        return tf.distribute.MirroredStrategy(_local_devices())
    return tf.distribute.get_strategy()


def _best_of_tensorflow() -> str:
    import tensorflow as tf

    if os.environ.get("TPU_NAME") or tf.config.list_physical_devices("TPU"):
        return "tpu"
    # Before devices are listed: that starts what a strategy of several hosts must start itself.
    if _workers(required=False) > 1:
        return "multi-worker"
    return "mirrored" if len(_local_devices()) > 1 else "none"


def _multi_worker() -> Any:
    _workers(required=True)
    return _meet(os.environ["TF_CONFIG"])


# Asked for twice, TensorFlow starts its server anew, and breaks off what another host, ahead of
# this one, has already begun ("Delete called on non-empty BufRendezvous").
@functools.cache
def _meet(tf_config: str) -> Any:
    """Meets the hosts that `tf_config`, the environment's, names: once in a process."""
    import tensorflow as tf

    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except tf.errors.UnknownError as error:
        here = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        place = here.cluster_spec().task_address(here.task_type, here.task_id)
        raise UserError(
            "This host must be able to listen where TF_CONFIG places it. "
            f"Received: {place} ({error.message}). Give it a free port, the same on each host."
        ) from error


def _local_devices() -> list[str]:
    import tensorflow as tf

    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return [device.name for device in devices]


def _workers(required: bool) -> int:
    """How many hosts `TF_CONFIG` names, after a check of all that it says."""
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
            "TF_CONFIG must name the hosts, and which of them this is: "
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


def _of_jax(name: str) -> Any:
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
    """Meets the other processes."""
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

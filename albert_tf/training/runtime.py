"""Devices (one, several, several hosts, a TPU) and precision of training."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any, Final

import keras
import numpy as np

from albert_tf.errors import UserError
from albert_tf.training.strategies import jax_strategy, tensorflow_strategy

STRATEGIES: Final = ("auto", "none", "mirrored", "multi-worker", "tpu")


@dataclasses.dataclass(frozen=True)
class Hosts:
    """The processes that train together: this one's number, from 0, and their count."""

    index: int
    count: int


def strategy_for(name: str) -> Any:
    """Returns the named strategy. Call it before TensorFlow or JAX compute anything.

    Args:
        name: one of `STRATEGIES`. "auto" selects a TPU if there is one, else the hosts in the
            environment, else all devices of this host if there are several, else one device.
    Returns:
        on TensorFlow a `tf.distribute.Strategy`; on JAX a `keras.distribution.DataParallel`, or
        None for one device; on torch None. The model must be created in its `scope`.
    Raises:
        UserError: the strategy doesn't exist, or isn't available here.
    """
    if name not in STRATEGIES:
        raise UserError(f"strategy must be one of {', '.join(STRATEGIES)}. Received: {name}.")
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


def hosts(strategy: Any) -> Hosts:
    """Returns this host's place among the hosts."""
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
    """Whether this host writes the files."""
    return hosts(strategy).index == 0


def check_same_step(strategy: Any, step: int) -> None:
    """Refuses hosts that would resume from different checkpoints.

    Raises:
        UserError: not all hosts are at this step.
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
            "Give an --output on a shared file system."
        )


@contextlib.contextmanager
def together(strategy: Any) -> Iterator[None]:
    """Turns the loss of a TensorFlow host within the block into a `UserError`."""
    if keras.backend.backend() != "tensorflow" or hosts(strategy).count == 1:
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

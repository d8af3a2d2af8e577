"""What every layer of the model shares: initializer, normalization, activations, dropout."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import keras
from keras import ops

from albert_tf.config import AlbertConfig

# A tensor of Keras' backend, eager or symbolic, or a NumPy array in its place. The backends' types
# have no common base, so that type checkers read it as `Any`; the name is for people.
Tensor: TypeAlias = Any

# Hugging Face's names: "gelu" is the exact form, "gelu_new" the tanh approximation.
ACTIVATION_FUNCTIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "gelu": lambda x: ops.gelu(x, approximate=False),
    "gelu_new": lambda x: ops.gelu(x, approximate=True),
    "relu": ops.relu,
    "silu": ops.silu,
    "swish": ops.silu,
    "tanh": ops.tanh,
}


class Dropout(keras.layers.Dropout):
    """Keras' dropout; `replayed` makes it drop the same places again.

    Each draw is told its seed: Keras' torch backend draws from torch's own generator otherwise,
    whose state no checkpoint of the model has.
    """

    seed_told: Any = None

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        if not training or self.rate == 0:
            return super().call(inputs, training)
        seed = self.seed_generator.next() if self.seed_told is None else self.seed_told
        return keras.random.dropout(inputs, self.rate, seed=_Given(seed))


class _Given(keras.random.SeedGenerator):
    """A seed generator without state: it gives one seed, which may be a tensor."""

    def __init__(self, seed: Any):
        self.seed = seed
        self._initial_seed = seed  # Keras' torch backend doesn't ask an unseeded generator

    def next(self, ordered: bool = True) -> Any:
        return self.seed


@contextlib.contextmanager
def replayed(dropouts: Sequence[Dropout], seeds: Sequence[Any]) -> Iterator[None]:
    """Within this context each dropout uses its seed, however often it is called."""
    try:
        for dropout, seed in zip(dropouts, seeds, strict=True):
            dropout.seed_told = seed
        yield
    finally:
        for dropout in dropouts:
            dropout.seed_told = None


def initializer(config: AlbertConfig) -> keras.initializers.Initializer:
    """Truncated normal with the configuration's standard deviation, as the original."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def dense(units: int, config: AlbertConfig, name: str, dtype: Any) -> keras.layers.Dense:
    """An affine map of the last axis to `units`."""
    return keras.layers.Dense(units, kernel_initializer=initializer(config), name=name, dtype=dtype)


def layer_norm(config: AlbertConfig, name: str, dtype: Any) -> keras.layers.LayerNormalization:
    """Layer norm of the last axis; Keras computes it in float32 under half precision."""
    return keras.layers.LayerNormalization(epsilon=config.layer_norm_eps, name=name, dtype=dtype)


def check_range(values: Any, size: Any, argument: str, limit: str, hint: str) -> None:
    """Refuses values outside `[0, size)`, where they are known; errors call these two by name."""
    known = _known(values)
    if known is not None and known.size and (known.min() < 0 or known.max() >= size):
        raise ValueError(
            f"{argument} must lie in [0, {limit}). "
            f"Received values from {known.min()} to {known.max()}, {limit}={size}. {hint}"
        )


def _known(values: Any) -> Any:
    """`values` as an array, or None while a graph is being traced."""
    try:
        return ops.convert_to_numpy(values)
    except (NotImplementedError, TypeError, ValueError, AttributeError):
        return None

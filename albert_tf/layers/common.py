"""The base class, `Tensor` type, dropout, and initializer that all layers use."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import keras
from keras import ops

from albert_tf.config import AlbertConfig

# An eager or symbolic tensor of the Keras backend, or a NumPy array. The backends have no common
# type, so type checkers see `Any`.
Tensor: TypeAlias = Any
Layer = TypeVar("Layer", bound="ConfiguredLayer")


class ShapesFromCall:
    """Mixin that infers output shapes from `call`, as wrappers such as `TimeDistributed` need."""

    takes_ids = False  # whether the inputs are int32

    def compute_output_shape(self, *input_shapes: Any) -> Any:
        """Returns the output shapes, in the same structure as the outputs.

        Args:
            *input_shapes: the shape of each input, or a dict of shapes if `call` takes a dict.
        """
        dtype = "int32" if self.takes_ids else "float32"
        inputs = [
            {name: keras.KerasTensor(each, dtype) for name, each in shape.items()}
            if isinstance(shape, Mapping)
            else keras.KerasTensor(shape, dtype)
            for shape in input_shapes
        ]
        outputs = self.compute_output_spec(*inputs)
        return keras.tree.map_structure(lambda output: output.shape, outputs)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        # Keras's own method would call `compute_output_shape`, which calls this one.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)


class ConfiguredLayer(ShapesFromCall, keras.layers.Layer):
    """Base class for layers with an `AlbertConfig`, which is saved with the layer.

    Args:
        config: an `AlbertConfig`.
        **kwargs: `dtype`, `name`, and `trainable`, as in `keras.layers.Layer`.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = config

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        """The shape of the first output, which `summary()` prints. Default: `[B, T, H]`."""
        return None, None, self.config.hidden_size

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "config": self.config.to_dict()}

    @classmethod
    def from_config(cls: type[Layer], config: dict[str, Any]) -> Layer:
        return cls(**{**config, "config": AlbertConfig.from_dict(config["config"])})


class Dropout(keras.layers.Dropout):
    """Dropout with an explicit seed for each draw, so that `replay_seeds` can repeat the draw.

    Without a seed, the torch backend would draw from torch's global generator, whose state isn't
    saved in checkpoints.
    """

    replayed_seed: Tensor = None

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if not training or self.rate == 0:
            return super().call(inputs, training)
        seed = self.replayed_seed
        if seed is None:
            seed = self.seed_generator.next()
        return keras.random.dropout(inputs, self.rate, seed=_FixedSeed(seed))


class _FixedSeed(keras.random.SeedGenerator):
    """A stateless seed generator that always returns the same seed, which may be a tensor."""

    def __init__(self, seed: Tensor):
        self.seed = seed
        self._initial_seed = seed  # Keras's torch backend ignores unseeded generators

    def next(self, ordered: bool = True) -> Tensor:
        return self.seed


@contextlib.contextmanager
def replay_seeds(dropouts: Sequence[Dropout], seeds: Sequence[Tensor]) -> Iterator[None]:
    """Within this context, every call to `dropouts[i]` uses `seeds[i]`."""
    try:
        for dropout, seed in zip(dropouts, seeds, strict=True):
            dropout.replayed_seed = seed
        yield
    finally:
        for dropout in dropouts:
            dropout.replayed_seed = None


def initializer(config: AlbertConfig) -> keras.initializers.Initializer:
    """Returns the model's truncated normal initializer."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def dense(
    units: int,
    config: AlbertConfig,
    name: str,
    dtype: Any,
    activation: Callable[[Tensor], Tensor] | None = None,
) -> keras.layers.Dense:
    """Returns a `Dense` layer with the model's initializer."""
    return keras.layers.Dense(
        units, activation, kernel_initializer=initializer(config), name=name, dtype=dtype
    )


def as_rows(hidden: Tensor) -> Tensor:
    """Reshapes `[B, T, H]` to `[B·T, H]`, so that TensorFlow fuses the matmul, bias, and GELU."""
    return ops.reshape(hidden, (-1, hidden.shape[-1]))

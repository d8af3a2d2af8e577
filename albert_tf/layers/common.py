"""Building blocks of all layers: base class, `Tensor`, dropout, ALBERT's initializer."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import keras
from keras import ops

from albert_tf.config import AlbertConfig

# A tensor of Keras' backend, eager or symbolic, or a NumPy array in its place. The backends' types
# have no common base, so that type checkers read it as `Any`; the name is for people.
Tensor: TypeAlias = Any
Layer = TypeVar("Layer", bound="ConfiguredLayer")


class ShapesFromCall:
    """Mixin: derives the shapes of outputs from `call`, as `keras.layers.TimeDistributed` asks."""

    takes_ids = False  # whether the inputs are int32

    def compute_output_shape(self, *input_shapes: Any) -> Any:
        """Returns the shapes of the outputs, in their structure.

        Args:
            *input_shapes: the shape of each input, or a dict of them, as `call` takes its inputs.
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
        # Keras' layers would ask `compute_output_shape`.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)


class ConfiguredLayer(ShapesFromCall, keras.layers.Layer):
    """A layer made from an `AlbertConfig`, which is saved with it.

    Args:
        config: sizes and probabilities.
        **kwargs: those of `keras.layers.Layer`: `dtype`, `name`, `trainable`.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = config

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        """For `summary()`: `[B, T, H]`, or the first output's shape."""
        return None, None, self.config.hidden_size

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "config": self.config.to_dict()}

    @classmethod
    def from_config(cls: type[Layer], config: dict[str, Any]) -> Layer:
        return cls(**{**config, "config": AlbertConfig.from_dict(config["config"])})


class Dropout(keras.layers.Dropout):
    """Keras' dropout with an explicit seed for each draw, which `replayed` can repeat.

    Without a seed, Keras' torch backend draws from torch's global generator, whose state no
    checkpoint of the model contains.
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
    """A seed generator without state: it returns one seed, which may be a tensor."""

    def __init__(self, seed: Tensor):
        self.seed = seed
        self._initial_seed = seed  # Keras' torch backend doesn't ask an unseeded generator

    def next(self, ordered: bool = True) -> Tensor:
        return self.seed


@contextlib.contextmanager
def replayed(dropouts: Sequence[Dropout], seeds: Sequence[Tensor]) -> Iterator[None]:
    """Within this context each dropout uses its seed at every call."""
    try:
        for dropout, seed in zip(dropouts, seeds, strict=True):
            dropout.replayed_seed = seed
        yield
    finally:
        for dropout in dropouts:
            dropout.replayed_seed = None


def initializer(config: AlbertConfig) -> keras.initializers.Initializer:
    """Truncated normal with the configuration's standard deviation, as in the original."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def dense(
    units: int,
    config: AlbertConfig,
    name: str,
    dtype: Any,
    activation: Callable[[Tensor], Tensor] | None = None,
) -> keras.layers.Dense:
    """A `Dense` layer with the configuration's initializer."""
    return keras.layers.Dense(
        units, activation, kernel_initializer=initializer(config), name=name, dtype=dtype
    )


def as_rows(hidden: Tensor) -> Tensor:
    """`[B, T, H]` to `[B·T, H]`, where TensorFlow fuses a product with its bias and gelu."""
    return ops.reshape(hidden, (-1, hidden.shape[-1]))

"""The factorized embedding (matrices of width E, then a projection to H), and its id checks.

A model checks ids once, in its outermost call or at the start of `fit`, before they move to a
device. A check in a layer would copy ids back from the device in every lookup. On torch, this would
wait for all queued work. In graphs, where values are unknown during tracing, the lookup itself
rejects out-of-range ids (see `rows_at`).
"""

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final

import keras
import numpy as np
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.common import (
    ConfiguredLayer,
    Dropout,
    ShapesFromCall,
    Tensor,
    dense,
    initializer,
)
from albert_tf.layers.functions import layer_norm

# For each input, the config field with its upper bound (exclusive).
LIMITS: Final = {
    "input_ids": "vocab_size",
    "token_type_ids": "type_vocab_size",
    "position_ids": "max_position_embeddings",
}
_trusted: Final[ContextVar[bool]] = ContextVar("inputs have been checked", default=False)


@keras.saving.register_keras_serializable("albert_tf")
class FactorizedEmbedding(ConfiguredLayer):
    """Sums word, position, and type embeddings of width E, normalizes the sum, and projects to H.

    Call arguments:
        input_ids: int `[B, T]`, each in `[0, vocab_size)`; or None if `inputs_embeds` is passed.
        token_type_ids: int `[B, T]`, each in `[0, type_vocab_size)`. Default: all 0.
        position_ids: int `[B, T]` or `[1, T]`, each in `[0, max_position_embeddings)`. Default:
            0, 1, ….
        inputs_embeds: float `[B, T, E]`, used instead of the word embeddings of `input_ids`.
    Returns:
        `[B, T, H]` in the layer's compute dtype.
    Source: ALBERT, arXiv 1909.11942, section 3.1.
    """

    takes_ids = True

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.layer_norm = layer_norm(config, "layer_norm", self.dtype_policy)
        self.dropout = Dropout(config.hidden_dropout_prob, dtype=self.dtype_policy)
        self.projection = dense(config.hidden_size, config, "projection", self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.add_variables()
        embedded = (None, None, self.config.embedding_size)
        self.layer_norm.build(embedded)
        self.projection.build(embedded)

    def add_variables(self) -> None:
        """Creates the three embedding matrices."""
        self.word_embeddings = self._table("word_embeddings", self.config.vocab_size)
        self.position_embeddings = self._table(
            "position_embeddings", self.config.max_position_embeddings
        )
        self.token_type_embeddings = self._table(
            "token_type_embeddings", self.config.type_vocab_size
        )

    @property
    def weight(self) -> keras.Variable:
        """The word embedding matrix `[V, E]`."""
        return self.word_embeddings

    def call(
        self,
        input_ids: Tensor = None,
        token_type_ids: Tensor = None,
        position_ids: Tensor = None,
        inputs_embeds: Tensor = None,
        training: bool | None = None,
    ) -> Tensor:
        if inputs_embeds is None:
            words = word_lookup.get()(self.word_embeddings, input_ids)
        else:
            words = inputs_embeds
        if token_type_ids is None:
            types = self.token_type_embeddings[:1]
        else:
            types = lookup(self.token_type_embeddings, token_type_ids)
        if position_ids is None:
            positions = first_rows(self.position_embeddings, ops.shape(words)[1])
        else:
            positions = lookup(self.position_embeddings, position_ids)
        embedded = self.layer_norm(words + positions + types)
        return self.projection(self.dropout(embedded, training=training))

    def tied_table(self) -> Tensor:
        """Returns the word embedding matrix `[V, E]` for the masked-LM head."""
        return ops.multiply(self.word_embeddings, 1.0)

    def _table(self, name: str, rows: int) -> keras.Variable:
        shape = (rows, self.config.embedding_size)
        return self.add_weight(name=name, shape=shape, initializer=initializer(self.config))


class WordEmbeddings(ShapesFromCall, keras.layers.Layer):
    """Looks up word embeddings in a `FactorizedEmbedding`, which owns the weights.

    Args:
        embedding: the layer that owns the matrix.
    Call arguments:
        input_ids: int `[B, T]` or any other shape, each in `[0, vocab_size)`.
    Returns:
        `[B, T, E]`, the `inputs_embeds` of a model.
    """

    takes_ids = True

    def __init__(self, embedding: FactorizedEmbedding):
        super().__init__(name="word_embeddings", dtype=embedding.dtype_policy)
        self.embedding = embedding
        self.built = True

    @property
    def weight(self) -> keras.Variable:
        """The word embedding matrix `[V, E]`."""
        return self.embedding.word_embeddings

    def get_config(self) -> dict[str, Any]:
        raise ValueError(
            "A functional model with a get_input_embeddings layer can't be saved, because the "
            "loaded layer wouldn't share its weights with the model. Call save_weights instead. "
            "To load the weights, create the model again and call load_weights."
        )

    def __call__(self, input_ids: Tensor, **kwargs: Any) -> Tensor:
        if not is_trusted():
            check_ids(self.embedding.config, {"input_ids": input_ids})
        return super().__call__(input_ids, **kwargs)

    def call(self, input_ids: Tensor) -> Tensor:
        return lookup(self.weight, input_ids)


def lookup(table: Tensor, ids: Tensor) -> Tensor:
    """Returns the rows of `table` `[N, E]` for int `ids` of any shape.

    The gradient is dense, and repeated rows are summed. Without the multiplication by 1, TensorFlow
    would return IndexedSlices. Adam and LAMB would then square repeated rows separately, and the
    global norm would be wrong.
    """
    return rows_at(ops.multiply(table, 1.0), whole_numbers(ids))


# The function that `FactorizedEmbedding` uses to look up words. Exports with an 8-bit embedding
# matrix replace it.
word_lookup: Final = ContextVar("word lookup", default=lookup)


def first_rows(table: Tensor, length: int | Tensor) -> Tensor:
    """Returns the first `length` rows of `table` `[N, E]`, with a dense gradient.

    TensorFlow uses a slice, because a gather has a sparse gradient and a larger graph. JAX and
    torch use a gather, because a slice requires a known length of at most N.
    """
    if keras.backend.backend() == "tensorflow":
        return table[:length]
    return ops.take(table, ops.arange(length), axis=0)


@contextlib.contextmanager
def trusted() -> Iterator[None]:
    """Within this context, models and layers don't check their inputs."""
    token = _trusted.set(True)
    try:
        yield
    finally:
        _trusted.reset(token)


def is_trusted() -> bool:
    """Returns whether the inputs of the outermost call have been checked."""
    return _trusted.get()


def check_ids(config: AlbertConfig, inputs: Mapping[str, Tensor]) -> None:
    """Checks that all ids in the inputs are integers in their range.

    `masked_lm_positions` must be less than the sequence length. None and symbolic tensors are
    accepted.
    """
    for name, limit in LIMITS.items():
        hint = "Does the tokenizer match the model?"
        _check_range(inputs.get(name), name, limit, getattr(config, limit), hint)
    ids, embedded = inputs.get("input_ids"), inputs.get("inputs_embeds")
    shape = getattr(ids, "shape", None) or getattr(embedded, "shape", (None, None))[:-1]
    positions, length = inputs.get("masked_lm_positions"), shape[-1] if shape else None
    _check_range(positions, "masked_lm_positions", "length", length, "Pad with 0.")


def whole_numbers(values: Tensor) -> Tensor:
    """Casts values to int32. Values that the cast would change become -1, an invalid id."""
    numbers = ops.cast(values, "int32")
    if keras.backend.standardize_dtype(values.dtype) == "int32":
        return numbers
    return ops.where(ops.equal(ops.cast(numbers, values.dtype), values), numbers, -1)


def rows_at(table: Tensor, ids: Tensor, batch_dims: int = 0) -> Tensor:
    """Returns the rows of `table` at int32 `ids`, which must be valid indices.

    Unlike in `keras.ops.take`, -1 doesn't refer to the last row. An out-of-range id (including -1)
    raises an error on torch and in the CPU kernels of TensorFlow and LiteRT. For such an id, JAX
    returns NaN, TensorFlow's GPU kernel returns 0, and XLA returns the nearest row.

    Args:
        table: `[N, E]`, or `[B, N, E]` with `batch_dims=1`.
        ids: `[B, T]`.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.gather(table, ids, batch_dims=batch_dims)
    outside = ops.shape(table)[batch_dims]
    ids = ops.where(ids < 0, outside, ids)
    if batch_dims:
        return ops.take_along_axis(table, ops.expand_dims(ids, -1), axis=1)
    return ops.take(table, ids, axis=0)


def _check_range(values: Tensor, name: str, limit: str, size: int | None, hint: str) -> None:
    known = known_values(values) if isinstance(size, int) else None
    if known is not None and known.size and (known.min() < 0 or known.max() >= size):
        raise ValueError(
            f"{name} must be in [0, {limit}), with {limit}={size}. "
            f"Received: values from {known.min()} to {known.max()}. {hint}"
        )
    reject_fractions(name, known)


def reject_fractions(name: str, values: Any) -> None:
    """Rejects float arrays with fractional values, which a lookup would truncate."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        fractions = values[values != np.floor(values)]
        if fractions.size:
            raise ValueError(f"{name} must be whole numbers. Received: {fractions[0]}.")


def known_values(values: Tensor) -> np.ndarray | None:
    """Returns values as an array, or None if they are symbolic or None."""
    if values is None or isinstance(values, np.ndarray):
        return values
    try:
        return ops.convert_to_numpy(values)
    except (NotImplementedError, TypeError, ValueError, AttributeError):
        return None

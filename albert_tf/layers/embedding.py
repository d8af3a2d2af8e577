"""The factorized embedding: tables of width E, then one projection to H; and checks of its ids.

A model checks ids once, in its outermost call or at the start of `fit`, before they move to a
device. A check inside a layer would copy ids back from the device at every lookup, and torch would
wait for all work queued before it. In graphs, where values are unknown during tracing, the lookup
itself rejects them (`rows_at`).
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

# For each input, the field of the configuration that its values stay below.
LIMITS: Final = {
    "input_ids": "vocab_size",
    "token_type_ids": "type_vocab_size",
    "position_ids": "max_position_embeddings",
}
_trusted: Final[ContextVar[bool]] = ContextVar("inputs have been checked", default=False)


@keras.saving.register_keras_serializable("albert_tf")
class FactorizedEmbedding(ConfiguredLayer):
    """Looks ids up in E dimensions, adds position and type, normalizes, then projects to H.

    Call arguments:
        input_ids: int `[B, T]`, each in `[0, vocab_size)`; or None with `inputs_embeds`.
        token_type_ids: int `[B, T]`, each in `[0, type_vocab_size)`; None means all 0.
        position_ids: int `[B, T]` or `[1, T]`, each in `[0, max_position_embeddings)`; None means
            0, 1, ….
        inputs_embeds: float `[B, T, E]`, used instead of the word table's rows.
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
        """Makes the three tables."""
        self.word_embeddings = self._table("word_embeddings", self.config.vocab_size)
        self.position_embeddings = self._table(
            "position_embeddings", self.config.max_position_embeddings
        )
        self.token_type_embeddings = self._table(
            "token_type_embeddings", self.config.type_vocab_size
        )

    @property
    def weight(self) -> keras.Variable:
        """The word table `[V, E]`."""
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
        """The word table `[V, E]`, for the head that predicts words with it."""
        return ops.multiply(self.word_embeddings, 1.0)

    def _table(self, name: str, rows: int) -> keras.Variable:
        shape = (rows, self.config.embedding_size)
        return self.add_weight(name=name, shape=shape, initializer=initializer(self.config))


class WordEmbeddings(ShapesFromCall, keras.layers.Layer):
    """Looks ids up in the word table of a `FactorizedEmbedding`, and does no more.

    Its weights, and whether they train, are the embedding's.

    Args:
        embedding: the layer with the table.
    Call arguments:
        input_ids: int `[B, T]`, or of any shape, each in `[0, vocab_size)`.
    Returns:
        `[B, T, E]`, which models take as `inputs_embeds`.
    """

    takes_ids = True

    def __init__(self, embedding: FactorizedEmbedding):
        super().__init__(name="word_embeddings", dtype=embedding.dtype_policy)
        self.embedding = embedding
        self.built = True

    @property
    def weight(self) -> keras.Variable:
        """The word table `[V, E]`."""
        return self.embedding.word_embeddings

    def get_config(self) -> dict[str, Any]:
        raise ValueError(
            "A functional model can't be saved with a layer of get_input_embeddings: loaded again, "
            "the layer and its model would have two tables. Save with save_weights, and make the "
            "model again before load_weights."
        )

    def __call__(self, input_ids: Tensor, **kwargs: Any) -> Tensor:
        if not is_trusted():
            check_ids(self.embedding.config, {"input_ids": input_ids})
        return super().__call__(input_ids, **kwargs)

    def call(self, input_ids: Tensor) -> Tensor:
        return lookup(self.weight, input_ids)


def lookup(table: Tensor, ids: Tensor) -> Tensor:
    """Returns the rows of `table` `[N, E]` for int `ids` of any shape.

    The table's gradient is dense, with repeated rows summed. Without the product by 1 it would be
    TensorFlow's IndexedSlices, whose repeated rows Adam and LAMB square one by one, and whose
    global norm is wrong.
    """
    return rows_at(ops.multiply(table, 1.0), whole_numbers(ids))


# How a `FactorizedEmbedding` reads its word table; an export may store it in 8 bits.
word_lookup: Final = ContextVar("the lookup of words in their table", default=lookup)


def first_rows(table: Tensor, length: int | Tensor) -> Tensor:
    """Returns the rows 0 to `length` of `table` `[N, E]`, with a dense gradient.

    On TensorFlow a slice: gathered rows have a sparse gradient and make a larger graph. On JAX and
    torch rows are gathered: a slice needs a known length, and one that isn't above N.
    """
    if keras.backend.backend() == "tensorflow":
        return table[:length]
    return ops.take(table, ops.arange(length), axis=0)


@contextlib.contextmanager
def trusted() -> Iterator[None]:
    """Within this context models and layers don't check their inputs again."""
    token = _trusted.set(True)
    try:
        yield
    finally:
        _trusted.reset(token)


def is_trusted() -> bool:
    """Whether the current call is part of one whose inputs have been checked."""
    return _trusted.get()


def check_ids(
    config: AlbertConfig, inputs: Mapping[str, Tensor], length: int | None = None
) -> None:
    """Checks that ids are whole numbers in their ranges; None and symbolic tensors pass.

    Args:
        config: has the limits.
        inputs: a call's inputs by name.
        length: number of tokens in a sequence, which `masked_lm_positions` stay below.
    Raises:
        ValueError: an id is out of range.
    """
    for name, limit in LIMITS.items():
        hint = "Do the tokenizer and the model belong together?"
        _check_range(inputs.get(name), name, limit, getattr(config, limit), hint)
    _check_range(
        inputs.get("masked_lm_positions"), "masked_lm_positions", "length", length, "Pad with 0."
    )


def whole_numbers(values: Tensor) -> Tensor:
    """Returns values in int32; a fraction is -1, which is outside every table and all classes."""
    numbers = ops.cast(values, "int32")
    if "int" in keras.backend.standardize_dtype(values.dtype):
        return numbers
    return ops.where(ops.equal(ops.cast(numbers, values.dtype), values), numbers, -1)


def rows_at(table: Tensor, ids: Tensor, batch_dims: int = 0) -> Tensor:
    """Returns the rows of `table` at int32 `ids`, which must lie within it.

    Keras' `take` reads -1 as the last row. Here an id outside the table, negative ones included, is
    an error on TensorFlow's and LiteRT's CPU kernels and on torch, gives NaN on JAX, and zeros on
    TensorFlow's GPU kernel; XLA takes the nearest row.

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
            f"{name} must lie in [0, {limit}). "
            f"Received values from {known.min()} to {known.max()}, {limit}={size}. {hint}"
        )
    reject_fractions(name, known)


def reject_fractions(name: str, values: Any) -> None:
    """Refuses an array of ids that aren't whole numbers: a lookup would cut them."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        fractions = values[values != np.floor(values)]
        if fractions.size:
            raise ValueError(f"{name} must be whole numbers. Received: {fractions[0]}.")


def known_values(values: Tensor) -> np.ndarray | None:
    """`values` as an array, or None where there are none or a graph is being traced."""
    if values is None or isinstance(values, np.ndarray):
        return values
    try:
        return ops.convert_to_numpy(values)
    except (NotImplementedError, TypeError, ValueError, AttributeError):
        return None

"""The pooler and the task heads."""

from typing import Any, Final

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.common import ConfiguredLayer, Dropout, Tensor, dense, initializer
from albert_tf.layers.embedding import rows_at, whole_numbers
from albert_tf.layers.functions import activation, layer_norm
from albert_tf.tasks import BEAM

IMPOSSIBLE: Final = -1e30  # float32 logit of positions where an answer can't start or end
DROPOUT: Final = 0.1  # dropout rate before the answerability score


def pooler(config: AlbertConfig, dtype: Any) -> keras.layers.Dense:
    """Returns BERT's pooler: a dense layer with tanh for the first token's state `[B, H]`."""
    return dense(config.hidden_size, config, "pooler", dtype, ops.tanh)


def in_float32(logits: Tensor) -> Tensor:
    """Casts logits to float32, unless their dtype is wider."""
    return ops.cast(logits, keras.backend.result_type(logits.dtype, "float32"))


def at_positions(hidden: Tensor, positions: Tensor) -> Tensor:
    """Gathers `[B, P, H]` from `hidden` `[B, T, H]` at int `positions` `[B, P]`."""
    return rows_at(hidden, whole_numbers(positions), batch_dims=1)


@keras.saving.register_keras_serializable("albert_tf")
class ClassificationHead(ConfiguredLayer):
    """Applies dropout, then a dense layer with one logit per class.

    Args:
        config: an `AlbertConfig`.
        units: C, the number of classes.
    Call arguments:
        hidden: `[B, H]`, or `[B, T, H]` to classify every token.
    Returns:
        `[B, C]` or `[B, T, C]`, float32 even in half precision.
    """

    def __init__(self, config: AlbertConfig, units: int, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.units = units
        self.dropout = Dropout(config.classifier_dropout_prob, dtype=self.dtype_policy)
        self.dense = dense(units, config, "dense", self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.dense.build((None, self.config.hidden_size))

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        return None, self.units

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}

    def call(self, hidden: Tensor, training: bool | None = None) -> Tensor:
        return in_float32(self.dense(self.dropout(hidden, training=training)))


@keras.saving.register_keras_serializable("albert_tf")
class MaskedLMHead(ConfiguredLayer):
    """Projects to E dimensions, then scores the whole vocabulary with the word embedding matrix.

    Call arguments:
        hidden: `[B, T, H]`.
        word_embeddings: `[V, E]`, the word embedding matrix, to which the head is tied.
        positions: int `[B, P]`, the positions to score. Default: all positions.
    Returns:
        `[B, P, V]` or `[B, T, V]`, float32 even in half precision.
    Source: BERT, arXiv 1810.04805, section 3.1; google-research/albert, run_pretraining.py.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        function = activation(config, self.dtype_policy)
        self.dense = dense(config.embedding_size, config, "dense", self.dtype_policy, function)
        self.layer_norm = layer_norm(config, "layer_norm", self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.dense.build((None, None, self.config.hidden_size))
        self.layer_norm.build((None, None, self.config.embedding_size))
        self.add_variables()

    def add_variables(self) -> None:
        """Creates the bias `[V]`."""
        self.bias = self.add_weight(
            name="bias", shape=(self.config.vocab_size,), initializer="zeros"
        )

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        return None, None, self.config.vocab_size

    def call(self, hidden: Tensor, word_embeddings: Tensor, positions: Tensor = None) -> Tensor:
        if positions is not None:
            hidden = at_positions(hidden, positions)
        transformed = self.layer_norm(self.dense(hidden))
        logits = ops.matmul(transformed, ops.transpose(word_embeddings))
        return in_float32(logits) + in_float32(self.bias)


@keras.saving.register_keras_serializable("albert_tf")
class SpanHead(ConfiguredLayer):
    """Computes two logits per position, for the start and the end of an answer.

    Call arguments:
        hidden: `[B, T, H]`.
    Returns:
        `(start_logits, end_logits)`, each `[B, T]`, float32 even in half precision.
    Source: BERT, arXiv 1810.04805, section 4.2.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.dense = dense(2, config, "dense", self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.dense.build((None, None, self.config.hidden_size))

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        return None, None

    def call(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        logits = in_float32(self.dense(hidden))
        return logits[..., 0], logits[..., 1]


class _FloatDense(keras.layers.Dense):
    """A `Dense` layer that `model.quantize` skips, because `AnswerSpans` uses its kernel."""

    def quantize(self, *args: Any, **kwargs: Any) -> None:
        return


@keras.saving.register_keras_serializable("albert_tf")
class AnswerSpans(ConfiguredLayer):
    """The original SQuAD 2.0 head, with end logits conditioned on the start.

    Call arguments:
        hidden: `[B, T, H]`.
        p_mask: float `[B, T]`, 1 where an answer can't start or end.
        start_positions: int `[B]`, the true start positions, used in training. Default: the five
            best start positions.
    Returns:
        A dict of float32 tensors (int32 for indices):

        - `cls_logits` `[B]`, higher for unanswerable questions.
        - With `start_positions`: `start_log_probs` and `end_log_probs` `[B, T]`.
        - Otherwise: `start_top_log_probs` and `start_top_index` `[B, 5]` for the five best start
          positions; `end_top_log_probs` and `end_top_index` `[B, 25]` for the five best end
          positions of each start position, in the same order.
    Source: google-research/albert, run_squad_v2.py; first used in XLNet, arXiv 1906.08237.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        hidden, policy = config.hidden_size, self.dtype_policy
        self.start = dense(1, config, "start", policy)
        self.end_0 = _FloatDense(
            hidden, kernel_initializer=initializer(config), name="end_0", dtype=policy
        )
        self.layer_norm = layer_norm(config, "layer_norm", policy)
        self.end_1 = dense(1, config, "end_1", policy)
        self.answer_0 = dense(hidden, config, "answer_0", policy)
        self.dropout = Dropout(DROPOUT, dtype=policy)
        self.answer_1 = dense(1, config, "answer_1", policy)
        self.answer_1.use_bias = False

    def build(self, input_shape: Any = None) -> None:
        one, two = (None, self.config.hidden_size), (None, 2 * self.config.hidden_size)
        for layer in (self.start, self.layer_norm, self.end_1, self.answer_1):
            layer.build(one)
        for layer in (self.end_0, self.answer_0):
            layer.build(two)

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        return None, BEAM

    def call(
        self,
        hidden: Tensor,
        p_mask: Tensor,
        start_positions: Tensor = None,
        training: bool | None = None,
    ) -> dict[str, Tensor]:
        mask = in_float32(p_mask)
        start_logits = _masked_logits(in_float32(self.start(hidden))[..., 0], mask)
        start_log_probs = ops.log_softmax(start_logits)
        cls_logits = self._unanswerable(hidden, ops.softmax(start_logits), training)
        if start_positions is not None:
            start = ops.reshape(start_positions, (-1, 1))
            start = ops.maximum(ops.minimum(start, ops.shape(hidden)[1] - 1), 0)
            end_log_probs = self._ends(hidden, at_positions(hidden, start), mask)[:, 0]
            return {
                "start_log_probs": start_log_probs,
                "end_log_probs": end_log_probs,
                "cls_logits": cls_logits,
            }
        length = hidden.shape[1]  # if unknown, None (on JAX, a symbol)
        beam = min(BEAM, length) if isinstance(length, int) else BEAM
        start_top, start_index = _top(start_log_probs, beam)
        end_top, end_index = _top(self._ends(hidden, at_positions(hidden, start_index), mask), beam)
        return {
            "start_top_log_probs": start_top,
            "start_top_index": ops.cast(start_index, "int32"),
            "end_top_log_probs": ops.reshape(end_top, (-1, beam * beam)),
            "end_top_index": ops.cast(ops.reshape(end_index, (-1, beam * beam)), "int32"),
            "cls_logits": cls_logits,
        }

    def _ends(self, hidden: Tensor, starts: Tensor, mask: Tensor) -> Tensor:
        """Returns end log probabilities `[B, K, T]`, given the states of K start positions."""
        # The dense layer on [state; start state] is computed as a sum of two matmuls, which avoids
        # a tensor of all pairs.
        of_end, of_start = ops.split(ops.convert_to_tensor(self.end_0.kernel), 2)
        ends = ops.expand_dims(ops.matmul(hidden, of_end), 1)
        starts = ops.expand_dims(ops.matmul(starts, of_start), 2)
        transformed = self.layer_norm(ops.tanh(ends + starts + self.end_0.bias))
        # In Keras 3.12, `Dense(1)` writes out of bounds if its input has four axes.
        rows = ops.reshape(transformed, (-1, transformed.shape[-1]))
        logits = ops.reshape(in_float32(self.end_1(rows)), ops.shape(transformed)[:-1])
        return ops.log_softmax(_masked_logits(logits, ops.expand_dims(mask, 1)))

    def _unanswerable(
        self, hidden: Tensor, start_probabilities: Tensor, training: bool | None
    ) -> Tensor:
        """Computes `cls_logits` `[B]` from the expected start state and the `[CLS]` state."""
        weights = ops.expand_dims(ops.cast(start_probabilities, hidden.dtype), 1)
        expected = ops.matmul(weights, hidden)[:, 0]
        features = ops.concatenate([expected, hidden[:, 0]], axis=-1)
        transformed = self.dropout(ops.tanh(self.answer_0(features)), training=training)
        return in_float32(self.answer_1(transformed))[:, 0]


def _masked_logits(logits: Tensor, mask: Tensor) -> Tensor:
    return logits * (1.0 - mask) + IMPOSSIBLE * mask


def _top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns the top `count` scores along the last axis and their indices.

    Ties keep their order.
    """
    if keras.backend.backend() == "tensorflow":
        return ops.top_k(scores, count)
    # On torch, top_k breaks ties at random. On JAX, it requires a known length.
    indices = ops.take(ops.argsort(-scores), ops.arange(count), axis=-1)
    return ops.take_along_axis(scores, indices, axis=-1), indices

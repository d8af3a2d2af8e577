"""The original's head for SQuAD 2.0: an end that depends on the start, and whether to answer."""

from typing import Any, Final

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.common import (
    ConfiguredLayer,
    Dropout,
    Tensor,
    dense,
    initializer,
)
from albert_tf.layers.functions import layer_norm
from albert_tf.layers.heads import at_positions, in_float32

IMPOSSIBLE: Final = -1e30  # logit of a position where no answer may be; float32
BEAM: Final = 5  # number of starts, and of ends for each start
DROPOUT: Final = 0.1  # before the answerable score


class _Affine(keras.layers.Dense):
    """Keeps its floats where a model is quantized, because its kernel is read and not applied."""

    def quantize(self, *args: Any, **kwargs: Any) -> None:
        return


@keras.saving.register_keras_serializable("albert_tf")
class AnswerSpans(ConfiguredLayer):
    """Scores starts, then ends given a start, and whether the question has an answer at all.

    Call arguments:
        hidden: `[B, T, H]`.
        p_mask: float `[B, T]`, 1 where no answer may start or end.
        start_positions: int `[B]`, the true starts, for training; None takes the five best starts.
    Returns:
        A dict of float32 (indices int32). `cls_logits` `[B]` is higher for questions without an
        answer. With `start_positions`: `start_log_probs` and `end_log_probs` `[B, T]`. Without:
        `start_top_log_probs` and `start_top_index` `[B, 5]`, and five ends for each start in turn,
        `end_top_log_probs` and `end_top_index` `[B, 25]`.
    Source: google-research/albert, run_squad_v2.py; the idea is XLNet's, arXiv 1906.08237.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        hidden, policy = config.hidden_size, self.dtype_policy
        self.start = dense(1, config, "start", policy)
        self.end_0 = _Affine(
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
        start_logits = _possible(in_float32(self.start(hidden))[..., 0], mask)
        start_log_probs = ops.log_softmax(start_logits)
        cls_logits = self._unanswerable(hidden, ops.softmax(start_logits), training)
        if start_positions is not None:
            start = ops.reshape(ops.cast(start_positions, "int32"), (-1, 1))
            start = ops.clip(start, 0, ops.shape(hidden)[1] - 1)
            end_log_probs = self._ends(hidden, at_positions(hidden, start), mask)[:, 0]
            return {
                "start_log_probs": start_log_probs,
                "end_log_probs": end_log_probs,
                "cls_logits": cls_logits,
            }
        length = hidden.shape[1]  # None, or a symbol on JAX, where it isn't known
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
        """Log probabilities `[B, K, T]` of ends given the states `[B, K, H]` of K starts."""
        # The affine map of [state; start's state] as a sum, without a tensor of all pairs.
        of_end, of_start = ops.split(ops.convert_to_tensor(self.end_0.kernel), 2)
        ends = ops.expand_dims(ops.matmul(hidden, of_end), 1)
        starts = ops.expand_dims(ops.matmul(starts, of_start), 2)
        transformed = self.layer_norm(ops.tanh(ends + starts + self.end_0.bias))
        # On two axes: with Keras 3.12 a `Dense(1)` of four writes beyond its memory.
        rows = ops.reshape(transformed, (-1, transformed.shape[-1]))
        logits = ops.reshape(in_float32(self.end_1(rows)), ops.shape(transformed)[:-1])
        return ops.log_softmax(_possible(logits, ops.expand_dims(mask, 1)))

    def _unanswerable(
        self, hidden: Tensor, start_probabilities: Tensor, training: bool | None
    ) -> Tensor:
        """`[B]` from the expected state of the start and the state of `[CLS]`."""
        weights = ops.expand_dims(ops.cast(start_probabilities, hidden.dtype), 1)
        expected = ops.matmul(weights, hidden)[:, 0]
        features = ops.concatenate([expected, hidden[:, 0]], axis=-1)
        transformed = self.dropout(ops.tanh(self.answer_0(features)), training=training)
        return in_float32(self.answer_1(transformed))[:, 0]


def _possible(logits: Tensor, mask: Tensor) -> Tensor:
    return logits * (1.0 - mask) + IMPOSSIBLE * mask


def _top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The highest `count` scores of the last axis and their indices; ties go to the first."""
    if keras.backend.backend() == "tensorflow":
        return ops.top_k(scores, count)
    # torch's top_k breaks ties at random, and JAX's needs a known length.
    indices = ops.take(ops.argsort(-scores), ops.arange(count), axis=-1)
    return ops.take_along_axis(scores, indices, axis=-1), indices

"""The encoder: a block with attention and a feed-forward network, applied L times."""

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import keras
from keras import ops

from albert_tf.config import AlbertConfig, group_schedule
from albert_tf.layers.common import (
    ConfiguredLayer,
    Dropout,
    ShapesFromCall,
    Tensor,
    as_rows,
    dense,
    replay_seeds,
)
from albert_tf.layers.functions import activation, layer_norm
from albert_tf.layers.tracing import traced_once


def apply_layers(
    apply: Callable[..., Any], groups: Sequence[Any], schedule: Sequence[int], hidden: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """Runs the L layers of ALBERT. Layer i applies the blocks of group `schedule[i]`.

    In the published models, `schedule` is `[0] * L`: every layer applies the same block.
    """
    hidden_states: list[Tensor] = [hidden]
    attentions: list[Tensor] = []
    for group in schedule:
        for block in groups[group]:
            hidden, probabilities = apply(block, hidden, len(attentions))
            hidden_states.append(hidden)
            attentions.append(probabilities)
    return hidden_states, attentions


Unroll: TypeAlias = bool | Literal["last"]
# Value from google-research/albert. It fits into float16, and its exponential is 0 in float32.
MASKED: Final = -10000.0


def attention_bias(attention_mask: Tensor, dtype: str) -> Tensor:
    """Returns a bias for the attention scores: 0 for keys to attend to, `MASKED` for the others.

    Args:
        attention_mask: `[B, T]` for keys, or `[B, T, T]` for queries and keys: 1 for positions to
            attend to, 0 for masked ones.
        dtype: dtype of the result, float32 or wider.
    Returns:
        `[B, 1, 1, T]` or `[B, 1, T, T]`.
    """
    mask = ops.expand_dims(ops.cast(attention_mask, dtype), 1)
    if len(attention_mask.shape) == 2:
        mask = ops.expand_dims(mask, 1)
    elif len(attention_mask.shape) != 3:
        raise ValueError(
            "attention_mask must have shape [batch, length] or [batch, length, length]. "
            f"Received shape {tuple(attention_mask.shape)}."
        )
    return (1.0 - mask) * MASKED


@keras.saving.register_keras_serializable("albert_tf")
class SelfAttention(ConfiguredLayer):
    """Multi-head self-attention with output projection, residual connection, and layer norm.

    The matmuls are written out because `keras.ops.dot_product_attention` is slower on CPUs. A
    fused matmul for query, key, and value isn't faster (benchmarks/NOTES.md).

    Call arguments:
        hidden: `[B, T, H]`.
        bias: float `[B, 1, 1 or T, T]`, see `attention_bias`.
        num_queries: R, the number of leading positions to compute outputs for. Default: T.
    Returns:
        `(hidden, probabilities)`: `[B, R, H]` and `[B, A, R, T]`.
    Source: ALBERT, arXiv 1909.11942, section 3.1; google-research/albert, modeling.py.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.head_size = config.hidden_size // config.num_attention_heads
        self.query, self.key, self.value, self.dense = (
            dense(config.hidden_size, config, name, self.dtype_policy)
            for name in ("query", "key", "value", "dense")
        )
        self.layer_norm = layer_norm(config, "layer_norm", self.dtype_policy)
        self.attention_dropout = Dropout(
            config.attention_probs_dropout_prob, dtype=self.dtype_policy
        )
        self.output_dropout = Dropout(config.hidden_dropout_prob, dtype=self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        for layer in (self.query, self.key, self.value, self.dense):
            layer.build((None, self.config.hidden_size))
        self.layer_norm.build((None, None, self.config.hidden_size))

    def call(
        self,
        hidden: Tensor,
        bias: Tensor,
        num_queries: int | None = None,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        key, value = (self._heads(layer, hidden) for layer in (self.key, self.value))
        if num_queries is not None:
            hidden, bias = hidden[:, :num_queries], bias[:, :, :num_queries]
        query = self._heads(self.query, hidden)
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        # The scores are scaled after the matmul, because scaling before it makes oneDNN's fusion
        # return an empty tensor inside a graph loop.
        scores = ops.cast(scores, bias.dtype) * self.head_size**-0.5 + bias
        probabilities = ops.cast(ops.softmax(scores, axis=-1), self.compute_dtype)
        attended = ops.matmul(self.attention_dropout(probabilities, training=training), value)
        joined = ops.transpose(attended, (0, 2, 1, 3))
        projected = self.dense(ops.reshape(joined, (-1, self.config.hidden_size)))
        projected = ops.reshape(projected, ops.shape(hidden))
        hidden = hidden + self.output_dropout(projected, training=training)
        return self.layer_norm(hidden), probabilities

    def _heads(self, projection: keras.layers.Dense, hidden: Tensor) -> Tensor:
        """Projects `[B, T, H]` to `[B, A, T, H/A]`."""
        batch, length = ops.shape(hidden)[:2]
        split = (batch, length, self.config.num_attention_heads, self.head_size)
        return ops.transpose(ops.reshape(projection(as_rows(hidden)), split), (0, 2, 1, 3))


@keras.saving.register_keras_serializable("albert_tf")
class FeedForward(ConfiguredLayer):
    """Feed-forward network of width I, with residual connection and layer norm.

    Call arguments:
        hidden: `[B, T, H]`.
    Returns:
        `[B, T, H]`.
    Source: ALBERT, arXiv 1909.11942, section 3.1; google-research/albert, modeling.py.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        policy = self.dtype_policy
        function = activation(config, policy)
        self.intermediate = dense(
            config.intermediate_size, config, "intermediate", policy, function
        )
        self.output_dense = dense(config.hidden_size, config, "output_dense", policy)
        self.dropout = Dropout(config.hidden_dropout_prob, dtype=policy)
        self.layer_norm = layer_norm(config, "layer_norm", policy)

    def build(self, input_shape: Any = None) -> None:
        self.intermediate.build((None, self.config.hidden_size))
        self.output_dense.build((None, self.config.intermediate_size))
        self.layer_norm.build((None, None, self.config.hidden_size))

    def call(self, hidden: Tensor, training: bool | None = None) -> Tensor:
        transformed = self.output_dense(self.intermediate(as_rows(hidden)))
        transformed = ops.reshape(transformed, ops.shape(hidden))
        return self.layer_norm(hidden + self.dropout(transformed, training=training))


@keras.saving.register_keras_serializable("albert_tf")
class AlbertBlock(ShapesFromCall, keras.layers.Layer):
    """A block of the encoder: attention, followed by the feed-forward network.

    Args:
        attention, ffn: the two layers. With `share="attention"` or `share="ffn"`, that layer is
            shared between blocks.
    Call arguments:
        hidden: `[B, T, H]`.
        bias: float `[B, 1, 1 or T, T]`, see `attention_bias`.
        num_queries: R, the number of leading positions to compute outputs for. Default: T.
    Returns:
        `(hidden, probabilities)`: `[B, R, H]` and `[B, A, R, T]`.
    Source: ALBERT, arXiv 1909.11942, section 3.1; google-research/albert, modeling.py.
    """

    def __init__(self, attention: SelfAttention, ffn: FeedForward, **kwargs: Any):
        super().__init__(**kwargs)
        self.attention = attention
        self.ffn = ffn

    def build(self, input_shape: Any = None) -> None:
        for part in (self.attention, self.ffn):
            if not part.built:
                part.build(None)

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        return self.ffn.output_shape

    def get_config(self) -> dict[str, Any]:
        parts = {"attention": self.attention, "ffn": self.ffn}
        saved = {name: keras.saving.serialize_keras_object(part) for name, part in parts.items()}
        return {**super().get_config(), **saved}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "AlbertBlock":
        parts = {
            name: keras.saving.deserialize_keras_object(config[name])
            for name in ("attention", "ffn")
        }
        return cls(**{**config, **parts})

    def call(
        self,
        hidden: Tensor,
        bias: Tensor,
        num_queries: int | None = None,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        attended, probabilities = self.attention(
            hidden, bias, num_queries=num_queries, training=training
        )
        return self.ffn(attended, training=training), probabilities

    @property
    def dropouts(self) -> list[Dropout]:
        """The dropout layers that draw seeds."""
        layers = self._flatten_layers(include_self=False)
        return [layer for layer in layers if isinstance(layer, Dropout) and layer.rate > 0]

    def with_seeds(
        self,
        hidden: Tensor,
        bias: Tensor,
        seeds: Sequence[Tensor],
        rematerialize: bool = False,
        **options: Any,
    ) -> tuple[Tensor, Tensor]:
        """Runs `call` without drawing seeds, so that it can be traced once and recomputed.

        Args:
            seeds: a seed for each of `dropouts`, or no seeds if `training` is false.
            rematerialize: whether to recompute the activations in the backward pass.
        """

        def run(hidden: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
            with replay_seeds(self.dropouts if seeds else [], seeds):
                return self(hidden, bias, **options)

        return (keras.remat(run) if rematerialize else run)(hidden, bias)


@keras.saving.register_keras_serializable("albert_tf")
class AlbertEncoder(ConfiguredLayer):
    """Applies L layers. Layer i uses the blocks of group `schedule[i]` (see `apply_layers`).

    With `share="all"`, there are G groups, and all layers of a group have the same weights.
    Otherwise, each layer is a group, and groups can share their attention or feed-forward layer.

    Args:
        config: an `AlbertConfig`.
        gradient_checkpointing: whether to recompute activations in the backward pass.
    Call arguments:
        hidden: `[B, T, H]`.
        attention_mask: `[B, T]` or `[B, T, T]`: 1 for positions to attend to, 0 for masked ones.
            Default: all positions are attended to.
        unroll: whether to unroll the layers. If False, each group runs in a graph loop, so exported
            files are smaller and load faster. "last" is like False, except that with `cls_only`,
            the last layer runs outside the loop, so its weights occur twice in the graph.
        cls_only: whether to compute the last block only at `[CLS]`, for heads that only
            read `[CLS]`. In a 4-layer model, this saves a fifth of the computation. Ignored if
            `unroll=False`.
    Returns:
        `(hidden_states, attentions)`: the input and each block's output (`[B, T, H]`), and each
        block's attention probabilities (`[B, A, T, T]`). With `cls_only`, the last block has a
        single query. If `unroll` is False or "last", `hidden_states` contains only the last state,
        and `attentions` is empty.
    Source: ALBERT, arXiv 1909.11942, section 3.1 (cross-layer parameter sharing) and table 4.
    """

    def __init__(self, config: AlbertConfig, gradient_checkpointing: bool = False, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.schedule = group_schedule(config.num_hidden_layers, config.stored_groups)
        # A flat list, because Keras doesn't save layers in nested lists.
        self.blocks = self._blocks()
        self.gradient_checkpointing = gradient_checkpointing
        self.frozen_layers = 0  # number of frozen layers, starting with the first

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "gradient_checkpointing": self.gradient_checkpointing}

    def _blocks(self) -> list[AlbertBlock]:
        config, policy = self.config, self.dtype_policy
        groups = range(config.stored_groups)
        shared = group_schedule(config.num_hidden_layers, config.num_hidden_groups)
        attention_of = shared if config.share == "attention" else groups
        ffn_of = shared if config.share == "ffn" else groups
        attention = functools.cache(
            lambda group, inner: SelfAttention(config, name="attention", dtype=policy)
        )
        ffn = functools.cache(lambda group, inner: FeedForward(config, name="ffn", dtype=policy))
        return [
            AlbertBlock(
                attention(attention_of[group], inner),
                ffn(ffn_of[group], inner),
                name=f"group_{group}_block_{inner}",
                dtype=policy,
            )
            for group in groups
            for inner in range(config.inner_group_num)
        ]

    def build(self, input_shape: Any = None) -> None:
        for block in self.blocks:
            if not block.built:
                block.build(None)

    def group(self, index: int) -> list[AlbertBlock]:
        """Returns the blocks of a group in the order in which they are applied."""
        inner = self.config.inner_group_num
        return list(self.blocks[index * inner : (index + 1) * inner])

    def call(
        self,
        hidden: Tensor,
        attention_mask: Tensor = None,
        unroll: Unroll = True,
        cls_only: bool = False,
        training: bool | None = None,
    ) -> tuple[list[Tensor], list[Tensor]]:
        if attention_mask is None:
            attention_mask = ops.ones(ops.shape(hidden)[:2], "int32")
        # Scores and softmax are float32 even in half precision.
        bias = attention_bias(
            attention_mask, keras.backend.result_type(self.compute_dtype, "float32")
        )
        if unroll in (False, "last"):
            return [self._loop(hidden, bias, unroll, cls_only, training)], []
        blocks = [self.group(index) for index in range(self.config.stored_groups)]
        steps: list[tuple[AlbertBlock, int | None]] = [
            (block, None) for group in self.schedule for block in blocks[group]
        ]
        if cls_only:
            steps[-1] = steps[-1][0], 1
        calls = Counter(steps)

        @functools.cache  # one trace for all layers that apply the block
        def traced(block: AlbertBlock, num_queries: int | None) -> Callable[..., Any]:
            run = functools.partial(
                block.with_seeds,
                rematerialize=self.gradient_checkpointing and bool(training),
                num_queries=num_queries,
                training=training,
            )
            return traced_once(run, calls[block, num_queries])

        def apply(block: AlbertBlock, hidden: Tensor, index: int) -> tuple[Tensor, Tensor]:
            dropouts = block.dropouts if training else []
            seeds = [dropout.seed_generator.next() for dropout in dropouts]
            _, num_queries = steps[index]
            hidden, probabilities = traced(block, num_queries)(hidden, bias, seeds)
            frozen = index < self.frozen_layers * self.config.inner_group_num
            return ops.stop_gradient(hidden) if frozen else hidden, probabilities

        return apply_layers(apply, blocks, self.schedule, hidden)

    def _loop(
        self, hidden: Tensor, bias: Tensor, unroll: Unroll, cls_only: bool, training: bool | None
    ) -> Tensor:
        def apply(blocks: list[AlbertBlock], _: Tensor, hidden: Tensor) -> Tensor:
            for block in blocks:
                hidden, _ = block(hidden, bias, training=training)
            return hidden

        cls_only = cls_only and unroll == "last"
        looped = self.schedule[:-1] if cls_only else self.schedule
        for group, layers in itertools.groupby(looped):
            once, count = functools.partial(apply, self.group(group)), len(list(layers))
            is_plain = count == 1 and unroll == "last"
            hidden = once(0, hidden) if is_plain else ops.fori_loop(0, count, once, hidden)
        if cls_only:
            *blocks, last = self.group(self.schedule[-1])
            hidden, _ = last(apply(blocks, 0, hidden), bias, num_queries=1, training=training)
        return hidden

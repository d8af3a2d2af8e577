"""Counts parameters and the memory of training, from a configuration alone."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from albert_tf.config import AlbertConfig, group_schedule

FLOAT32: Final = 4  # bytes

# For each activation function, the number of arrays `[N, I]` that the backward pass reads: its
# result, and its input where `layers.functions` or TensorFlow computes the gradient from it.
ACTIVATION_ARRAYS: Final = {"gelu": 2, "gelu_new": 2, "relu": 1, "silu": 2, "swish": 2, "tanh": 1}

# TensorFlow sums a weight's gradients at the end, or as soon as more than 4 of them, and more than
# 128 MiB, are waiting.
WAITING: Final = 4
WAITING_BYTES: Final = 128 * 2**20


class TrainingMemory(NamedTuple):
    """Bytes of a training step in float32.

    Attributes:
        weights: 4 for each parameter.
        gradients: the same.
        slots: both moments of Adam, AdamW or LAMB: twice the weights.
        waiting: gradients of each use of a shared weight, held until TensorFlow adds them up.
        activations: results of the forward pass that the backward pass reads.
    """

    weights: int
    gradients: int
    slots: int
    waiting: int
    activations: int


def parameters(config: AlbertConfig) -> int:
    """Returns the number of parameters of encoder and pooler, which the paper counts."""
    e, h = config.embedding_size, config.hidden_size
    rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
    embedding = rows * e + 2 * e + e * h + h
    blocks = sum(len(uses) * sum(sizes) for sizes, uses in _block_weights(config))
    return embedding + blocks + h * h + h


def applied_parameters(config: AlbertConfig) -> int:
    """Returns V·E + E·H + L·(4·H² + 2·H·I) + H², a measure of the work of a forward pass.

    Counts each kernel once per application; inner blocks count as layers. Biases, norms
    and the small tables are left out.
    """
    e, h = config.embedding_size, config.hidden_size
    blocks = config.num_hidden_layers * config.inner_group_num
    block = 4 * h * h + 2 * h * config.intermediate_size
    return config.vocab_size * e + e * h + blocks * block + h * h


def training_memory(
    config: AlbertConfig, batch_size: int, length: int, gradient_checkpointing: bool = False
) -> TrainingMemory:
    """Returns the memory of a step of encoder and pooler with Adam, AdamW or LAMB, in float32."""
    weights = FLOAT32 * parameters(config)
    read_again = activations(config, batch_size, length, gradient_checkpointing)
    return TrainingMemory(weights, weights, 2 * weights, unsummed_gradients(config), read_again)


def unsummed_gradients(config: AlbertConfig) -> int:
    """Returns the bytes of gradients that TensorFlow hasn't summed yet, beside their sums.

    Sharing weights saves none of them.
    """
    return sum(
        FLOAT32 * size * (_most_waiting(count, FLOAT32 * size) - 1)
        for sizes, uses in _block_weights(config)
        for size in sizes
        for count in uses
    )


def activations(
    config: AlbertConfig, batch_size: int, length: int, gradient_checkpointing: bool = False
) -> int:
    """Returns the bytes of the forward pass's results that the backward pass reads, in float32.

    With N = B·T tokens, a block has `N · (8·H + 2·I + A·T)` such numbers: of width H its input,
    query, key, value, the joined heads, both layer norms' inputs, and the first one's result; of
    width I the activation's input and result (see `ACTIVATION_ARRAYS`); the attention's
    probabilities. Dropout adds its results, and masks with a byte for each number. With gradient
    checkpointing each block has its input, and one block at a time the rest. Heads are left out.
    """
    tokens = batch_size * length
    blocks = config.num_hidden_layers * config.inner_group_num
    inputs = FLOAT32 * tokens * config.hidden_size
    embedding = tokens * _embedding_bytes(config)
    if gradient_checkpointing:
        return embedding + blocks * inputs + recomputed(config, batch_size, length)
    return embedding + blocks * tokens * _block_bytes(config, length)


def recomputed(config: AlbertConfig, batch_size: int, length: int) -> int:
    """Returns the bytes that gradient checkpointing recomputes for one block."""
    per_token = _block_bytes(config, length) - FLOAT32 * config.hidden_size
    return batch_size * length * per_token


def _block_weights(config: AlbertConfig) -> Iterator[tuple[list[int], list[int]]]:
    """Yields, for each part of each inner block, its weights' sizes and the uses of each copy."""
    h, i, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    shared = list(Counter(group_schedule(layers, config.num_hidden_groups)).values())
    own = [1] * layers
    attention = [h * h, h] * 4 + [h, h]
    ffn = [h * i, i, i * h, h, h, h]
    for _ in range(config.inner_group_num):
        yield attention, shared if config.share in ("all", "attention") else own
        yield ffn, shared if config.share in ("all", "ffn") else own


def _most_waiting(uses: int, size: int) -> int:
    return min(uses, max(WAITING, WAITING_BYTES // size) + 1)


def _block_bytes(config: AlbertConfig, length: int) -> int:
    """Returns the bytes of one token in one block."""
    attended = config.num_attention_heads * length
    arrays = 8 * config.hidden_size + attended
    arrays += ACTIVATION_ARRAYS[config.hidden_act] * config.intermediate_size
    masks = 0
    if config.attention_probs_dropout_prob:
        arrays += attended
        masks += attended
    if config.hidden_dropout_prob:
        masks += 2 * config.hidden_size
    return FLOAT32 * arrays + masks


def _embedding_bytes(config: AlbertConfig) -> int:
    """Returns the bytes of one token: the norm's input and result, and the mask."""
    size = config.embedding_size
    return FLOAT32 * 2 * size + (size if config.hidden_dropout_prob else 0)

"""Parameters, and the memory of training, counted on models that take no memory themselves."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import keras

from albert_tf.config import AlbertConfig
from albert_tf.models.albert import AlbertModel
from albert_tf.models.base import PreTrainedModel

FLOAT32: Final = 4  # bytes

# For each activation function, how many arrays `[N, I]` its gradient and the next product's read,
# its own result among them; the functions are compositions in TensorFlow.
ACTIVATION_ARRAYS: Final = {"gelu": 4, "gelu_new": 5, "relu": 1, "silu": 2, "swish": 2, "tanh": 1}


# TensorFlow sums the gradients of a weight that is used often at the end, or whenever more than
# these, and more bytes than these, are waiting.
WAITING: Final = 4
WAITING_BYTES: Final = 128 * 2**20


class TrainingMemory(NamedTuple):
    """Bytes that a training step takes in float32.

    Attributes:
        weights: 4 for each parameter.
        gradients: the same.
        slots: the two moments of Adam, AdamW or LAMB, twice that.
        waiting: a shared weight's gradients from each of its uses, until TensorFlow sums them.
        activations: what the forward pass leaves for the backward pass.
    """

    weights: int
    gradients: int
    slots: int
    waiting: int
    activations: int


def skeleton(config: AlbertConfig, model: type[PreTrainedModel] = AlbertModel) -> PreTrainedModel:
    """The model with all its layers and variables, and no memory behind the variables."""

    def make() -> PreTrainedModel:
        with keras.StatelessScope(initialize_variables=False):
            return model(config)

    # Keras gives every variable that waits for its values theirs when a functional model is made,
    # however large they are, but in its own thread alone.
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(make).result()


def parameters(config: AlbertConfig, model: type[PreTrainedModel] = AlbertModel) -> int:
    """How many numbers a model has; encoder and pooler, as the paper counts, for `AlbertModel`."""
    return skeleton(config, model).count_params()


def applied_parameters(config: AlbertConfig) -> int:
    """The word table and every kernel, each as often as a pass applies it: a measure of the work.

    V·E + E·H + L·(4·H² + 2·H·I) + H², where inner blocks count as layers; biases, norms and the
    small tables are left out.
    """
    model = skeleton(config)
    layers = [model.embedding.projection, *_visits(model), model.pooler]
    table = model.embedding.word_embeddings
    return _elements([table, *(kernel for layer in layers for kernel in _kernels(layer))])


def training_memory(
    config: AlbertConfig, batch_size: int, length: int, gradient_checkpointing: bool = False
) -> TrainingMemory:
    """What a training step of encoder and pooler takes with Adam, AdamW or LAMB, in float32."""
    weights = FLOAT32 * parameters(config)
    kept = activations(config, batch_size, length, gradient_checkpointing)
    return TrainingMemory(weights, weights, 2 * weights, waiting_gradients(config), kept)


def waiting_gradients(config: AlbertConfig) -> int:
    """Bytes of gradients beside their sums, on TensorFlow: sharing saves none of them."""
    uses: dict[int, list[int]] = {}
    for block in _visits(skeleton(config)):
        for variable in block.weights:
            uses.setdefault(id(variable), []).append(FLOAT32 * _elements([variable]))
    return sum(sizes[0] * (_most_waiting(len(sizes), sizes[0]) - 1) for sizes in uses.values())


def activations(
    config: AlbertConfig, batch_size: int, length: int, gradient_checkpointing: bool = False
) -> int:
    """Bytes of the forward pass's results that the backward pass reads, in float32.

    With N = B·T pieces, a block keeps `N · (10·H + 5·I + A·T)` numbers: its input, query, key,
    value, the heads' joined result, two for either layer norm, and between them the first one's
    result, 10 of width H; 5 of width I for "gelu_new" (see `ACTIVATION_ARRAYS`); the attention's
    probabilities. Dropout adds those that it thinned out, and its masks of a byte a place. With
    gradient checkpointing each block keeps its input, and one of them at a time the rest.
    A head's few, and under a thousandth that layer norms keep beside, are left out.
    """
    pieces = batch_size * length
    blocks = config.num_hidden_layers * config.inner_group_num
    inputs = FLOAT32 * pieces * config.hidden_size
    embedding = pieces * _embedding_bytes(config)
    if gradient_checkpointing:
        return embedding + blocks * inputs + recomputed(config, batch_size, length)
    return embedding + blocks * pieces * _block_bytes(config, length)


def recomputed(config: AlbertConfig, batch_size: int, length: int) -> int:
    """Bytes of what gradient checkpointing computes again for one block, beside its input."""
    piece = _block_bytes(config, length) - FLOAT32 * config.hidden_size
    return batch_size * length * piece


def _most_waiting(uses: int, size: int) -> int:
    return min(uses, max(WAITING, WAITING_BYTES // size) + 1)


def _visits(model: PreTrainedModel) -> list[keras.layers.Layer]:
    """The blocks in the order in which a pass applies them, each as often as it does."""
    return [block for group in model.encoder.schedule for block in model.encoder.group(group)]


def _block_bytes(config: AlbertConfig, length: int) -> int:
    """Of one piece in one block."""
    attended = config.num_attention_heads * length
    arrays = 10 * config.hidden_size + attended
    arrays += ACTIVATION_ARRAYS[config.hidden_act] * config.intermediate_size
    masks = 0
    if config.attention_probs_dropout_prob:
        arrays += attended
        masks += attended
    if config.hidden_dropout_prob:
        masks += 2 * config.hidden_size
    return FLOAT32 * arrays + masks


def _embedding_bytes(config: AlbertConfig) -> int:
    """Of one piece: what goes into the norm, what is normalised, its result, and the mask."""
    size = config.embedding_size
    return FLOAT32 * 3 * size + (size if config.hidden_dropout_prob else 0)


def _kernels(layer: keras.layers.Layer) -> list[keras.Variable]:
    return [variable for variable in layer.weights if variable.name == "kernel"]


def _elements(variables: Sequence[keras.Variable]) -> int:
    total = 0
    for variable in variables:
        count = 1
        for size in variable.shape:
            count *= size
        total += count
    return total

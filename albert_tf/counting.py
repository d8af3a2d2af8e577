"""Counts the parameters of a configuration, and those that a forward pass applies."""

from albert_tf.config import AlbertConfig


def parameters(config: AlbertConfig) -> int:
    """Returns the number of parameters of encoder and pooler, which the paper counts."""
    e, h, i = config.embedding_size, config.hidden_size, config.intermediate_size
    rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
    embedding = rows * e + 2 * e + e * h + h
    copies = {True: config.num_hidden_groups, False: config.num_hidden_layers}
    attention = copies[config.share in ("all", "attention")] * (4 * (h * h + h) + 2 * h)
    ffn = copies[config.share in ("all", "ffn")] * (2 * h * i + i + 3 * h)
    return embedding + config.inner_group_num * (attention + ffn) + h * h + h


def applied_parameters(config: AlbertConfig) -> int:
    """Returns V·E + E·H + L·(4·H² + 2·H·I) + H², a measure of the work of a forward pass.

    Counts each kernel once per application; inner blocks count as layers. Biases, norms
    and the small tables are left out.
    """
    e, h = config.embedding_size, config.hidden_size
    blocks = config.num_hidden_layers * config.inner_group_num
    block = 4 * h * h + 2 * h * config.intermediate_size
    return config.vocab_size * e + e * h + blocks * block + h * h

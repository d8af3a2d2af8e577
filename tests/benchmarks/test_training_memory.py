"""A training step keeps for the gradient only what docs/models.md promises."""

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForTokenClassification
from benchmarks.training_memory import kept_bytes

B, T = 3, 50
# Arrays `[B, T, I]` of each activation: its result, and its input where the gradient is of that.
ARRAYS = {"gelu": 2, "gelu_new": 2, "relu": 1, "silu": 2, "tanh": 1}


def bytes_of_a_block(config):
    """Returns the bytes of a token: 8·H + 2·I + A·T numbers, and those of dropout.

    Of width H its input, query, key, value, the joined heads, both layer norms' inputs, and the
    first one's result. Dropout adds its results, and masks with a byte for each number.
    """
    attended = config.num_attention_heads * T
    numbers = (
        8 * config.hidden_size + attended + ARRAYS[config.hidden_act] * config.intermediate_size
    )
    if not config.hidden_dropout_prob:
        return 4 * numbers
    return 4 * (numbers + attended) + attended + 2 * config.hidden_size


@pytest.mark.tensorflow
@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "dropout", "checkpointing"),
    [*((act, 0.0, False) for act in ARRAYS), ("gelu_new", 0.1, False), ("gelu", 0.1, True)],
)
def test_activations_agree_with_the_graph(act, dropout, checkpointing):
    """The widths are so large that a layer norm's single numbers don't matter."""
    config = AlbertConfig(
        vocab_size=70,
        embedding_size=24,
        hidden_size=160,
        num_hidden_layers=3,
        inner_group_num=2 if act == "gelu" else 1,
        num_attention_heads=8,
        intermediate_size=420,
        max_position_embeddings=T,
        hidden_act=act,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        classifier_dropout_prob=0.0,
    )
    model = AlbertForTokenClassification(config)
    model.gradient_checkpointing_enable(checkpointing)
    block = 4 * config.hidden_size if checkpointing else bytes_of_a_block(config)
    embedding = 4 * 2 * config.embedding_size + (config.embedding_size if dropout else 0)
    classifier = 4 * config.hidden_size  # its input, at every position
    blocks = config.num_hidden_layers * config.inner_group_num
    expected = B * T * (embedding + blocks * block + classifier)
    assert kept_bytes(model, B, T) == pytest.approx(expected, rel=0.02)

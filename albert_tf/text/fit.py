"""A tokenizer and a model must belong together."""

from typing import Any

from albert_tf.errors import UserError
from albert_tf.text.tokenizer import AlbertTokenizer


def check_fit(tokenizer: AlbertTokenizer, config: Any, max_length: int) -> None:
    """Refuses a tokenizer and a model that don't belong together, and a length neither supports.

    Args:
        config: the model's `AlbertConfig`.
        max_length: the longest row, in pieces.
    Raises:
        UserError: with both numbers.
    """
    if tokenizer.vocab_size != config.vocab_size:
        raise UserError(
            "The tokenizer and the model must have the same vocabulary. Received: "
            f"{tokenizer.vocab_size} pieces in the tokenizer, vocab_size={config.vocab_size} in "
            "the model. Use the vocabulary that the model was trained with."
        )
    limit = config.max_position_embeddings
    if not 3 <= max_length <= limit:
        raise UserError(
            "max_length must lie between 3, for the special tokens of a pair, and the model's "
            f"max_position_embeddings. Received: max_length={max_length}, "
            f"max_position_embeddings={limit}."
        )

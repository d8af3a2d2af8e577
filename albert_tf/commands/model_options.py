"""The option by which commands are told of a trained model, and how they load it."""

import argparse
from typing import Any


def add_model_option(parser: argparse.ArgumentParser) -> None:
    """Declares `--model`."""
    parser.add_argument("--model", required=True, help="model directory, name on the hub, or small")


def load(name_or_path: str) -> tuple[Any, Any]:
    """The classifier and the tokenizer of a model directory, which belong together.

    Raises:
        UserError: no model, no vocabulary, or one that isn't the model's.
    """
    from albert_tf.models import AlbertForSequenceClassification
    from albert_tf.text.fit import check_fit
    from albert_tf.text.tokenizer import AlbertTokenizer

    model = AlbertForSequenceClassification.from_pretrained(name_or_path)
    tokenizer = AlbertTokenizer.from_pretrained(name_or_path)
    longest = min(tokenizer.model_max_length, model.config.max_position_embeddings)
    tokenizer.model_max_length = longest
    check_fit(tokenizer, model.config, longest)
    return model, tokenizer

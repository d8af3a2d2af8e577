"""`albert-tf tag`"""

import math
from dataclasses import dataclass
from typing import Any, Literal

from albert_tf.commands.text_options import (
    Block,
    TextOptions,
    check_texts,
    load,
    print_results,
    texts,
    with_inputs,
)
from albert_tf.errors import UserError
from albert_tf.options import NOT_NEGATIVE, option

SUMMARY = "find entities in texts"
EXAMPLES = """examples:
  albert-tf tag --model my-model "Ada Lovelace was born in London."
  albert-tf tag --model my-model --input texts.txt --aggregation none --json

Prints a line for each entity: kind, probability, start and end in the text (in characters), and
words. An empty line separates texts. Long texts are read in windows.
"""


@dataclass(frozen=True, kw_only=True)
class OPTIONS(TextOptions):
    """The options of `albert-tf tag`."""

    aggregation: Literal["none", "simple", "first", "average", "max"] = option(
        "first",  # finetune trains on each word's first token
        help="tokens as they are, grouped, or grouped with one label for all tokens of a word: "
        "its first token's, their mean's, the surest one's",
    )
    stride: int | None = option(
        None, help="tokens that the windows of a long text share", range=NOT_NEGATIVE
    )


def check(options: OPTIONS) -> None:
    """Looks at texts and model."""
    config = check_texts(options, "AlbertForTokenClassification")
    room = config.max_position_embeddings - 2 if config else math.inf
    if options.stride is not None and options.stride >= room:
        raise UserError(
            "stride must be smaller than the tokens of a window. "
            f"Received: stride={options.stride}, {room} tokens a window."
        )


def run(options: OPTIONS) -> int:
    """Prints the entities of each text."""
    given = texts(options)
    strategy, stride = options.aggregation, options.stride
    tag = load("token-classification", options, aggregation_strategy=strategy, stride=stride)
    results = (_result(text, found) for text, found in with_inputs(tag, given))
    return print_results(results, options.json)


def _result(text: str, found: list[dict[str, Any]]) -> tuple[dict[str, Any], list[Block]]:
    block = [
        (
            each.get("entity_group") or each["entity"],
            f"{each['score']:.4f}",
            each["start"],
            each["end"],
            each["word"],
        )
        for each in found
    ]
    return {"text": text, "entities": found}, [block]

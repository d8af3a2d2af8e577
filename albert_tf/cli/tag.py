"""`albert-tf tag`"""

from dataclasses import dataclass
from typing import Any, Literal

from albert_tf.cli.text_options import Block, TextInputOptions, print_results, with_inputs
from albert_tf.options import option

SUMMARY = "find entities in texts"
EXAMPLES = """examples:
  albert-tf tag --model my-model "Ada Lovelace was born in London."
  albert-tf tag --model my-model --input texts.txt --aggregation none --json

Prints a line for each entity: its type, its probability, its start and end in the text (in
characters), and its words. An empty line separates texts. Long texts are read in windows.
"""


@dataclass(frozen=True, kw_only=True)
class OPTIONS(TextInputOptions):
    """The options of `albert-tf tag`."""

    aggregation: Literal["none", "simple", "first", "average", "max"] = option(
        "first",  # finetune trains on each word's first token
        help="how to group tokens: none; simple (adjacent tokens with the same label); or one "
        "label per word, from its first token (first), the mean scores of its tokens (average), or "
        "the token with the highest score (max)",
    )


def check(options: OPTIONS) -> None:
    """Checks the texts and the model."""
    options.check_texts("AlbertForTokenClassification")


def run(options: OPTIONS) -> int:
    """Prints the entities of each text."""
    given = options.texts()
    tag = options.pipeline("token-classification", aggregation_strategy=options.aggregation)
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

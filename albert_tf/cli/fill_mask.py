"""`albert-tf fill-mask`"""

from dataclasses import dataclass
from typing import Any

from albert_tf.cli.text_options import Block, TextInputOptions, print_results, with_inputs
from albert_tf.options import COUNT, option

SUMMARY = "predict masked tokens"
EXAMPLES = """examples:
  albert-tf fill-mask --model my-model "The [MASK] is open."
  albert-tf fill-mask --model my-model --input texts.txt --top-k 3 --json

Prints a line for each of the most likely tokens of a mask: the probability, the token, and the text
with the token filled in. An empty line separates masks and texts.
"""


@dataclass(frozen=True, kw_only=True)
class OPTIONS(TextInputOptions):
    """The options of `albert-tf fill-mask`."""

    top_k: int = option(5, help="number of tokens per mask", range=COUNT)


def check(options: OPTIONS) -> None:
    """Checks the texts and the model."""
    options.check_texts("AlbertForMaskedLM")


def run(options: OPTIONS) -> int:
    """Prints the most likely tokens of each mask."""
    given = options.texts()
    fill = options.pipeline("fill-mask", top_k=options.top_k)
    results = (_result(text, found) for text, found in with_inputs(fill, given))
    return print_results(results, options.json)


def _result(text: str, found: list[Any]) -> tuple[dict[str, Any], list[Block]]:
    masks = [found] if isinstance(found[0], dict) else found
    blocks: list[Block] = [
        [(f"{each['score']:.4f}", each["token_str"], each["sequence"]) for each in tokens]
        for tokens in masks
    ]
    return {"text": text, "masks": masks}, blocks

"""`albert-tf tag`"""

from dataclasses import dataclass
from typing import Literal

from albert_tf.commands.text_options import (
    TextOptions,
    answered,
    print_json,
    printable,
    texts,
)
from albert_tf.options import option

SUMMARY = "find entities in texts"
EXAMPLES = """examples:
  albert-tf tag --model my-model "Ada Lovelace was born in London."
  albert-tf tag --model my-model --input texts.txt --aggregation none --json

Prints for each entity a line: its kind, its probability, where it starts and ends in the text (in
characters), and the words; an empty line stands between texts. Long texts are read in windows.
"""


@dataclass(frozen=True, kw_only=True)
class OPTIONS(TextOptions):
    """The options of `albert-tf tag`."""

    aggregation: Literal["none", "simple", "first", "average", "max"] = option(
        "simple",
        help="pieces as they are, grouped, or grouped with one label for all pieces of a word: "
        "its first piece's, their mean's, the surest one's",
    )
    stride: int | None = option(None, help="pieces that the windows of a long text share")


def run(options: OPTIONS) -> int:
    """Prints the entities of each text."""
    given = texts(options)
    from albert_tf.pipelines import pipeline

    tag = pipeline(
        "token-classification",
        options.model,
        batch_size=options.batch_size,
        aggregation_strategy=options.aggregation,
        stride=options.stride,
    )
    for number, (text, found) in enumerate(answered(tag, given)):
        if options.json:
            print_json({"text": printable(text), "entities": found})
            continue
        if number:
            print()
        for each in found:
            kind = each.get("entity_group") or each["entity"]
            word = printable(each["word"])
            print(kind, f"{each['score']:.4f}", each["start"], each["end"], word, sep="\t")
    return 0

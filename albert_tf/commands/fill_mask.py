"""`albert-tf fill-mask`"""

from dataclasses import dataclass

from albert_tf.commands.text_options import (
    TextOptions,
    answered,
    print_json,
    printable,
    texts,
)
from albert_tf.options import option

SUMMARY = "fill in masked words"
EXAMPLES = """examples:
  albert-tf fill-mask --model my-model "The [MASK] is open."
  albert-tf fill-mask --model my-model --targets ▁door ▁shop --input texts.txt --json

Prints for each mask a line for each of the likeliest pieces: its probability, the piece, and the
text with it. An empty line stands between masks and between texts.
"""


@dataclass(frozen=True, kw_only=True)
class OPTIONS(TextOptions):
    """The options of `albert-tf fill-mask`."""

    top_k: int = option(5, help="pieces to show")
    targets: tuple[str, ...] = option(
        (), help="pieces to choose among; ▁ starts a word", metavar="PIECE"
    )


def run(options: OPTIONS) -> int:
    """Prints the likeliest pieces of each mask."""
    given = texts(options)
    from albert_tf.pipelines import pipeline

    fill = pipeline(
        "fill-mask",
        options.model,
        batch_size=options.batch_size,
        top_k=options.top_k,
        targets=options.targets or None,
    )
    is_first = True
    for text, found in answered(fill, given):
        masks = [found] if isinstance(found[0], dict) else found
        if options.json:
            print_json({"text": printable(text), "masks": masks})
            continue
        for pieces in masks:
            if not is_first:
                print()
            is_first = False
            for each in pieces:
                filled = f"{each['token_str']}\t{each['sequence']}"
                print(f"{each['score']:.4f}\t{printable(filled)}")
    return 0

"""`albert-tf predict`"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from albert_tf.commands.text_options import (
    TextOptions,
    answered,
    print_json,
    printable,
    texts,
)
from albert_tf.errors import UserError
from albert_tf.options import option

SUMMARY = "label texts"
EXAMPLES = """examples:
  albert-tf predict --model my-model "A quiet delight." "Broken on arrival."
  albert-tf predict --model my-model --input reviews.txt --json > labels.jsonl
  zcat reviews.gz | albert-tf predict --model my-model --input -

Prints a line for each text: its label and the label's probability, or the score. A file is read as
it is needed, however large it is.
"""


@dataclass(frozen=True, kw_only=True)
class OPTIONS(TextOptions):
    """The options of `albert-tf predict`."""

    pairs: bool = option(False, help="pairs of texts, with a tab between")


def run(options: OPTIONS) -> int:
    """Prints a line for each text."""
    given = texts(options)
    from albert_tf.pipelines import pipeline

    label = pipeline(
        "text-classification",
        options.model,
        batch_size=options.batch_size,
        top_k=None,
        truncation=True,
    )
    # A model of one label gives a score, unless it says otherwise.
    function = "none" if label.model.problem_type == "regression" else None

    def answer(stream: Iterator[str]) -> Any:
        return label(map(_pair, stream) if options.pairs else stream, function_to_apply=function)

    for text, found in answered(answer, given):
        if options.json:
            scores = {each["label"]: each["score"] for each in found}
            print_json(
                {
                    "text": printable(text),
                    "label": found[0]["label"],
                    "probabilities": {name: scores[name] for name in label.model.config.labels},
                }
            )
        else:
            print(f"{found[0]['label']}\t{found[0]['score']:.4f}")
    return 0


def _pair(text: str) -> tuple[str, str]:
    first, tab, second = text.partition("\t")
    if not tab:
        raise UserError(f"A pair is two texts with a tab between. Received: {text[:60]!r}.")
    return first, second

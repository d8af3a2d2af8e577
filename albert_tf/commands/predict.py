"""`albert-tf predict`"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from albert_tf.commands.text_options import (
    TextOptions,
    can_be_read_again,
    check_texts,
    load,
    print_json,
    texts,
    with_inputs,
)
from albert_tf.errors import UserError
from albert_tf.options import option

SUMMARY = "label texts"
EXAMPLES = """examples:
  albert-tf predict --model my-model "A quiet delight." "Broken on arrival."
  albert-tf predict --model my-model --input reviews.txt --json > labels.jsonl
  zcat reviews.gz | albert-tf predict --model my-model --input -

Prints a line for each text: label and probability, or the score. A file is read as needed, however
large it is.
"""


@dataclass(frozen=True, kw_only=True)
class OPTIONS(TextOptions):
    """The options of `albert-tf predict`."""

    pairs: bool = option(False, help="pairs of texts, with a tab between")


def check(options: OPTIONS) -> None:
    """Looks at texts and model, and at the first pairs unless they come from a pipe."""
    check_texts(options, "AlbertForSequenceClassification")
    if options.pairs and can_be_read_again(options.input):
        deque(_pairs(islice(texts(options), _CHECKED), options.input), maxlen=0)


def run(options: OPTIONS) -> int:
    """Prints a line for each text."""
    given = texts(options)
    label = load("text-classification", options, top_k=None, truncation=True)
    # A model with one label returns a score, unless its configuration says otherwise.
    function = "none" if label.model.problem_type == "regression" else None

    def labelled(stream: Iterator[str]) -> Any:
        given = _pairs(stream, options.input) if options.pairs else stream
        return label(given, function_to_apply=function)

    for text, found in with_inputs(labelled, given):
        best = found[0]
        if options.json:
            scores = {each["label"]: each["score"] for each in found}
            odds = {name: scores[name] for name in label.model.config.labels}
            print_json({"text": text, "label": best["label"], "probabilities": odds})
        else:
            print(f"{best['label']}\t{best['score']:.4f}")
    return 0


def _pairs(texts: Iterable[str], path: str | None) -> Iterator[tuple[str, str]]:
    for number, text in enumerate(texts, start=1):
        first, tab, second = text.partition("\t")
        if not tab:
            place = "" if path is None else f"{path}, line {number}, "
            raise UserError(
                f"A pair must be two texts with a tab between. Received: {place}{text[:60]!r}."
            )
        yield first, second


_CHECKED: Final = 10_000  # pairs of a file, before the model is loaded

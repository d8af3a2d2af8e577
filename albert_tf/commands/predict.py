"""`albert-tf predict`"""

import argparse
import json
import sys
from collections.abc import Iterator

from albert_tf.commands.model_options import add_model_option, load
from albert_tf.errors import UserError

SUMMARY = "label texts"
EXAMPLES = """examples:
  albert-tf predict --model my-model "A quiet delight." "Broken on arrival."
  albert-tf predict --model my-model --input reviews.txt --json > labels.jsonl
  zcat reviews.gz | albert-tf predict --model my-model --input -

Prints a line for each text: its label and the label's probability, or the score. A file is read as
it is needed, however large it is.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `predict`."""
    add_model_option(parser)
    parser.add_argument("text", nargs="*", metavar="TEXT", help="texts to label")
    parser.add_argument("--input", metavar="FILE", help="a text a line; - for standard input")
    parser.add_argument("--pairs", action="store_true", help="each text is two, with a tab between")
    parser.add_argument(
        "--json", action="store_true", help="JSON with all probabilities, a line each"
    )
    parser.add_argument("--batch-size", type=int, default=32, help="default: %(default)s")


def run(options: argparse.Namespace) -> int:
    """Prints a line for each text."""
    if bool(options.text) == (options.input is not None):
        raise UserError("Texts come as arguments or with --input. Received: neither, or both.")
    if options.batch_size < 1:
        raise UserError(f"--batch-size must be 1 or more. Received: {options.batch_size}.")
    from albert_tf.inference import predict

    model, tokenizer = load(options.model)
    texts = iter(options.text) if options.text else _lines(options.input)
    seen: list[str] = []  # texts read and not answered yet: a batch at most
    for prediction in predict(
        model, tokenizer, _read(texts, seen, options.pairs), options.batch_size
    ):
        text = seen.pop(0).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if options.json:
            row = {
                "text": text,
                "label": prediction.label,
                "probabilities": prediction.probabilities,
            }
            print(json.dumps(row, ensure_ascii=False))
        else:
            print(f"{prediction.label}\t{prediction.value:.4f}")
        if not seen:
            sys.stdout.flush()
    return 0


def _read(texts: Iterator[str], seen: list[str], pairs: bool) -> Iterator[str | tuple[str, str]]:
    for text in texts:
        seen.append(text)
        if not pairs:
            yield text
            continue
        first, tab, second = text.partition("\t")
        if not tab:
            raise UserError(f"A pair is two texts with a tab between. Received: {text[:60]!r}.")
        yield first, second


def _lines(path: str) -> Iterator[str]:
    """Lines without their ends; a byte that isn't UTF-8 is an unknown character."""
    source = 0 if path == "-" else path
    with open(
        source, encoding="utf-8", errors="surrogateescape", newline="\n", closefd=path != "-"
    ) as file:
        for line in file:
            yield line.rstrip("\r\n")

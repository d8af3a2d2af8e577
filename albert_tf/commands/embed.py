"""`albert-tf embed`"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from albert_tf.commands.text_options import (
    add_text_options,
    answered,
    print_json,
    printable,
    texts,
)
from albert_tf.errors import UserError

SUMMARY = "turn texts into vectors"
FORMATS = (".npy", ".jsonl")
STRIDE = 64
SPECIAL = 2  # [CLS] and [SEP]
EXAMPLES = """examples:
  albert-tf embed --model my-model "A quiet delight." "Broken on arrival."
  albert-tf embed --model my-model --input texts.txt --output vectors.npy
  albert-tf embed --model my-model --input texts.txt --pooling cls --output vectors.jsonl

Prints a line of JSON for each text, with its vector, or writes them to a file: all as one float32
array [texts, H] (.npy), or a line of JSON each (.jsonl). Long texts are read in windows.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `embed`."""
    add_text_options(parser, "turn into vectors")
    parser.add_argument(
        "--pooling",
        choices=("mean", "cls", "pooler"),
        default="mean",
        help="the mean of all pieces' states, the state of [CLS], or the pooler's output "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--stride",
        type=int,
        help=f"pieces that the windows of a long text share (default: {STRIDE}, a quarter of a "
        "window at most)",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="vectors.npy or vectors.jsonl")
    parser.add_argument("--force", action="store_true", help="replace the output")


def run(options: argparse.Namespace) -> int:
    """Prints or writes the vectors."""
    from albert_tf.files import written_atomically

    given = texts(options)
    if options.output and options.output.suffix not in FORMATS:
        raise UserError(f"--output must end in {' or '.join(FORMATS)}. Received: {options.output}.")
    found = _vectors(options, given)
    if options.output is None:
        for text, vector in found:
            print_json({"text": printable(text), "vector": vector.tolist()})
        return 0
    with written_atomically(options.output, force=options.force) as path:
        count = _write(path, found)
    report = {"texts": count, "output": str(options.output)}
    print(json.dumps(report) if options.json else f"{count} vectors in {options.output}")
    return 0


def _vectors(options: argparse.Namespace, given: Iterator[str]) -> Iterator[tuple[str, Any]]:
    from albert_tf.pipelines import pipeline

    embed = pipeline(
        "feature-extraction",
        options.model,
        batch_size=options.batch_size,
        pooling=options.pooling,
        return_tensors=True,
    )
    stride = options.stride
    if stride is None:
        stride = min(STRIDE, (embed.max_length - SPECIAL) // 4)
    yield from answered(lambda texts: embed(texts, stride=stride), given)


def _write(path: Path, found: Iterator[tuple[str, Any]]) -> int:
    if path.suffix == ".npy":
        import numpy as np

        vectors = [vector for _, vector in found]
        np.save(path, np.asarray(vectors, "float32"))
        return len(vectors)
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for text, vector in found:
            row = {"text": printable(text), "vector": vector.tolist()}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count

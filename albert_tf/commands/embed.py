"""`albert-tf embed`"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from albert_tf.commands.text_options import (
    TextOptions,
    answered,
    print_json,
    printable,
    texts,
)
from albert_tf.errors import UserError
from albert_tf.options import option

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


@dataclass(frozen=True, kw_only=True)
class OPTIONS(TextOptions):
    """The options of `albert-tf embed`."""

    pooling: Literal["mean", "cls", "pooler"] = option(
        "mean", help="mean of all pieces' states, state of [CLS], or the pooler's output"
    )
    stride: int | None = option(
        None,
        help=f"pieces that the windows of a long text share; default: {STRIDE}, a quarter of a "
        "window at most",
    )
    output: Path | None = option(None, help="vectors.npy or vectors.jsonl", metavar="FILE")
    force: bool = option(False, help="replacement of an existing output")


def run(options: OPTIONS) -> int:
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


def _vectors(options: OPTIONS, given: Iterator[str]) -> Iterator[tuple[str, Any]]:
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

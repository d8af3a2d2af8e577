"""`albert-tf embed`"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from albert_tf.checkpoints import Pooling
from albert_tf.cli.text_options import TextInputOptions, print_json, printable, with_inputs
from albert_tf.errors import UserError
from albert_tf.files import check_apart, check_free, written_atomically
from albert_tf.options import option

SUMMARY = "turn texts into vectors"
FORMATS = (".npy", ".jsonl")
EXAMPLES = """examples:
  albert-tf embed --model my-model "A quiet delight." "Broken on arrival."
  albert-tf embed --model my-model --input texts.txt --output vectors.npy
  albert-tf embed --model my-model --input texts.txt --pooling cls --output vectors.jsonl

Prints a JSON object with the vector of each text or, with --output, writes a file: one float32
array [texts, H] (.npy), or one JSON object per text (.jsonl). Long texts are read in windows. For a
folder from sentence-transformers, long texts are truncated, and the vectors are the same as in that
library.
"""


@dataclass(frozen=True, kw_only=True)
class OPTIONS(TextInputOptions):
    """The options of `albert-tf embed`."""

    pooling: Pooling | None = option(
        None,
        help="how to pool the hidden states: mean (of all tokens), cls (the state of [CLS]), or "
        "max; default: the pooling of the sentence-transformers folder, if any, otherwise mean",
        metavar="POOLING",
    )
    normalize: bool | None = option(
        None,
        help="scale vectors to unit length; default: as in the sentence-transformers folder",
    )
    output: Path | None = option(
        None, help=".npy or .jsonl file to write instead of printing", metavar="FILE"
    )
    force: bool = option(False, help="replace an existing file", needs="output")


def check(options: OPTIONS) -> None:
    """Checks the output, the texts, and the model."""
    if options.output is not None:
        if options.output.suffix not in FORMATS:
            raise UserError(
                f"--output must end in {' or '.join(FORMATS)}. Received: {options.output}."
            )
        if options.source is not None:
            check_apart(str(options.source), options.output)
        check_free(options.output, options.force)
    options.check_texts()


def run(options: OPTIONS) -> int:
    """Prints or writes the vectors."""
    size, found = _vectors(options, options.texts())
    if options.output is None:
        for row in _rows(found):
            print_json(row)
        return 0
    with written_atomically(options.output, force=options.force) as path:
        count = _write(path, found, size)
    report = {"texts": count, "output": str(options.output)}
    print(json.dumps(report) if options.json else f"{count} vectors in {options.output}")
    return 0


def _vectors(options: OPTIONS, given: Iterator[str]) -> tuple[int, Iterator[tuple[str, Any]]]:
    """Returns the size of the vectors, and each text with its vector."""
    from albert_tf.checkpoints.sentence_transformers import FOLDER
    from albert_tf.text.windows import default_stride

    embed = options.pipeline(
        "feature-extraction", pooling=options.pooling or FOLDER, return_tensors=True
    )
    is_of_folder = embed.embedding(embed.options) is not None
    chosen = {"pooling": embed.options.pooling if is_of_folder else "mean"}
    chosen["normalize"] = options.normalize
    if is_of_folder and options.pooling is None:
        chosen["truncation"] = True
    else:
        chosen["stride"] = default_stride(embed.max_length)
    return embed.model.config.hidden_size, with_inputs(partial(embed, **chosen), given)


def _rows(found: Iterable[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
    for text, vector in found:
        yield {"text": text, "vector": vector.tolist()}


def _write(path: Path, found: Iterator[tuple[str, Any]], size: int) -> int:
    """Writes the vectors and returns how many were written."""
    if path.suffix == ".npy":
        import numpy as np

        rows = [vector for _, vector in found]
        vectors = np.asarray(rows, "float32").reshape(-1, size)  # there may be no texts
        header = np.lib.format.header_data_from_array_1_0(vectors)
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            file.write(vectors.data)  # np.save's errors lack the errno
        return len(vectors)
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in _rows(found):
            file.write(printable(json.dumps(row, ensure_ascii=False)) + "\n")
            count += 1
    return count

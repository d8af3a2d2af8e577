"""Answers texts with an exported SavedModel.

Needs TensorFlow and tensorflow-text, or TensorFlow alone for an export of ids only.

    python saved_model.py FOLDER < texts

Inputs and answers are lines: see --help, or `INPUTS` in `_rows.py`.
"""

import functools
import os
import sys
from collections.abc import Iterator
from typing import Any

from _rows import (  # type: ignore[import-not-found]  # beside this script
    TEXTS,
    Row,
    batch_of_ids,
    check,
    encoded,
    memory,
    parser,
    run,
    serve,
)


def needs_text(folder: str) -> bool:
    """Whether the export has operators of tensorflow-text, which must then be imported."""
    with open(os.path.join(folder, "saved_model.pb"), "rb") as file:
        graph = file.read()
    return any(name in graph for name in (b"TFText>", b"FastBertNormalize", b"FastWordpiece"))


@functools.lru_cache(maxsize=1)
def load(folder: str) -> tuple[Any, float]:
    """Returns the SavedModel and MB before it; once where a process runs several signatures."""
    import tensorflow as tf

    if needs_text(folder):
        import tensorflow_text  # noqa: F401
    empty = memory("VmRSS")
    return tf.saved_model.load(folder), empty


def example(tf: Any, row: Row) -> bytes:
    """A serialized tf.Example with the texts of an input."""
    made = tf.train.Example()
    for name in TEXTS:
        if name in row:
            made.features.feature[name].bytes_list.value.append(encoded(row[name]))
    return made.SerializeToString()


def features(tf: Any, rows: list[Row], wanted: set[str]) -> dict[str, Any]:
    """The arguments of a signature for a batch of inputs."""
    if "inputs" in wanted:  # of Serving's Classify and Regress calls
        return {"inputs": tf.constant([example(tf, row) for row in rows])}
    if "text" in wanted:
        return {name: tf.constant([encoded(row[name]) for row in rows]) for name in wanted}
    return {name: tf.constant(values) for name, values in batch_of_ids(rows, wanted).items()}


def main() -> None:
    options_parser = parser(__doc__, "the SavedModel's folder")
    options_parser.add_argument("--signature", default="text", help="default: text")
    options_parser.add_argument("--batch", type=int, default=8, help="number of inputs in a batch")
    options = options_parser.parse_args()

    import tensorflow as tf

    model, empty = load(options.model)
    if options.signature not in model.signatures:
        sys.exit(
            f"The signature must be one of {', '.join(sorted(model.signatures))}. "
            f"Received: {options.signature}. Choose with --signature."
        )
    signature = model.signatures[options.signature]
    specs = signature.structured_input_signature[1]
    depths = {name: len(spec.shape) - 1 for name, spec in specs.items()}

    def answer(rows: list[Row]) -> Iterator[Row]:
        for row in rows if depths.keys() != {"inputs"} else ():
            check(row, options.signature, depths)
        try:
            found = signature(**features(tf, rows, set(specs)))
            outputs = {name: value.numpy() for name, value in found.items()}
        except (tf.errors.InvalidArgumentError, ValueError) as error:
            sys.exit(
                "Inputs must fit the export: ids of its vocabulary, no more of them than its "
                "max_length, as many types as ids, and as many choices in all of a batch. "
                f"Received: {str(error).splitlines()[0][:200]}"
            )
        for index in range(len(rows)):
            yield {name: value[index] for name, value in outputs.items()}

    serve(options, answer, options.batch, empty)


if __name__ == "__main__":
    run(main)

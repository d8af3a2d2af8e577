"""Answers texts with an exported TensorFlow Lite file.

    python tflite.py FILE --vocabulary spiece.model < texts
    python tflite.py FILE < texts
    python tflite.py FILE --signature ids < ids

The first form needs only ai-edge-litert and sentencepiece: it tokenizes here, calls the file's
signature `ids`, and reads the names of classes from the file's metadata. The second calls the
signature `text`, whose operator is in tensorflow-text, and so needs TensorFlow too. The third takes
ids made elsewhere.
Models of masked words that were exported with --predictions have the signature `masked`, which
takes only ids made elsewhere: --signature masked without --vocabulary.
Inputs and answers are lines: see --help, or `INPUTS` in `_rows.py`. With --vocabulary answers have
"input_ids" too, unless they are one label or value; outputs for each piece include padding.
"""

import math
import re
import sys
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from _rows import (  # type: ignore[import-not-found]  # beside this script
    TEXTS,
    Row,
    check,
    check_values,
    encoded,
    filled,
    is_row,
    longest,
    memory,
    padded,
    parser,
    run,
    serve,
)
from ai_edge_litert.interpreter import Interpreter, InterpreterWithCustomOps

LENGTH = 512  # pieces of a text, where neither the file nor --max-length limits them


def signatures(make: Callable[[], Any], path: str, name: str) -> list[Any]:
    """Returns functions that run a file's signature: `ids` alone, or else `ids_16`, `ids_64`, …"""
    open(path, "rb").close()  # its error is clearer than the interpreter's
    try:
        interpreter = make()
    except (RuntimeError, ValueError) as error:
        sys.exit(f"{path} must be a TensorFlow Lite file. Received: {str(error).splitlines()[0]}")
    names = sorted(interpreter.get_signature_list())
    if name == "ids" and all(each.startswith("masked") for each in names):
        sys.exit(
            "An export with --predictions has the signature masked alone, and takes ids that were "
            "made elsewhere. Received: the signature ids. Give --signature masked without "
            "--vocabulary, and lines with input_ids and masked_lm_positions."
        )
    chosen = [name] * (name in names)  # Where it is there, a number is a depth, else a length.
    chosen = chosen or [each for each in names if re.fullmatch(rf"{re.escape(name)}_\d+", each)]
    if not chosen:
        sys.exit(
            f"The signature must be one of {', '.join(names)}. Received: {name}. "
            "Choose with --signature."
        )
    return [interpreter.get_signature_runner(each) for each in chosen]


def shapes(signature: Any) -> dict[str, list[int]]:
    """Returns the shape of each input; -1 is any size."""
    details = signature.get_input_details().items()
    return {name: each["shape_signature"].tolist() for name, each in details}


def full(rows: list[Any], shape: list[int]) -> list[Any]:
    """Repeats the last row until there are as many as the shape demands."""
    return [*rows, *rows[-1:] * (shape[0] - len(rows))]


def labels(path: str) -> list[str]:
    """Returns the names of the classes in a file's metadata; none where it has none."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read("labels.txt").decode().split("\n")[:-1]
    except (zipfile.BadZipFile, KeyError):
        return []


def with_labels(outputs: Row, names: list[str], batch: int) -> Row:
    """Adds the names of the classes, and of the highest-scoring one of each text or piece."""
    classes = np.array(names, object)
    probabilities = outputs["probabilities"]
    best = "label" if probabilities.ndim == 2 else "labels"
    every = np.tile(classes, (batch, 1))
    return {**outputs, "classes": every, best: classes[probabilities.argmax(axis=-1)]}


class FromIds:
    """Runs a signature of ids; with a vocabulary it tokenizes first.

    Args:
        name: the signature.
        vocabulary: file of a SentencePiece model.
        max_length: number of pieces that a text is truncated to.
        side: the end of a text that truncation takes from, "right" or "left".
        words: add the names of classes.
    """

    def __init__(
        self, name: str, vocabulary: str | None, max_length: int | None, side: str, words: bool
    ):
        self.name, self.vocabulary, self.words = name, vocabulary, words
        self.max_length, self.side = max_length, side
        if vocabulary:
            import sentencepiece

            self.processor = sentencepiece.SentencePieceProcessor

    def load(self, path: str, threads: int) -> None:
        if self.vocabulary:
            self.pieces = self.opened(self.vocabulary)
        found = signatures(lambda: Interpreter(path, num_threads=threads), path, self.name)
        self.by_length = sorted(((shapes(each), each) for each in found), key=self.width)
        inputs, signature = self.by_length[-1]
        shape = inputs["input_ids"]
        self.batch = max(shape[0], 1)
        self.length = int(min(self.max_length or LENGTH, self.width(self.by_length[-1])))
        self.depths = {name: len(each) - 1 for name, each in inputs.items()}
        if self.vocabulary:
            self.depths |= dict.fromkeys(TEXTS, len(shape) - 2)
        outputs = signature.get_output_details()
        self.labels = labels(path) if self.words and "probabilities" in outputs else []
        asks = any(name.startswith(("start_", "end_")) for name in outputs)
        self.texts = set(TEXTS if asks or len(shape) > 2 else TEXTS[:1])

    @staticmethod
    def width(signature: tuple[dict[str, list[int]], Any]) -> float:
        """Returns the most ids of a row."""
        length = signature[0]["input_ids"][-1]
        return length if length > 0 else math.inf

    def opened(self, vocabulary: str) -> Any:
        open(vocabulary, "rb").close()  # its error is clearer than the processor's
        try:
            return self.processor(model_file=vocabulary)
        except (OSError, RuntimeError):
            sys.exit(
                "--vocabulary must be a SentencePiece model, spiece.model. "
                f"Received: {vocabulary}. Without --vocabulary the signature text tokenizes."
            )

    def __call__(self, rows: list[Row]) -> Row:
        given = [self.features(row) for row in rows]
        most = max(longest(each["input_ids"]) for each in given)
        fits = (each for each in self.by_length if self.width(each) >= most)
        inputs, signature = next(fits, self.by_length[-1])
        arguments = {
            name: self.array(name, [each[name] for each in given], shape, most)
            for name, shape in inputs.items()
        }
        try:
            outputs = signature(**arguments)
        except (RuntimeError, ValueError) as error:
            sys.exit(
                "Ids must be of the model's vocabulary, and no more of them than it has positions "
                f"(--max-length). Received: {str(error)[:200]!r}."
            )
        if self.labels:
            outputs = with_labels(outputs, self.labels, len(arguments["input_ids"]))
        if not outputs.keys() & {"label", "value"}:
            for row, each in zip(rows, given, strict=True):
                row["input_ids"] = each["input_ids"]
        return outputs

    def features(self, row: Row) -> Row:
        """Returns the inputs of a row, without padding."""
        if not self.vocabulary:
            check(row, self.name, self.depths)
        elif not self.texts <= row.keys():
            sys.exit(
                f"With --vocabulary an input of this model must have "
                f"{', '.join(sorted(self.texts))}. Received: {', '.join(sorted(row))}."
            )
        check_values(row, self.depths)
        given = {**row, **self.encoded(row)} if self.vocabulary else row
        ids = given["input_ids"]
        return {"token_type_ids": filled(ids, 0), **given, "attention_mask": filled(ids, 1)}

    def encoded(self, row: Row) -> Row:
        """Ids and types of a text or a pair, or of each choice."""
        texts = [row[name] for name in TEXTS if name in row]
        if isinstance(texts[0], str):
            return self.laid_out(texts)
        choices = [self.laid_out(list(each)) for each in zip(*texts, strict=True)]
        return {name: [each[name] for each in choices] for name in choices[0]}

    def laid_out(self, texts: list[str]) -> dict[str, list[int]]:
        classify, separate = map(self.pieces.piece_to_id, ("[CLS]", "[SEP]"))
        ids, types = [classify], [0]
        for segment, pieces in enumerate(self.truncated(self.pieces.encode(encoded(texts)))):
            ids += [*pieces, separate]
            types += [segment] * (len(pieces) + 1)
        return {"input_ids": ids, "token_type_ids": types}

    def truncated(self, texts: list[list[int]]) -> list[list[int]]:
        """Truncates the longer text first; of two equally long ones the second."""
        room = self.length - 1 - len(texts)
        kept = [min(len(text), room) for text in texts]
        if len(texts) == 2:
            first, second = map(len, texts)
            kept[0] = min(first, max(room - second, (room + 1) // 2))
            kept[1] = min(second, room - kept[0])
        is_left = self.side == "left"
        return [
            text[len(text) - size :] if is_left else text[:size]
            for text, size in zip(texts, kept, strict=True)
        ]

    def array(self, name: str, values: list[Any], shape: list[int], most: int) -> np.ndarray:
        """Pads the rows of an input to the shape of the signature's argument, or to `most`."""
        width = shape[-1] if shape[-1] > 0 else most
        rows = [[each] if is_row(each) else each for each in values]
        for row in rows:
            if len(row) != np.prod(shape[1:-1]) or longest(row) > width:
                sys.exit(
                    f"{name} must fit the shape {shape[1:]}. "
                    f"Received: {len(row)} of up to {longest(row)}."
                )
        array = np.array([padded(row, width) for row in full(rows, shape)], np.int32)
        return array.reshape(-1, *shape[1:-1], width)


class FromText:
    """Runs the signature `text`, or `text_3`, … of a depth."""

    def __init__(self, name: str) -> None:
        import tensorflow_text  # noqa: F401 (loads the libraries that the next one needs)
        from tensorflow_text.core.pybinds import tflite_registrar

        self.name = name
        self.operators = tflite_registrar.SELECT_TFTEXT_OPS

    def load(self, path: str, threads: int) -> None:
        def made() -> Any:
            return InterpreterWithCustomOps(self.operators, model_path=path, num_threads=threads)

        (self.signature,) = signatures(made, path, self.name)
        self.inputs = shapes(self.signature)
        self.batch = max(self.inputs["text"][0], 1)

    def __call__(self, rows: list[Row]) -> Row:
        for row in rows:
            check(row, "text", {name: len(shape) - 1 for name, shape in self.inputs.items()})
            for name, shape in self.inputs.items():
                if list(np.shape(row[name])) != shape[1:]:
                    sys.exit(f"{name} must have the shape {shape[1:]}. Received: {row[name]!r}.")
        # Of dtype object: NumPy's strings lose NULs at their end.
        texts = {
            name: np.array(full([encoded(row[name]) for row in rows], shape), object)
            for name, shape in self.inputs.items()
        }
        return self.signature(**texts)


def main() -> None:
    options_parser = parser(__doc__, "the .tflite file")
    options_parser.add_argument("--vocabulary", help="the model's spiece.model: tokenize here")
    options_parser.add_argument(
        "--signature",
        help="text, ids or masked, or of a depth text_3, ids_3, …; ids also takes the shortest of "
        "ids_16, ids_64, … that a row fits (default: ids with --vocabulary, text without)",
    )
    options_parser.add_argument(
        "--max-length",
        type=int,
        help=f"most pieces of a text, with --vocabulary (default: the signature's, or {LENGTH})",
    )
    options_parser.add_argument(
        "--truncation-side",
        choices=("right", "left"),
        default="right",
        help="end that a long text loses, with --vocabulary; the tokenizer's truncation_side",
    )
    options_parser.add_argument("--threads", type=int, default=1, help="number of threads")
    options = options_parser.parse_args()

    name = options.signature or ("ids" if options.vocabulary else "text")
    if name.startswith("masked") and options.vocabulary:
        options_parser.error(
            "--signature masked takes ids made elsewhere: leave --vocabulary out, and give lines "
            "with input_ids and masked_lm_positions."
        )
    # Saved arrays are the signature's outputs alone.
    words = not options.save
    model = (
        FromText(name)
        if name.startswith("text")
        else FromIds(name, options.vocabulary, options.max_length, options.truncation_side, words)
    )
    empty = memory("VmRSS")
    model.load(options.model, options.threads)

    def answer(rows: list[Row]) -> list[Row]:
        outputs = model(rows)
        return [{name: value[row] for name, value in outputs.items()} for row, _ in enumerate(rows)]

    serve(options, answer, model.batch, empty)


if __name__ == "__main__":
    run(main)

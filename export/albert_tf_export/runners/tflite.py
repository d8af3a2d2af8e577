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
    longest,
    memory,
    padded,
    parser,
    run,
    serve,
)
from ai_edge_litert.interpreter import Interpreter, InterpreterWithCustomOps


def signature_runner(make: Callable[[], Any], path: str, name: str) -> Any:
    """Returns a function that runs a file's signature."""
    open(path, "rb").close()  # its error is clearer than the interpreter's
    try:
        interpreter = make()
    except (RuntimeError, ValueError) as error:
        sys.exit(f"{path} must be a TensorFlow Lite file. Received: {str(error).splitlines()[0]}")
    names = sorted(interpreter.get_signature_list())
    if name == "ids" and names == ["masked"]:
        sys.exit(
            "An export with --predictions has the signature masked alone, and takes ids that were "
            "made elsewhere. Received: the signature ids. Give --signature masked without "
            "--vocabulary, and lines with input_ids and masked_lm_positions."
        )
    if name not in names:
        sys.exit(
            f"The signature must be one of {', '.join(names)}. Received: {name}. "
            "Choose with --signature."
        )
    return interpreter.get_signature_runner(name)


def labels(path: str) -> list[str]:
    """Returns the names of the classes in a file's metadata; none where it has none."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read("labels.txt").decode().split("\n")[:-1]
    except (zipfile.BadZipFile, KeyError):
        return []


def in_words(outputs: Row, names: list[str]) -> Row:
    """Adds the names of the classes, and of the highest-scoring one of each text or piece."""
    classes = np.array(names, object)
    odds = outputs["probabilities"]
    best = "label" if odds.ndim == 2 else "labels"
    return {**outputs, "classes": classes[None], best: classes[odds.argmax(axis=-1)]}


class FromIds:
    """Runs a signature of ids; with a vocabulary it tokenizes first.

    Args:
        name: the signature.
        vocabulary: file of a SentencePiece model.
        words: add the names of classes.
    """

    def __init__(self, name: str, vocabulary: str | None, words: bool):
        self.name, self.vocabulary, self.words = name, vocabulary, words
        if vocabulary:
            import sentencepiece

            self.processor = sentencepiece.SentencePieceProcessor

    def load(self, path: str, threads: int) -> None:
        if self.vocabulary:
            self.pieces = self.opened(self.vocabulary)
        self.signature = signature_runner(
            lambda: Interpreter(path, num_threads=threads), path, self.name
        )
        self.inputs = self.signature.get_input_details()
        shape = self.inputs["input_ids"]["shape"]
        self.length = int(shape[-1])
        self.depths = {name: len(each["shape"]) - 1 for name, each in self.inputs.items()}
        if self.vocabulary:
            self.depths |= dict.fromkeys(TEXTS, len(shape) - 2)
        outputs = self.signature.get_output_details()
        self.labels = labels(path) if self.words and "probabilities" in outputs else []
        asks = any(name.startswith(("start_", "end_")) for name in outputs)
        self.texts = set(TEXTS if asks or len(shape) > 2 else TEXTS[:1])

    def opened(self, vocabulary: str) -> Any:
        open(vocabulary, "rb").close()  # its error is clearer than the processor's
        try:
            return self.processor(model_file=vocabulary)
        except (OSError, RuntimeError):
            sys.exit(
                "--vocabulary must be a SentencePiece model, spiece.model. "
                f"Received: {vocabulary}. Without --vocabulary the signature text tokenizes."
            )

    def __call__(self, row: Row) -> Row:
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
        features = {"token_type_ids": filled(ids, 0), **given, "attention_mask": filled(ids, 1)}
        arguments = {name: self.fixed(name, features[name]) for name in self.inputs}
        try:
            outputs = self.signature(**arguments)
        except (RuntimeError, ValueError) as error:
            sys.exit(f"Ids must be of the model's vocabulary. Received: {str(error)[:200]!r}.")
        if self.labels:
            outputs = in_words(outputs, self.labels)
        if not outputs.keys() & {"label", "value"}:
            row["input_ids"] = ids
        return outputs

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
        if len(texts) == 1:
            return [texts[0][:room]]
        first, second = texts
        left = min(len(first), max(room - len(second), (room + 1) // 2))
        return [first[:left], second[: room - left]]

    def fixed(self, name: str, values: list[Any]) -> np.ndarray:
        """Pads an input to the shape of the signature's argument."""
        shape = self.inputs[name]["shape"]
        rows = values if values and isinstance(values[0], list) else [values]
        if len(rows) != np.prod(shape[:-1]) or longest(rows) > shape[-1]:
            sys.exit(
                f"{name} must fit the shape {shape.tolist()[1:]}. "
                f"Received: {len(rows)} of up to {longest(rows)}."
            )
        return np.array(padded(rows, shape[-1]), np.int32).reshape(shape)


class FromText:
    """Runs the signature `text`."""

    def __init__(self) -> None:
        import tensorflow_text  # noqa: F401 (loads the libraries that the next one needs)
        from tensorflow_text.core.pybinds import tflite_registrar

        self.operators = tflite_registrar.SELECT_TFTEXT_OPS

    def load(self, path: str, threads: int) -> None:
        def made() -> Any:
            return InterpreterWithCustomOps(self.operators, model_path=path, num_threads=threads)

        self.signature = signature_runner(made, path, "text")
        self.inputs = self.signature.get_input_details()

    def __call__(self, row: Row) -> Row:
        check(row, "text", {name: len(each["shape"]) - 1 for name, each in self.inputs.items()})
        # Of dtype object: NumPy's strings lose NULs at their end.
        texts = {name: np.array([encoded(row[name])], object) for name in self.inputs}
        for name, value in texts.items():
            shape = self.inputs[name]["shape"].tolist()
            if list(value.shape) != shape:
                sys.exit(f"{name} must have the shape {shape[1:]}. Received: {row[name]!r}.")
        return self.signature(**texts)


def main() -> None:
    options_parser = parser(__doc__, "the .tflite file")
    options_parser.add_argument("--vocabulary", help="the model's spiece.model: tokenize here")
    options_parser.add_argument(
        "--signature",
        choices=("text", "ids", "masked"),
        help="name of the signature (default: ids with --vocabulary, text without)",
    )
    options_parser.add_argument("--threads", type=int, default=1, help="number of threads")
    options = options_parser.parse_args()

    name = options.signature or ("ids" if options.vocabulary else "text")
    if name == "masked" and options.vocabulary:
        options_parser.error(
            "--signature masked takes ids made elsewhere: leave --vocabulary out, and give lines "
            "with input_ids and masked_lm_positions."
        )
    model: FromText | FromIds = (
        FromText() if name == "text" else FromIds(name, options.vocabulary, words=not options.save)
    )
    empty = memory("VmRSS")
    model.load(options.model, options.threads)

    def answer(rows: list[Row]) -> list[Row]:
        (row,) = rows
        return [{name: value[0] for name, value in model(row).items()}]

    serve(options, answer, 1, empty)


if __name__ == "__main__":
    run(main)

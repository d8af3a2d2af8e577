"""Answers texts with an exported TensorFlow Lite file.

    python tflite.py FILE --vocabulary spiece.model < texts
    python tflite.py FILE < texts
    python tflite.py FILE --signature ids < ids

The first form needs ai-edge-litert and sentencepiece alone: it cuts the text into pieces here, and
calls the file's signature `ids`. The second calls its signature `text`, whose operator is in
tensorflow-text, so that needs TensorFlow too. The third is for ids made elsewhere.
A line of input is a text, or JSON: {"text": …}, with "text_pair" for models of pairs; or
{"input_ids": […], "token_type_ids": […]}, for the signature `masked` also "masked_lm_positions".
`masked` is of models of masked words that were exported with --predictions; its ids come from
outside, for what is cut here has no places to predict: --signature masked without --vocabulary.
For multiple choice each is a list of as many as there are choices.
A line of output is JSON: the input, then what the signature answers, by name. For a classifier it
is "label", "probabilities" by label and "logits", or "value" and "logits" for regression. Otherwise
the first form adds "input_ids", and outputs of pieces go on after them, with padding.
`--save FILE` writes arrays in the place of JSON, for NumPy: "ROW/NAME". `--report FILE` adds a file
with the peak of memory over an empty interpreter in MB (Linux), and the milliseconds for a text.
"""

import argparse
import contextlib
import json
import os
import re
import statistics
import sys
import time
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, InterpreterWithCustomOps

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
TEXTS = ("text", "text_pair")


def memory(field: str) -> float:
    """MB by /proc/self/status: VmRSS now, VmHWM at its peak; 0 where there is no such file."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))
    except FileNotFoundError:
        return 0.0


def read(line: str) -> dict[str, Any]:
    line = line.rstrip("\r\n")
    if line.startswith("{"):
        with contextlib.suppress(ValueError):
            return json.loads(line)
    return {"text": line}


def runner(make: Any, path: str, name: str) -> Any:
    """What calls a signature of a file."""
    open(path, "rb").close()  # fails with a better message
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


def check(row: dict[str, Any], needed: set[str], name: str) -> None:
    """Ends with a message where an input isn't one of the signature's."""
    given = row.keys() & (set(TEXTS) if needed & set(TEXTS) else needed)
    if given != needed:
        sys.exit(
            f"An input of the signature {name} must have {', '.join(sorted(needed))}. "
            f"Received: {', '.join(sorted(row))}."
        )


def check_given(row: dict[str, Any], needed: set[str]) -> None:
    """Ends with a message where a text is missing that is to be cut here."""
    if not needed <= row.keys():
        sys.exit(
            f"With --vocabulary an input of this model must have {', '.join(sorted(needed))}. "
            f"Received: {', '.join(sorted(row))}."
        )


class FromIds:
    """Calls a signature of ids, and before that cuts texts into pieces."""

    def __init__(self, name: str, vocabulary: str | None):
        self.name, self.vocabulary = name, vocabulary
        if vocabulary:
            import sentencepiece

            self.processor = sentencepiece.SentencePieceProcessor

    def load(self, path: str, threads: int) -> None:
        if self.vocabulary:
            self.pieces = self.opened(self.vocabulary)
        self.signature = runner(lambda: Interpreter(path, num_threads=threads), path, self.name)
        self.inputs = self.signature.get_input_details()
        shape = self.inputs["input_ids"]["shape"]
        self.length = int(shape[-1])
        self.depths = {name: len(each["shape"]) - 1 for name, each in self.inputs.items()}
        if self.vocabulary:
            self.depths |= dict.fromkeys(TEXTS, len(shape) - 2)
        outputs = self.signature.get_output_details()
        asks = any(name.startswith(("start_", "end_")) for name in outputs)
        self.texts = set(TEXTS if asks or len(shape) > 2 else TEXTS[:1])

    def opened(self, vocabulary: str) -> Any:
        open(vocabulary, "rb").close()  # fails with a better message
        try:
            return self.processor(model_file=vocabulary)
        except (OSError, RuntimeError):
            sys.exit(
                "--vocabulary must be a SentencePiece model, spiece.model; others can't be cut "
                f"here. Received: {vocabulary}. Without --vocabulary the signature text cuts."
            )

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        if self.vocabulary:
            check_given(row, self.texts)
        else:
            check(row, self.inputs.keys() - {"attention_mask", "token_type_ids"}, self.name)
        check_values(row, self.depths)
        given = {**row, **self.encoded(row)} if self.vocabulary else row
        ids = given["input_ids"]
        features = {"token_type_ids": filled(ids, 0), **given, "attention_mask": filled(ids, 1)}
        arguments = {name: self.padded(name, features[name]) for name in self.inputs}
        try:
            outputs = self.signature(**arguments)
        except (RuntimeError, ValueError) as error:
            sys.exit(f"Ids must be of the model's vocabulary. Received: {str(error)[:200]!r}.")
        if not outputs.keys() & {"label", "value"}:
            row["input_ids"] = ids
        return outputs

    def encoded(self, row: dict[str, Any]) -> dict[str, Any]:
        """Ids and types of a text or a pair, or of each choice."""
        texts = [row[name] for name in ("text", "text_pair") if name in row]
        if isinstance(texts[0], str):
            return self.laid_out(texts)
        choices = [self.laid_out(list(each)) for each in zip(*texts, strict=True)]
        return {name: [each[name] for each in choices] for name in choices[0]}

    def laid_out(self, texts: list[str]) -> dict[str, list[int]]:
        classify, separate = map(self.pieces.piece_to_id, ("[CLS]", "[SEP]"))
        ids, types = [classify], [0]
        for segment, pieces in enumerate(self.cut(self.pieces.encode(encoded(texts)))):
            ids += [*pieces, separate]
            types += [segment] * (len(pieces) + 1)
        return {"input_ids": ids, "token_type_ids": types}

    def cut(self, texts: list[list[int]]) -> list[list[int]]:
        """Pieces that fit: the longer text loses some from its end, the second of two alike."""
        room = self.length - 1 - len(texts)
        if len(texts) == 1:
            return [texts[0][:room]]
        first, second = texts
        kept = min(len(first), max(room - len(second), (room + 1) // 2))
        return [first[:kept], second[: room - kept]]

    def padded(self, name: str, values: list[Any]) -> np.ndarray:
        """An input of the signature's shape: 0, the id of padding, after the values."""
        shape = self.inputs[name]["shape"]
        rows = values if values and isinstance(values[0], list) else [values]
        if len(rows) != np.prod(shape[:-1]) or max(map(len, rows)) > shape[-1]:
            sys.exit(
                f"{name} must fit the shape {shape.tolist()[1:]}. "
                f"Received: {len(rows)} of up to {max(map(len, rows))}."
            )
        filled_up = [[*each, *[0] * (shape[-1] - len(each))] for each in rows]
        return np.array(filled_up, np.int32).reshape(shape)


def filled(values: list[Any], value: int) -> list[Any]:
    """The same nesting of lists, with one value everywhere."""
    if values and isinstance(values[0], list):
        return [filled(each, value) for each in values]
    return [value] * len(values)


class FromText:
    """Calls the signature `text`."""

    def __init__(self) -> None:
        import tensorflow_text  # noqa: F401 (loads the libraries that the next one needs)
        from tensorflow_text.core.pybinds import tflite_registrar

        self.operators = tflite_registrar.SELECT_TFTEXT_OPS

    def load(self, path: str, threads: int) -> None:
        def made() -> Any:
            return InterpreterWithCustomOps(self.operators, model_path=path, num_threads=threads)

        self.signature = runner(made, path, "text")
        self.inputs = self.signature.get_input_details()

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        check(row, set(self.inputs), "text")
        check_values(row, {name: len(each["shape"]) - 1 for name, each in self.inputs.items()})
        # Of objects: NumPy's own strings lose NULs at their end.
        texts = {name: np.array([encoded(row[name])], object) for name in self.inputs}
        for name, value in texts.items():
            shape = self.inputs[name]["shape"].tolist()
            if list(value.shape) != shape:
                sys.exit(f"{name} must have the shape {shape[1:]}. Received: {row[name]!r}.")
        return self.signature(**texts)


def encoded(text: Any) -> Any:
    """A text, or a list of them, in UTF-8; bytes that aren't stay as they were read."""
    if isinstance(text, list):
        return [encoded(each) for each in text]
    whole = re.sub("[\ud800-\udc7f\udd00-\udfff]", "\ufffd", text)  # no half characters
    return whole.encode("utf-8", "surrogateescape")


def fits(value: Any, depth: int, kind: type) -> bool:
    """Whether it is lists of lists, `depth` of them, and texts or ids in the innermost."""
    if depth:
        return isinstance(value, list) and all(fits(each, depth - 1, kind) for each in value)
    if kind is str:
        return isinstance(value, str)
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def check_values(row: dict[str, Any], depths: dict[str, int]) -> None:
    """Ends with a message where a value isn't what its name says."""
    for name in sorted(depths.keys() & row.keys()):
        is_text = name in TEXTS
        if not fits(row[name], depths[name], str if is_text else int):
            one, many = ("a text", "texts") if is_text else ("an id", "ids from 0 to 2147483647")
            nested = ["", "a list of ", "a list of lists of "][depths[name]]
            wanted = nested + (many if nested else one)
            sys.exit(f"{name} must be {wanted}. Received: {str(row[name])[:60]!r}.")
    counts = {name: len(row[name]) for name in TEXTS if name in row and depths.get(name)}
    if len(set(counts.values())) > 1:
        sys.exit(
            "There must be as many text_pair as text, one of each for a choice. "
            f"Received: {counts['text']} and {counts['text_pair']}."
        )


def array(value: Any) -> np.ndarray:
    """As files hold it: bytes in an array of NumPy's own."""
    value = np.asarray(value)
    return np.array(value.tolist(), "S") if value.dtype == object else value


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def readable(row: dict[str, Any]) -> dict[str, Any]:
    """A signature's outputs as JSON has them."""
    answer = {name: plain(np.asarray(value).tolist()) for name, value in row.items()}
    if "label" not in answer:
        return answer
    odds = dict(zip(answer["classes"], answer["probabilities"], strict=True))
    return {"logits": answer["logits"], "label": answer["label"], "probabilities": odds}


class Sink:
    """Where answers go: JSON lines at once, or arrays into a file at the end."""

    def __init__(self, file: str | None):
        self.file = file
        self.arrays: dict[str, Any] = {}
        self.count = 0

    def add(self, row: dict[str, Any], outputs: dict[str, Any]) -> None:
        if self.file:
            self.arrays |= {f"{self.count}/{name}": array(value) for name, value in outputs.items()}
        else:
            answer = {**row, **readable(outputs)}
            line = json.dumps(answer, ensure_ascii=False)
            sys.stdout.write(re.sub("[\ud800-\udfff]", "\ufffd", line) + "\n")
        self.count += 1

    def close(self) -> None:
        if self.file:
            np.savez(self.file, **self.arrays)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="the .tflite file")
    parser.add_argument("--vocabulary", help="the model's spiece.model: cut texts into pieces here")
    parser.add_argument(
        "--signature",
        choices=("text", "ids", "masked"),
        help="default: ids with --vocabulary, text without",
    )
    parser.add_argument("--input", default="-", help="a file of inputs; default: standard input")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save", help="a file for the outputs as arrays (.npz)")
    parser.add_argument("--report", help="a file for memory and time, as JSON")
    options = parser.parse_args()

    name = options.signature or ("ids" if options.vocabulary else "text")
    if name == "masked" and options.vocabulary:
        parser.error(
            "--signature masked takes ids made elsewhere: leave --vocabulary out, and give lines "
            "with input_ids and masked_lm_positions."
        )
    model: FromText | FromIds
    model = FromText() if name == "text" else FromIds(name, options.vocabulary)
    empty = memory("VmRSS")
    model.load(options.model, options.threads)
    times, sink = [], Sink(options.save)
    source = 0 if options.input == "-" else options.input
    with open(source, encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        for row in map(read, lines):
            start = time.perf_counter()
            outputs = model(row)
            times.append(time.perf_counter() - start)
            sink.add(row, {name: value[0] for name, value in outputs.items()})
    sink.close()
    if options.report:
        report = {
            "peak_memory_mb": memory("VmHWM") - empty,
            "milliseconds": 1000 * statistics.median(times or [0.0]),
        }
        with open(options.report, "w", encoding="utf-8") as file:
            json.dump(report, file)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the answers has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        sys.exit(str(error))

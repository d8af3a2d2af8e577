"""Answers texts with an exported TensorFlow Lite file.

    python tflite.py FILE --vocabulary spiece.model < texts
    python tflite.py FILE < texts

The first form needs ai-edge-litert and sentencepiece alone: it cuts the text into pieces here, and
calls the file's signature `ids`. The second calls its signature `text`, whose operator is in
tensorflow-text, so that needs TensorFlow too.
A line of input is a text, or JSON: {"text": …}, with "text_pair" for models of pairs.
A line of output is JSON: the input, then "label", "probabilities" by label and "logits", or "value"
and "logits" for regression. `--report FILE` adds a file with the peak of memory over an empty
interpreter in MB (Linux), and the milliseconds for a text.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import time
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, InterpreterWithCustomOps

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


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


class FromIds:
    """Cuts texts into pieces and calls the signature `ids`."""

    def __init__(self, vocabulary: str):
        import sentencepiece

        self.processor = sentencepiece.SentencePieceProcessor
        self.vocabulary = vocabulary

    def load(self, path: str, threads: int) -> None:
        self.pieces = self.processor(model_file=self.vocabulary)
        interpreter = Interpreter(path, num_threads=threads)
        self.signature = interpreter.get_signature_runner("ids")
        self.length = int(self.signature.get_input_details()["input_ids"]["shape"][1])

    def __call__(self, row: dict[str, str]) -> dict[str, Any]:
        texts = [row[name] for name in ("text", "text_pair") if name in row]
        classify, separate = map(self.pieces.piece_to_id, ("[CLS]", "[SEP]"))
        ids, types = [classify], [0]
        for segment, pieces in enumerate(self.cut(self.pieces.encode(texts))):
            ids += [*pieces, separate]
            types += [segment] * (len(pieces) + 1)
        return self.signature(
            input_ids=self.padded(ids, self.pieces.pad_id()),
            attention_mask=self.padded([1] * len(ids)),
            token_type_ids=self.padded(types),
        )

    def cut(self, texts: list[list[int]]) -> list[list[int]]:
        """Pieces that fit: the longer text loses some from its end, the second of two alike."""
        room = self.length - 1 - len(texts)
        if len(texts) == 1:
            return [texts[0][:room]]
        first, second = texts
        kept = min(len(first), max(room - len(second), (room + 1) // 2))
        return [first[:kept], second[: room - kept]]

    def padded(self, values: list[int], padding: int = 0) -> np.ndarray:
        return np.array([values + [padding] * (self.length - len(values))], np.int32)


class FromText:
    """Calls the signature `text`."""

    def __init__(self) -> None:
        import tensorflow_text  # noqa: F401 (loads the libraries that the next one needs)
        from tensorflow_text.core.pybinds import tflite_registrar

        self.operators = tflite_registrar.SELECT_TFTEXT_OPS

    def load(self, path: str, threads: int) -> None:
        interpreter = InterpreterWithCustomOps(self.operators, model_path=path, num_threads=threads)
        self.signature = interpreter.get_signature_runner("text")

    def __call__(self, row: dict[str, str]) -> dict[str, Any]:
        texts = {name: row[name].encode() for name in ("text", "text_pair") if name in row}
        # Of objects: NumPy's own strings lose NULs at their end.
        return self.signature(**{name: np.array([text], object) for name, text in texts.items()})


def readable(outputs: dict[str, Any]) -> dict[str, Any]:
    """A signature's outputs as JSON has them."""
    row = {name: value[0] for name, value in outputs.items()}
    answer = {"logits": row["logits"].tolist()}
    if "label" in row:
        names = [name.decode() for name in row["classes"]]
        answer["label"] = row["label"].decode()
        answer["probabilities"] = dict(zip(names, row["probabilities"].tolist(), strict=True))
    else:
        answer["value"] = row["value"].tolist()
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="the .tflite file")
    parser.add_argument("--vocabulary", help="the model's spiece.model: cut texts into pieces here")
    parser.add_argument("--input", default="-", help="a file of inputs; default: standard input")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--report", help="a file for memory and time, as JSON")
    options = parser.parse_args()

    model: FromIds | FromText = FromIds(options.vocabulary) if options.vocabulary else FromText()
    empty = memory("VmRSS")
    model.load(options.model, options.threads)
    times = []
    with open(0 if options.input == "-" else options.input, encoding="utf-8") as lines:
        for row in map(read, lines):
            start = time.perf_counter()
            outputs = model(row)
            times.append(time.perf_counter() - start)
            answer = {**row, **readable(outputs)}
            sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
    if options.report:
        report = {
            "peak_memory_mb": memory("VmHWM") - empty,
            "milliseconds": 1000 * statistics.median(times or [0.0]),
        }
        with open(options.report, "w", encoding="utf-8") as file:
            json.dump(report, file)


if __name__ == "__main__":
    main()

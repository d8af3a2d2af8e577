"""Answers texts with an exported SavedModel.

Needs TensorFlow and tensorflow-text alone, or TensorFlow alone where the export is of ids only.

    python saved_model.py FOLDER < texts

A line of input is a text, or JSON: {"text": …}, with "text_pair" for models of pairs. With
`--signature ids` it is {"input_ids": […], "token_type_ids": […]}, with `--signature masked` also
"masked_lm_positions". For multiple choice each is a list of as many as there are choices.
A line of output is JSON: the input, then what the signature answers, by name. For a classifier it
is "label", "probabilities" by label and "logits", or "value" and "logits" for regression.
`--save FILE` writes arrays in the place of JSON, for NumPy: "ROW/NAME". `--report FILE` adds a file
with the peak of memory over an empty interpreter in MB (Linux), and the milliseconds for a text.
"""

import argparse
import contextlib
import itertools
import json
import os
import re
import statistics
import sys
import time
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
TEXTS = ("text", "text_pair")


def memory(field: str) -> float:
    """MB by /proc/self/status: VmRSS now, VmHWM at its peak; 0 where there is no such file."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))
    except FileNotFoundError:
        return 0.0


def needs_text(folder: str) -> bool:
    """Whether the export has an operator of tensorflow-text, without which it loads nowhere."""
    with open(os.path.join(folder, "saved_model.pb"), "rb") as file:
        graph = file.read()
    return any(name in graph for name in (b"TFText>", b"FastBertNormalize", b"FastWordpiece"))


def read(line: str) -> dict[str, Any]:
    line = line.rstrip("\r\n")
    if line.startswith("{"):
        with contextlib.suppress(ValueError):
            return json.loads(line)
    return {"text": line}


def check(row: dict[str, Any], signature: str, depths: dict[str, int]) -> None:
    """Ends with a message where an input isn't one of the signature's.

    `depths`: of its arguments, how deep the lists of one input are.
    """
    needed = depths.keys() - {"attention_mask", "token_type_ids"}
    given = row.keys() & (set(TEXTS) if needed & set(TEXTS) else needed)
    if given != needed:
        sys.exit(
            f"An input of the signature {signature} must have {', '.join(sorted(needed))}. "
            f"Received: {', '.join(sorted(row))}."
        )
    check_values(row, depths)


def features(tf: Any, rows: list[dict[str, Any]], wanted: set[str]) -> dict[str, Any]:
    """The arguments of a signature for a batch of inputs."""
    if "text" in wanted:
        return {name: tf.constant([encoded(row[name]) for row in rows]) for name in wanted}
    ids = [row["input_ids"] for row in rows]
    types = [row.get("token_type_ids") or filled(row["input_ids"], 0) for row in rows]
    batch = {"input_ids": ids, "attention_mask": filled(ids, 1), "token_type_ids": types}
    if "masked_lm_positions" in wanted:
        batch["masked_lm_positions"] = [row["masked_lm_positions"] for row in rows]
    return {
        name: tf.constant(padded(values, longest(values)), tf.int32)
        for name, values in batch.items()
    }


def answers(
    tf: Any, signature: Any, rows: list[dict[str, Any]], wanted: set[str]
) -> dict[str, np.ndarray]:
    """What a signature answers to a batch; ends with a message where it doesn't take that."""
    try:
        found = signature(**features(tf, rows, wanted))
        return {name: value.numpy() for name, value in found.items()}
    except (tf.errors.InvalidArgumentError, ValueError) as error:
        sys.exit(
            "Inputs must fit the export: ids of its vocabulary, no more of them than its "
            "max_length, as many types as ids, and as many choices in all of a batch. "
            f"Received: {str(error).splitlines()[0][:200]}"
        )


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


def is_row(values: list[Any]) -> bool:
    return not (values and isinstance(values[0], list))


def filled(values: list[Any], value: int) -> list[Any]:
    """The same nesting of lists, with one value everywhere."""
    return [value] * len(values) if is_row(values) else [filled(each, value) for each in values]


def longest(values: list[Any]) -> int:
    return len(values) if is_row(values) else max(longest(each) for each in values)


def padded(values: list[Any], width: int) -> list[Any]:
    if is_row(values):
        return [*values, *[0] * (width - len(values))]
    return [padded(each, width) for each in values]


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
    """One row of a signature's outputs as JSON has it."""
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
    parser.add_argument("model", help="the SavedModel's folder")
    parser.add_argument("--signature", default="text", choices=("text", "ids", "masked"))
    parser.add_argument("--input", default="-", help="a file of inputs; default: standard input")
    parser.add_argument("--batch", type=int, default=8, help="inputs answered at once")
    parser.add_argument("--save", help="a file for the outputs as arrays (.npz)")
    parser.add_argument("--report", help="a file for memory and time, as JSON")
    options = parser.parse_args()

    import tensorflow as tf

    if needs_text(options.model):
        import tensorflow_text  # noqa: F401
    empty = memory("VmRSS")
    model = tf.saved_model.load(options.model)
    if options.signature not in model.signatures:
        sys.exit(
            f"The signature must be one of {', '.join(sorted(model.signatures))}. "
            f"Received: {options.signature}. Choose with --signature."
        )
    signature = model.signatures[options.signature]
    specs = signature.structured_input_signature[1]
    depths = {name: len(spec.shape) - 1 for name, spec in specs.items()}
    times, sink = [], Sink(options.save)
    source = 0 if options.input == "-" else options.input
    with open(source, encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        inputs = map(read, lines)
        while rows := list(itertools.islice(inputs, options.batch)):
            for row in rows:
                check(row, options.signature, depths)
            start = time.perf_counter()
            outputs = answers(tf, signature, rows, set(specs))
            times.append((time.perf_counter() - start) / len(rows))
            for index, row in enumerate(rows):
                sink.add(row, {name: value[index] for name, value in outputs.items()})
    sink.close()
    if options.report:
        report = {
            "peak_memory_mb": memory("VmHWM") - empty,
            # The first batch also traces and compiles.
            "milliseconds": 1000 * statistics.median(times[1:] or times or [0.0]),
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

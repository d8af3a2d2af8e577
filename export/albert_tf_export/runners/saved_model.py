"""Answers texts with an exported SavedModel.

Needs TensorFlow and tensorflow-text alone, or TensorFlow alone where the export is of ids only.

    python saved_model.py FOLDER < texts

A line of input is a text, or JSON: {"text": …}, with "text_pair" for models of pairs. With
`--signature ids` it is {"input_ids": […], "token_type_ids": […]}.
A line of output is JSON: the input, then "label", "probabilities" by label and "logits", or "value"
and "logits" for regression. `--report FILE` adds a file with the peak of memory over an empty
interpreter in MB (Linux), and the milliseconds for a text.
"""

import argparse
import contextlib
import itertools
import json
import os
import statistics
import sys
import time
from typing import Any

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


def features(tf: Any, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The arguments of a signature for a batch of inputs."""
    if "input_ids" not in rows[0]:
        names = [name for name in ("text", "text_pair") if name in rows[0]]
        return {name: tf.constant([row[name].encode() for row in rows]) for name in names}
    width = max(len(row["input_ids"]) for row in rows)

    def padded(lists: list[list[int]]) -> Any:
        return tf.constant([[*row, *[0] * (width - len(row))] for row in lists], tf.int32)

    ids = [row["input_ids"] for row in rows]
    types = [row.get("token_type_ids", [0] * len(row["input_ids"])) for row in rows]
    return {
        "input_ids": padded(ids),
        "attention_mask": padded([[1] * len(row) for row in ids]),
        "token_type_ids": padded(types),
    }


def readable(outputs: dict[str, Any], index: int) -> dict[str, Any]:
    """One row of a signature's outputs as JSON has it."""
    row = {name: value[index] for name, value in outputs.items()}
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
    parser.add_argument("model", help="the SavedModel's folder")
    parser.add_argument("--signature", default="text", choices=("text", "ids"))
    parser.add_argument("--input", default="-", help="a file of inputs; default: standard input")
    parser.add_argument("--batch", type=int, default=8, help="inputs answered at once")
    parser.add_argument("--report", help="a file for memory and time, as JSON")
    options = parser.parse_args()

    import tensorflow as tf

    with open(os.path.join(options.model, "saved_model.pb"), "rb") as graph:
        if b"TFText>" in graph.read():  # Then it loads nowhere without these operators.
            import tensorflow_text  # noqa: F401
    empty = memory("VmRSS")
    signature = tf.saved_model.load(options.model).signatures[options.signature]
    times = []
    with open(0 if options.input == "-" else options.input, encoding="utf-8") as lines:
        inputs = map(read, lines)
        while rows := list(itertools.islice(inputs, options.batch)):
            start = time.perf_counter()
            outputs = {k: v.numpy() for k, v in signature(**features(tf, rows)).items()}
            times.append((time.perf_counter() - start) / len(rows))
            for index, row in enumerate(rows):
                answer = {**row, **readable(outputs, index)}
                sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
    if options.report:
        report = {
            "peak_memory_mb": memory("VmHWM") - empty,
            # The first batch also traces and compiles.
            "milliseconds": 1000 * statistics.median(times[1:] or times or [0.0]),
        }
        with open(options.report, "w", encoding="utf-8") as file:
            json.dump(report, file)


if __name__ == "__main__":
    main()

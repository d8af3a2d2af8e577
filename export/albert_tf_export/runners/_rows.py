"""Code that the runners share: copy this file together with the runner that you use.

Reads inputs, one a line, in batches; writes answers as JSON lines, or as arrays.
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
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
INPUTS = """\
An input is a line: a text, or JSON: {"text": …}, with "text_pair" for models of pairs. For the
signature `ids` it is {"input_ids": […], "token_type_ids": […]}, for `masked` also
"masked_lm_positions". For multiple choice each of these is a list with one item for each choice.
An answer is a line of JSON: the input, then the signature's outputs by name. For a classifier these
are "label", "probabilities" by label and "logits"; for regression "value" and "logits".
`--save FILE` writes NumPy arrays instead of JSON, named "ROW/NAME". `--report FILE` also writes the
peak of memory over an empty interpreter in MB (Linux), and for a text the median of milliseconds
and the mean of the processor's.
"""
TEXTS = ("text", "text_pair")
OPTIONAL = {"attention_mask", "token_type_ids"}
Row = dict[str, Any]


def parser(description: str | None, model: str) -> argparse.ArgumentParser:
    """Returns a parser with the options of all scripts."""
    made = argparse.ArgumentParser(
        description=description,
        epilog=INPUTS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("model", help=model)
    made.add_argument("--input", default="-", help="file of inputs (default: standard input)")
    made.add_argument("--save", help="file for the outputs as arrays (.npz)")
    made.add_argument("--report", help="file for memory and time, as JSON")
    return made


def run(main: Callable[[], None]) -> None:
    """Runs a script; a closed pipe ends it in silence, a missing file or package with a message."""
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the answers has closed its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except ModuleNotFoundError as error:
        sys.exit(
            f"The package {(error.name or '').replace('_', '-')} must be installed. Received: a "
            "Python without it. Without tensorflow-text, which Windows lacks, give ids, or to a "
            ".tflite file texts with --vocabulary."
        )
    except OSError as error:
        sys.exit(str(error))


def memory(field: str) -> float:
    """MB in /proc/self/status: VmRSS is the present size, VmHWM its peak; 0 without that file."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))
    except FileNotFoundError:
        return 0.0


def serve(
    options: argparse.Namespace,
    answer: Callable[[list[Row]], Iterable[Row]],
    batch: int,
    empty: float,
) -> None:
    """Answers all inputs.

    Args:
        answer: returns the outputs of each row of a batch.
        empty: MB before the model was loaded.
    """
    times, processor_times, count = [], [], 0
    arrays: dict[str, Any] = {}
    source = 0 if options.input == "-" else options.input
    with open(source, encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        inputs = map(_read, lines)
        while rows := list(itertools.islice(inputs, batch)):
            start, processor_start = time.perf_counter(), time.process_time()
            answers = list(answer(rows))
            times.append((time.perf_counter() - start) / len(rows))
            processor_times.append((time.process_time() - processor_start) / len(rows))
            for row, outputs in zip(rows, answers, strict=True):
                if options.save:
                    arrays |= {f"{count}/{name}": _array(value) for name, value in outputs.items()}
                else:
                    line = json.dumps({**row, **_readable(outputs)}, ensure_ascii=False)
                    sys.stdout.write(re.sub("[\ud800-\udfff]", "\ufffd", line) + "\n")
                count += 1
    if options.save:
        np.savez(options.save, **arrays)
    if options.report:
        # Without the first batch, which also traces, compiles or allocates.
        report = {
            "peak_memory_mb": memory("VmHWM") - empty,
            "milliseconds": 1000 * statistics.median(times[1:] or times or [0.0]),
            "processor_milliseconds": 1000
            * statistics.mean(processor_times[1:] or processor_times or [0.0]),
        }
        with open(options.report, "w", encoding="utf-8", newline="\n") as file:
            json.dump(report, file)


def _read(line: str) -> Row:
    line = line.rstrip("\r\n")
    if line.startswith("{"):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(line)
    return {"text": line}


def check(row: Row, signature: str, depths: dict[str, int]) -> None:
    """Ends with a message where a row doesn't fit a signature.

    Args:
        depths: for each of the signature's arguments, the depth of one input's lists.
    """
    needed = depths.keys() - OPTIONAL
    given = row.keys() & (set(TEXTS) if needed & set(TEXTS) else needed)
    if given != needed:
        sys.exit(
            f"An input of the signature {signature} must have {', '.join(sorted(needed))}. "
            f"Received: {', '.join(sorted(row))}."
        )
    check_values(row, depths)


def check_values(row: Row, depths: dict[str, int]) -> None:
    """Ends with a message where a value isn't a text, an id, or lists of them."""
    for name in sorted(depths.keys() & row.keys()):
        is_text = name in TEXTS
        if not _fits(row[name], depths[name], str if is_text else int):
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


def _fits(value: Any, depth: int, kind: type) -> bool:
    """Whether it is lists nested to `depth`, with texts or ids in the innermost."""
    if depth:
        return isinstance(value, list) and all(_fits(each, depth - 1, kind) for each in value)
    if kind is str:
        return isinstance(value, str)
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def encoded(text: Any) -> Any:
    """Encodes a text, or a list of them, in UTF-8; bytes that aren't UTF-8 stay unchanged."""
    if isinstance(text, list):
        return [encoded(each) for each in text]
    whole = re.sub("[\ud800-\udc7f\udd00-\udfff]", "\ufffd", text)  # halves of characters
    return whole.encode("utf-8", "surrogateescape")


def is_row(values: list[Any]) -> bool:
    return not (values and isinstance(values[0], list))


def filled(values: list[Any], value: int) -> list[Any]:
    """Returns lists of the same nesting, with one value everywhere."""
    return [value] * len(values) if is_row(values) else [filled(each, value) for each in values]


def padded(values: list[Any], width: int) -> list[Any]:
    """Pads each innermost list with 0, the id of padding."""
    if is_row(values):
        return [*values, *[0] * (width - len(values))]
    return [padded(each, width) for each in values]


def longest(values: list[Any]) -> int:
    return len(values) if is_row(values) else max(longest(each) for each in values)


def batch_of_ids(rows: list[Row], wanted: Iterable[str]) -> dict[str, np.ndarray]:
    """Returns the arguments of a signature of ids, int32, padded to the longest row."""
    ids = [row["input_ids"] for row in rows]
    types = [row.get("token_type_ids") or filled(row["input_ids"], 0) for row in rows]
    batch = {"input_ids": ids, "attention_mask": filled(ids, 1), "token_type_ids": types}
    if "masked_lm_positions" in wanted:
        batch["masked_lm_positions"] = [row["masked_lm_positions"] for row in rows]
    return {
        name: np.array(padded(values, longest(values)), np.int32)
        for name, values in batch.items()
        if name in wanted
    }


def _array(value: Any) -> np.ndarray:
    """An array that NumPy can save: bytes in its own dtype for them."""
    value = np.asarray(value)
    return np.array(value.tolist(), "S").reshape(value.shape) if value.dtype == object else value


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _readable(outputs: Row) -> Row:
    """One row of a signature's outputs, for JSON."""
    answer = {name: _plain(np.asarray(value).tolist()) for name, value in outputs.items()}
    if "label" not in answer:
        return answer
    probabilities = dict(zip(answer["classes"], answer["probabilities"], strict=True))
    depth = {"depth": answer["depth"]} if "depth" in answer else {}  # of early exit
    answer = {name: answer[name] for name in ("logits", "label")}
    return {**answer, "probabilities": probabilities, **depth}

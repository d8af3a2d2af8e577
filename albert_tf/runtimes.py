"""Runs exports in their runtimes, without the rest of this package.

The check of an export loads this file by its path in a fresh process, and calls `main`.
"""

import functools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
TEXTS = ("text", "text_pair")
BATCH = 8  # rows in a batch of signatures that take any number
Arrays = Mapping[str, np.ndarray]
Row = dict[str, Any]


def reason(error: Exception) -> str:
    """Returns what went wrong, the end of a runtime's message without TensorFlow's lines of nodes.

    TensorFlow's message begins with them, LiteRT's with every earlier error.
    """
    lines = (line.strip() for line in str(error).splitlines())
    nodes = ("Graph execution error", "Detected at node", "<stack traces", "[[{{node", "File ")
    return " ".join(line for line in lines if line and not line.startswith(nodes))[-300:]


class RuntimeSignature(NamedTuple):
    """A function of an export.

    Attributes:
        inputs: the shape of each input; -1 is any size.
        outputs: their names.
        run: takes an array for each input; returns outputs by name.
    """

    inputs: Mapping[str, Sequence[int]]
    outputs: Sequence[str]
    run: Callable[..., Arrays]

    def __call__(self, features: Arrays) -> dict[str, np.ndarray]:
        """Returns the outputs of any number of rows, which it pads to the signature's shapes.

        Args:
            features: arrays by name, which may be smaller than the signature's, but not larger;
                those that the signature doesn't take are ignored. Missing ones are 0.
        """
        count = max(len(values) for name, values in features.items() if name in self.inputs)
        size = next(iter(self.inputs.values()))[0]
        size = size if size > 0 else count
        given = {
            name: _padded(features.get(name), [-(-count // size) * size, *shape[1:]])
            for name, shape in self.inputs.items()
        }
        batches = [
            self.run(**{name: rows[at : at + size] for name, rows in given.items()})
            for at in range(0, count, size)
        ]
        return {
            name: np.concatenate([batch[name] for batch in batches])[:count] for name in batches[0]
        }


def _padded(values: np.ndarray | None, shape: Sequence[int]) -> np.ndarray:
    """Pads with 0, or the empty text, up to a shape, whose -1 is the array's own size."""
    values = np.zeros([0] * len(shape), np.int32) if values is None else values
    sizes = [size if size >= 0 else own for size, own in zip(shape, values.shape, strict=True)]
    padded = np.full(sizes, b"" if values.dtype == object else 0, values.dtype)
    padded[tuple(map(slice, values.shape))] = values
    return padded


def open_tflite(path: str | os.PathLike[str], threads: int = 1) -> dict[str, RuntimeSignature]:
    """Returns a file's signatures; `text` runs where tensorflow_text has been imported."""
    from ai_edge_litert.interpreter import Interpreter, InterpreterWithCustomOps

    if sys.modules.get("tensorflow_text"):
        from tensorflow_text.core.pybinds.tflite_registrar import SELECT_TFTEXT_OPS

        interpreter = InterpreterWithCustomOps(
            SELECT_TFTEXT_OPS, model_path=str(path), num_threads=threads
        )
    else:
        interpreter = Interpreter(str(path), num_threads=threads)
    interpreter.allocate_tensors()  # prints a line: here, where callers hide it
    signatures = {}
    for name, names in interpreter.get_signature_list().items():
        run = interpreter.get_signature_runner(name)
        inputs = {
            key: each["shape_signature"].tolist() for key, each in run.get_input_details().items()
        }
        signatures[name] = RuntimeSignature(inputs, names["outputs"], run)
    return signatures


def open_onnx(path: str | os.PathLike[str], threads: int = 1) -> dict[str, RuntimeSignature]:
    """Returns a file's only signature under the name that `albert_tf_export` gives it."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 4  # errors are raised too
    session = onnxruntime.InferenceSession(str(path), settings)
    inputs = {
        each.name: [size if isinstance(size, int) else -1 for size in each.shape]
        for each in session.get_inputs()
    }
    outputs = [each.name for each in session.get_outputs()]

    def run(**arrays: np.ndarray) -> Arrays:
        return dict(zip(outputs, session.run(outputs, arrays), strict=True))

    name = "masked" if "masked_lm_positions" in inputs else "ids"
    return {name: RuntimeSignature(inputs, outputs, run)}


def open_saved_model(path: str | os.PathLike[str], threads: int = 1) -> dict[str, RuntimeSignature]:
    """Returns a folder's signatures; TensorFlow chooses the number of threads."""
    import tensorflow as tf

    def opened(function: Any) -> RuntimeSignature:
        specs = function.structured_input_signature[1]
        inputs = {
            name: [-1 if size is None else size for size in spec.shape]
            for name, spec in specs.items()
        }

        def run(**arrays: np.ndarray) -> Arrays:
            try:
                outputs = function(**{name: tf.constant(each) for name, each in arrays.items()})
            except tf.errors.OpError as error:
                raise ValueError(reason(error)) from error
            return {name: value.numpy() for name, value in outputs.items()}

        return RuntimeSignature(inputs, list(function.structured_outputs), run)

    model = tf.saved_model.load(str(path))
    signatures = {name: opened(function) for name, function in model.signatures.items()}
    _LOADED.append(model)  # Its functions hold its variables weakly.
    return signatures


_LOADED: list[Any] = []
OPENED: dict[str, Callable[..., dict[str, RuntimeSignature]]] = {
    "tflite": open_tflite,
    "onnx": open_onnx,
    "saved-model": open_saved_model,
}


@functools.cache
def _opened(form: str, path: str) -> tuple[dict[str, RuntimeSignature], float]:
    """Returns the signatures of an export, and MB before it; once for several signatures."""
    if form == "saved-model":
        import tensorflow  # noqa: F401 (its memory isn't the export's)
    empty = _memory("VmRSS")
    return OPENED[form](path), empty


def main(form: str, path: str, name: str, inputs: str, outputs: str, batch: int = BATCH) -> None:
    """Runs a signature on rows of a file.

    Args:
        form: "tflite", "onnx" or "saved-model".
        path: the export.
        name: of the signature.
        inputs: file of rows as JSON, one a line: `{"text": …}`, for pairs with "text_pair", or
            `{"input_ids": …}`, with "token_type_ids" and "masked_lm_positions" where the signature
            takes them; lists of C for multiple choice.
        outputs: path without an ending: `.npz` has arrays by "ROW/NAME"; `.json` the peak of memory
            above the runtime in MB (Linux), and the median of a row's milliseconds.
        batch: rows in a batch, where the signature takes any number.
    """
    signatures, empty = _opened(form, path)
    signature = signatures[name]
    fixed = next(iter(signature.inputs.values()))[0]
    size = fixed if fixed > 0 else batch
    with open(inputs, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    times = []
    arrays: dict[str, Any] = {}
    for at in range(0, len(rows), size):
        some = rows[at : at + size]
        start = time.perf_counter()
        found = signature(_features(some, signature.inputs))
        times.append((time.perf_counter() - start) / len(some))
        for key, values in found.items():
            for row, value in enumerate(values, at):
                arrays[f"{row}/{key}"] = _saved(value)
    np.savez(f"{outputs}.npz", **arrays)
    # Without the first batch, which also traces, compiles or allocates.
    report = {
        "megabytes": _memory("VmHWM") - empty,
        "milliseconds": 1000 * statistics.median(times[1:] or times),
    }
    with open(f"{outputs}.json", "w", encoding="utf-8", newline="\n") as file:
        json.dump(report, file)


def _features(rows: Sequence[Row], names: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns arrays of a batch: texts, or ids padded to the longest row, with their mask."""
    if TEXTS[0] in names:
        return {name: np.array([_encoded(row[name]) for row in rows], object) for name in names}
    ids = [row["input_ids"] for row in rows]
    lists = {name: [row[name] for row in rows] for name in rows[0] if name in names}
    return {
        "attention_mask": _rectangle(ids, lambda each: [1] * len(each)),
        **{name: _rectangle(each) for name, each in lists.items()},
    }


def _rectangle(lists: Sequence[Any], change: Callable[[list[int]], list[int]] = list) -> np.ndarray:
    """Returns lists, or lists of lists, as an int32 array, padded with 0 on the last axis."""
    nested = [each if isinstance(each[0], list) else [each] for each in lists]
    width = max(len(each) for row in nested for each in row)
    filled = [[change(each) + [0] * (width - len(each)) for each in row] for row in nested]
    array = np.array(filled, np.int32)
    return array if nested[0] is lists[0] else array[:, 0]


def _encoded(text: Any) -> Any:
    return list(map(_encoded, text)) if isinstance(text, list) else text.encode("utf-8")


def _saved(value: Any) -> np.ndarray:
    """Returns an array that NumPy can save: bytes in its own dtype for them."""
    value = np.asarray(value)
    return np.array(value.tolist(), "S").reshape(value.shape) if value.dtype == object else value


def _memory(field: str) -> float:
    """Returns MB in /proc/self/status: VmRSS is the present size, VmHWM its peak; 0 without it."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))
    except FileNotFoundError:
        return 0.0

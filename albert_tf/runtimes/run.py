"""Runs exported models in their runtimes, without the rest of this package.

The check that compares an export with Keras loads this file by path in a fresh process and calls
`main`.
"""

import functools
import importlib
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
BATCH = 8  # batch size for signatures that take any number of rows
Arrays = Mapping[str, np.ndarray]
Row = dict[str, Any]


def reason(error: Exception) -> str:
    """Returns the end of a runtime's error message, without TensorFlow's lines about nodes.

    TensorFlow prepends those lines to its message; LiteRT prepends all earlier errors.
    """
    lines = (line.strip() for line in str(error).splitlines())
    nodes = ("Graph execution error", "Detected at node", "<stack traces", "[[{{node", "File ")
    return " ".join(line for line in lines if line and not line.startswith(nodes))[-300:]


class RuntimeSignature(NamedTuple):
    """A signature of an exported model.

    Attributes:
        inputs: shape of each input, in which -1 means any size.
        run: function that takes one array per input and returns the outputs keyed by name.
    """

    inputs: Mapping[str, Sequence[int]]
    run: Callable[..., Arrays]

    def __call__(self, features: Arrays) -> dict[str, np.ndarray]:
        """Runs the signature on any number of rows, padded to its shapes; returns the outputs.

        Args:
            features: arrays keyed by name, none larger than the signature's inputs. Arrays that the
                signature doesn't take are ignored, and missing ones are filled with zeros.
        """
        count = max(len(values) for name, values in features.items() if name in self.inputs)
        size = next(iter(self.inputs.values()))[0]
        size = size if size > 0 else count
        inputs = {
            name: _pad(features.get(name), [-(-count // size) * size, *shape[1:]])
            for name, shape in self.inputs.items()
        }
        batches = [
            self.run(**{name: rows[at : at + size] for name, rows in inputs.items()})
            for at in range(0, count, size)
        ]
        return {
            name: np.concatenate([batch[name] for batch in batches])[:count] for name in batches[0]
        }


def _pad(values: np.ndarray | None, shape: Sequence[int]) -> np.ndarray:
    """Pads with 0 (or empty strings) to a shape, in which -1 keeps the size of the array."""
    values = np.zeros([0] * len(shape), np.int32) if values is None else values
    sizes = [size if size >= 0 else own for size, own in zip(shape, values.shape, strict=True)]
    padded = np.full(sizes, b"" if values.dtype == object else 0, values.dtype)
    padded[tuple(map(slice, values.shape))] = values
    return padded


def open_tflite(path: str | os.PathLike[str], threads: int = 1) -> dict[str, RuntimeSignature]:
    """Returns a file's signatures. To run the signature `text`, import tensorflow_text first."""
    from ai_edge_litert.interpreter import Interpreter, InterpreterWithCustomOps

    if sys.modules.get("tensorflow_text"):
        from tensorflow_text.core.pybinds.tflite_registrar import SELECT_TFTEXT_OPS

        interpreter = InterpreterWithCustomOps(
            SELECT_TFTEXT_OPS, model_path=str(path), num_threads=threads
        )
    else:
        interpreter = Interpreter(str(path), num_threads=threads)
    interpreter.allocate_tensors()  # prints a line, which callers hide
    signatures = {}
    for name in interpreter.get_signature_list():
        run = interpreter.get_signature_runner(name)
        inputs = {
            key: each["shape_signature"].tolist() for key, each in run.get_input_details().items()
        }
        signatures[name] = RuntimeSignature(inputs, run)
    return signatures


def open_onnx(path: str | os.PathLike[str], threads: int = 1) -> dict[str, RuntimeSignature]:
    """Returns a file's only signature, under the name that `albert_tf_export` uses for it."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 4  # errors don't need to be logged, because they are raised
    session = onnxruntime.InferenceSession(str(path), settings)
    inputs = {
        each.name: [size if isinstance(size, int) else -1 for size in each.shape]
        for each in session.get_inputs()
    }
    outputs = [each.name for each in session.get_outputs()]

    def run(**arrays: np.ndarray) -> Arrays:
        return dict(zip(outputs, session.run(outputs, arrays), strict=True))

    name = "masked" if "masked_lm_positions" in inputs else "ids"
    return {name: RuntimeSignature(inputs, run)}


def open_saved_model(path: str | os.PathLike[str], threads: int = 1) -> dict[str, RuntimeSignature]:
    """Returns a folder's signatures; TensorFlow chooses the number of threads."""
    import tensorflow as tf

    def signature(function: Any) -> RuntimeSignature:
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

        return RuntimeSignature(inputs, run)

    model = tf.saved_model.load(str(path))
    signatures = {name: signature(function) for name, function in model.signatures.items()}
    _LOADED.append(model)  # functions keep only weak references to the variables
    return signatures


_LOADED: list[Any] = []
OPENERS: dict[str, Callable[..., dict[str, RuntimeSignature]]] = {
    "tflite": open_tflite,
    "onnx": open_onnx,
    "saved-model": open_saved_model,
}


RUNTIMES = {
    "tflite": "ai_edge_litert.interpreter",
    "onnx": "onnxruntime",
    "saved-model": "tensorflow",
}


@functools.cache
def _open(form: str, path: str) -> tuple[dict[str, RuntimeSignature], float]:
    """Returns the signatures of an export and the memory used before loading it, in MB."""
    importlib.import_module(RUNTIMES[form])  # its memory isn't counted as the export's
    empty = _memory("VmRSS")
    return OPENERS[form](path), empty


def main(form: str, path: str, name: str, inputs: str, outputs: str, batch: int = BATCH) -> None:
    """Runs a signature on the rows of a file.

    Args:
        form: "tflite", "onnx", or "saved-model".
        path: path of the export.
        name: name of the signature.
        inputs: file with one JSON object per line: `{"text": …}`, with "text_pair" for pairs; or
            `{"input_ids": …}`, with "token_type_ids" and "masked_lm_positions" if the signature
            takes them. For multiple choice, values are lists of length C.
        outputs: output path without a suffix. The `.npz` file contains arrays named "ROW/NAME".
            The `.json` file contains the median time per row in milliseconds and, on Linux, the
            peak memory in MB, minus the memory used before the export was loaded.
        batch: batch size if the signature takes any number of rows.
    """
    signatures, empty = _open(form, path)  # one export, loaded once for all its signatures
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
                arrays[f"{row}/{key}"] = without_objects(np.asarray(value))
    np.savez(f"{outputs}.npz", **arrays)
    # The first batch isn't timed, because it also traces, compiles, or allocates.
    report = {
        "megabytes": _memory("VmHWM") - empty,
        "milliseconds": 1000 * statistics.median(times[1:] or times),
    }
    with open(f"{outputs}.json", "w", encoding="utf-8", newline="\n") as file:
        json.dump(report, file)


def _features(rows: Sequence[Row], names: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns the arrays of a batch: texts, or padded ids with their mask."""
    if TEXTS[0] in names:
        return {name: np.array([_encode(row[name]) for row in rows], object) for name in names}
    ids = [row["input_ids"] for row in rows]
    lists = {name: [row[name] for row in rows] for name in rows[0] if name in names}
    return {
        "attention_mask": _rectangle(ids, lambda each: [1] * len(each)),
        **{name: _rectangle(each) for name, each in lists.items()},
    }


def _rectangle(lists: Sequence[Any], change: Callable[[list[int]], list[int]] = list) -> np.ndarray:
    """Returns lists (or lists of lists) as an int32 array whose last axis is padded with 0."""
    nested = [each if isinstance(each[0], list) else [each] for each in lists]
    width = max(len(each) for row in nested for each in row)
    filled = [[change(each) + [0] * (width - len(each)) for each in row] for row in nested]
    array = np.array(filled, np.int32)
    return array if nested[0] is lists[0] else array[:, 0]


def without_objects(array: np.ndarray) -> np.ndarray:
    """Converts byte strings to NumPy's bytes dtype, which can be saved; trailing NULs are lost."""
    return np.array(array.tolist(), "S").reshape(array.shape) if array.dtype == object else array


def _encode(text: Any) -> Any:
    return list(map(_encode, text)) if isinstance(text, list) else text.encode("utf-8")


def _memory(field: str) -> float:
    """Returns the current (VmRSS) or peak (VmHWM) memory in MB, or 0 if there is no /proc."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))
    except FileNotFoundError:
        return 0.0

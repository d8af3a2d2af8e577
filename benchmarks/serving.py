"""Compares what a server on processors can run: a SavedModel in two precisions, and int8.

    python benchmarks/serving.py [--size base] [--shapes 1x128 8x128] [--calls 5] [--rounds 3]

Weights are random; rows have as many pieces as a shape says. Each file runs in fresh processes, in
turns, on one thread: memory is the peak over the empty process', time the median of --calls calls
in milliseconds of the processor, and both are medians over --rounds processes. The difference is
the largest of a logit from the float32 SavedModel's.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

from memory import memory, printed

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
FORMS = {
    "SavedModel, float32": "float32",
    "SavedModel, bfloat16": "bfloat16",
    "model.tflite, int8": "float32/model.tflite",
}


def measure(path, shape, calls):
    """Prints the memory, times and logits of one form in this process, as JSON."""
    import numpy as np

    ids = np.random.default_rng(1).integers(5, 29_999, shape, np.int32)
    ids[:, 0], ids[:, -1] = 2, 3
    if path.endswith(".tflite"):
        from ai_edge_litert.interpreter import Interpreter

        empty = memory("VmRSS")
        interpreter = Interpreter(path, num_threads=1)
        (given,) = interpreter.get_input_details()
        interpreter.resize_tensor_input(given["index"], ids.shape)
        interpreter.allocate_tensors()
        outputs = {each["name"]: each["index"] for each in interpreter.get_output_details()}

        def call():
            interpreter.set_tensor(given["index"], ids)
            interpreter.invoke()
            return interpreter.get_tensor(outputs["logits"])
    else:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        empty = memory("VmRSS")
        loaded = tf.saved_model.load(path)

        def call():
            return loaded.signatures["padded_ids"](input_ids=tf.constant(ids))["logits"].numpy()

    times = []
    for _ in range(calls + 1):
        start = time.process_time()
        logits = call()
        times.append(1000 * (time.process_time() - start))
    peak = memory("VmHWM") - empty
    print(json.dumps([peak, statistics.median(times[1:]), logits.tolist()]))


def measured(path, shape, calls):
    command = [sys.executable, __file__, "--measure", path, "--shapes", shape]
    return printed([*command, "--calls", calls])


def exported(size, length, folder):
    """Writes the three forms."""
    from albert_tf_export.graphs import convert_for_serving, write
    from albert_tf_export.options import in_precision
    from albert_tf_export.signatures import padded_ids_signature

    from albert_tf.config import AlbertConfig
    from albert_tf.models import AlbertForSequenceClassification
    from albert_tf.text.encoding import SpecialTokens

    config = AlbertConfig.from_size(size, id2label={0: "negative", 1: "positive"})
    model, special = AlbertForSequenceClassification(config), SpecialTokens()
    for precision in ("float32", "bfloat16"):
        signature = padded_ids_signature(in_precision(model, precision), special, unroll="last")
        write([signature], folder / precision)
    signature = padded_ids_signature(model, special, unroll=False, length=length, strings=False)
    file = folder / FORMS["model.tflite, int8"]
    file.write_bytes(convert_for_serving(signature, "dynamic"))


def compare(options):
    import numpy as np

    packages = ("tensorflow", "keras", "ai-edge-litert")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    print(f"{versions}, Python {platform.python_version()}; {options.size}, 1 thread\n")
    print("| rows × pieces | file | CPU ms | of float32 | MB of memory | difference |")
    print("|---|---|---:|---:|---:|---:|")
    for shape in options.shapes:
        with tempfile.TemporaryDirectory() as folder:
            exported(options.size, int(shape.split("x")[1]), Path(folder))
            rounds = [
                [measured(Path(folder) / file, shape, options.calls) for file in FORMS.values()]
                for _ in range(options.rounds)
            ]
        times = np.median([[each[1] for each in row] for row in rounds], axis=0)
        peaks = np.median([[each[0] for each in row] for row in rounds], axis=0)
        logits = [np.array(each[2]) for each in rounds[0]]
        for name, taken, peak, found in zip(FORMS, times, peaks, logits, strict=True):
            print(
                f"| {shape.replace('x', ' × ')} | {name} | {taken:.0f} | {taken / times[0]:.2f} | "
                f"{peak:.0f} | {np.abs(found - logits[0]).max():.2g} |",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="base", help="name of a size (AlbertConfig.from_size)")
    parser.add_argument("--shapes", nargs="+", default=["1x128", "8x128"], metavar="ROWSxPIECES")
    parser.add_argument("--calls", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, tuple(map(int, options.shapes[0].split("x"))), options.calls)
    else:
        compare(options)


if __name__ == "__main__":
    main()

"""Runs one model in the runtimes of other people: does each work, how far is it from Keras?

    make bench-runtimes                                     # base with random weights
    python benchmarks/runtimes.py [--model small] [--size base] [--length 128] [--rows 8]
                                  [--calls 5] [--rounds 3]

Prints a Markdown table. Each line is a file, or a form of one, in one runtime. In each of --rounds
turns a fresh process loads each file, runs --rows rows of --length pieces, of which one is padded,
and compares the logits with Keras'; it uses one thread, or all cores with --threads 0. Time is the
median over the processes of their median over --calls calls, memory the peak over the process'
size before the runtime loads the file.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from memory import memory

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
NAMES = ("input_ids", "attention_mask", "token_type_ids")
PACKAGES = ("tensorflow", "keras", "ai-edge-litert", "onnx", "onnxruntime", "tf2onnx", "openvino")
# Runtime, precision and form of a line, its file, and the runner with its setting.
CASES = (
    ("TensorFlow", "float32", "SavedModel, loop", "saved", "tensorflow", ""),
    ("LiteRT", "float32", "loop, any length", "loop-none.tflite", "litert", ""),
    ("LiteRT", "float16", "loop, any length", "loop-float16.tflite", "litert", ""),
    ("LiteRT", "int8 dynamic", "loop, any length", "loop-dynamic.tflite", "litert", ""),
    ("LiteRT", "float32", "loop, fixed", "fixed-none.tflite", "litert", ""),
    ("LiteRT", "int8 dynamic", "loop, fixed", "fixed-dynamic.tflite", "litert", ""),
    ("ONNX Runtime", "float32", "loop", "none.onnx", "onnx", ""),
    ("ONNX Runtime", "int8 dynamic", "loop", "dynamic.onnx", "onnx", ""),
    ("OpenVINO", "default", "SavedModel, loop", "saved", "openvino", ""),
    ("OpenVINO", "f32 hint", "SavedModel, loop", "saved", "openvino", "f32"),
    ("OpenVINO", "default", "TFLite, loop", "loop-none.tflite", "openvino", ""),
    ("OpenVINO", "f32 hint", "TFLite, loop", "loop-none.tflite", "openvino", "f32"),
    ("OpenVINO", "default", "TFLite, unrolled", "unrolled-none.tflite", "openvino", ""),
    ("OpenVINO", "f32 hint", "TFLite, unrolled", "unrolled-none.tflite", "openvino", "f32"),
    ("OpenVINO", "default", "ONNX, loop", "none.onnx", "openvino", ""),
    ("OpenVINO", "f32 hint", "ONNX, loop", "none.onnx", "openvino", "f32"),
)


def tensorflow(path, setting, threads):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    empty = memory("VmRSS")
    signature = tf.saved_model.load(path).signatures["ids"]
    return lambda rows: signature(**{k: tf.constant(v) for k, v in rows.items()}), empty


def litert(path, setting, threads):
    from ai_edge_litert.interpreter import Interpreter

    empty = memory("VmRSS")
    interpreter = Interpreter(path, num_threads=threads or os.cpu_count())
    signature = interpreter.get_signature_runner("ids")
    return lambda rows: signature(**rows), empty


def onnx(path, setting, threads):
    import onnxruntime

    empty = memory("VmRSS")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options)
    names = [each.name for each in session.get_outputs()]
    return lambda rows: dict(zip(names, session.run(names, rows), strict=True)), empty


def openvino(path, setting, threads):
    import openvino

    empty = memory("VmRSS")
    settings = {"INFERENCE_PRECISION_HINT": setting} if setting else {}
    settings |= {"INFERENCE_NUM_THREADS": threads} if threads else {}
    core = openvino.Core()
    model = core.read_model(path)
    compiled = core.compile_model(model, "CPU", settings)
    used = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    print(f"precision: {used}", file=sys.stderr)

    def run(rows):
        given = {
            port: next(rows[name] for name in NAMES if any(name in each for each in port.names))
            for port in compiled.inputs
        }
        outputs = compiled(given)
        # TFLite files have no names of outputs here: logits are the one whose rows don't sum to 1.
        for port, value in outputs.items():
            if any("logits" in name for name in port.names):
                return {"logits": value}
        (logits,) = (each for each in outputs.values() if not is_distribution(each))
        return {"logits": logits}

    return run, empty


def is_distribution(values):
    return abs(values.sum(axis=-1) - 1).max() < 0.01 and values.min() >= 0


def measure(runner, path, setting, options):
    """Prints difference, time and memory in this process, as JSON."""
    import numpy as np

    rows = dict(np.load(options.rows_file))
    expected = rows.pop("expected")
    run, empty = globals()[runner](path, setting, options.threads)
    logits = np.asarray(run(rows)["logits"])
    times = []
    for _ in range(options.calls):
        start = time.perf_counter()
        run(rows)
        times.append(1000 * (time.perf_counter() - start))
    difference = float(np.abs(logits - expected).max())
    print(json.dumps([difference, statistics.median(times), memory("VmHWM") - empty]))


def measured(case, folder, options):
    """Runs a case in a fresh process; returns its figures, or the reason why it doesn't work."""
    _, _, _, file, runner, setting = case
    command = [sys.executable, __file__, "--measure", runner, str(folder / file), setting]
    command += ["--rows-file", str(folder / "rows.npz"), "--calls", str(options.calls)]
    return json_or_reason([*command, "--threads", str(options.threads)])


def json_or_reason(command):
    """Runs a command; returns the JSON in its last line, or the last line of its error."""
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        return lines[-1][:90].replace("|", "/")
    return json.loads(done.stdout.splitlines()[-1])


def write_files(folder, options):
    """Writes every file, the rows, and Keras' logits."""
    import keras
    import numpy as np
    from albert_tf_export import onnx as onnx_export
    from albert_tf_export import saved_model
    from albert_tf_export.signatures import ids_signature
    from albert_tf_export.tflite import convert

    from albert_tf.config import AlbertConfig
    from albert_tf.models import AlbertForSequenceClassification, AlbertModel

    keras.utils.set_random_seed(1)
    config = AlbertConfig.from_size(options.size, id2label={0: "negative", 1: "positive"})
    if options.model:
        config = AlbertModel.from_pretrained(options.model).config.replace(num_labels=2)
        model = AlbertForSequenceClassification.from_pretrained(options.model, num_labels=2)
    else:
        model = AlbertForSequenceClassification(config)
    shape = (options.rows, options.length)
    ids = np.random.default_rng(1).integers(5, config.vocab_size, shape).astype(np.int32)
    rows = dict(zip(NAMES, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))
    rows["attention_mask"][0, options.length // 2 :] = 0
    expected = np.asarray(model(dict(rows), training=False)["logits"])
    np.savez(folder / "rows.npz", **rows, expected=expected)
    anything = ids_signature(model, unroll=False, strings=False)
    saved_model.write([anything], folder / "saved")
    for precision in onnx_export.QUANTIZE:
        path = folder / f"{precision}.onnx"
        onnx_export.convert(anything, ("batch", "length"), precision, {}, path)
    for name, unroll, batch, length in (
        ("loop", False, None, None),
        ("fixed", False, *shape),
        ("unrolled", True, None, None),
    ):
        signature = ids_signature(model, unroll=unroll, strings=False, batch=batch, length=length)
        for precision in ("none", "float16", "dynamic"):
            file = f"{name}-{precision}.tflite"
            if any(case[3] == file for case in CASES):
                (folder / file).write_bytes(convert([signature], precision))
    return float(np.abs(expected).max())


def size(path):
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return sum(each.stat().st_size for each in files) / 1e6


def versions(packages):
    found = [f"{name} {importlib.metadata.version(name)}" for name in packages]
    return ", ".join([*found, f"Python {platform.python_version()}"])


def processor():
    """Returns the processor's name, its instructions for few bits, and the number of cores."""
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        info = [line.split(":", 1) for line in lines if ":" in line]
    details = {name.strip(): value.strip() for name, value in reversed(info)}
    known = [
        each for each in ("avx512_vnni", "avx512_bf16", "amx_tile") if each in details["flags"]
    ]
    return f"{details['model name']} ({', '.join(known)}), {os.cpu_count()} cores"


def compare(options):
    print(f"{versions(PACKAGES)}  \n{processor()}  ")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        largest = write_files(folder, options)
        threads = f"{options.threads} thread" if options.threads == 1 else "all cores"
        print(
            f"{options.model or options.size + ', random weights'}, {options.rows} rows of "
            f"{options.length} pieces, {threads}; largest logit {largest:.2f}\n"
        )
        rounds = [
            [measured(case, folder, options) for case in CASES] for _ in range(options.rounds)
        ]
        heads = ("runtime", "precision", "form", "works", "difference", "ms", "MB of file", "MB")
        print("| " + " | ".join(heads) + " |\n" + "|---" * 4 + "|---:" * 4 + "|")
        for place, (runtime, precision, form, file, *_) in enumerate(CASES):
            runs = [each[place] for each in rounds]
            failed = [each for each in runs if isinstance(each, str)]
            cells = [runtime, precision, form, failed[0] if failed else "yes"]
            if not failed:
                differences, times, peaks = zip(*runs, strict=True)
                cells[3] = "wrong" if max(differences) > 0.05 * largest else "yes"
                cells += [f"{max(differences):.1e}", f"{statistics.median(times):.0f}"]
                cells += [f"{size(folder / file):.0f}", f"{statistics.median(peaks):.0f}"]
            print("| " + " | ".join([*cells, *[""] * (8 - len(cells))]) + " |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="name or folder of a checkpoint; default: random weights")
    parser.add_argument("--size", default="base", help="name of a size (AlbertConfig.from_size)")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--calls", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--rows-file", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(*options.measure, options)
    else:
        compare(options)


if __name__ == "__main__":
    main()

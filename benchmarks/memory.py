"""Compares exports with unrolled layers and with layers in a loop: size, memory and time.

    python benchmarks/memory.py [--size base] [--formats tflite saved-model] [--length 128]
                                [--vocabulary spiece.model] [--threads 1]

Weights are random. Each file is measured in a fresh process, which imports only ai_edge_litert (or
TensorFlow, for a SavedModel): memory is its peak over the empty interpreter's, time the median of
ten calls of the signature `ids` with one row. With --vocabulary, a file of 30,000 pieces, the
exports also have the signature `text`. The result decides albert_tf_export's default for `layers`.
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

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

FORMS = ("unrolled", "loop")
PRECISIONS = ("none", "float16", "dynamic")
CALLS = 10


def memory(field, process="self"):
    """MB in /proc/PROCESS/status: VmRSS is the present size, VmHWM its peak."""
    with open(f"/proc/{process}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))


def printed(command):
    """Runs a command, and returns the JSON in its last line."""
    finished = subprocess.run(
        list(map(str, command)), check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    return json.loads(finished.stdout.splitlines()[-1])


def tflite_signature(path, threads):
    from ai_edge_litert.interpreter import Interpreter

    empty = memory("VmRSS")
    signature = Interpreter(path, num_threads=threads).get_signature_runner("ids")
    return empty, signature


def saved_model_signature(path, threads):
    import tensorflow as tf

    if b"TFText>" in Path(path, "saved_model.pb").read_bytes():
        import tensorflow_text  # noqa: F401
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.constant(0.0)  # starts the runtime, which takes memory
    empty = memory("VmRSS")
    signature = tf.saved_model.load(path).signatures["ids"]
    return empty, lambda **ids: signature(**{k: tf.constant(v) for k, v in ids.items()})


def measure(path, length, threads):
    """Prints the memory and time of running a file in this process, as JSON."""
    import numpy as np

    load = saved_model_signature if os.path.isdir(path) else tflite_signature
    empty, signature = load(path, threads)
    ids = np.arange(5, length + 5, dtype="int32")[None]
    row = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
    times = []
    for _ in range(CALLS + 1):
        start = time.perf_counter()
        outputs = signature(**row)
        times.append(1000 * (time.perf_counter() - start))
    peak = memory("VmHWM") - empty
    assert np.isfinite(np.asarray(outputs["logits"])).all()
    print(json.dumps({"memory": peak, "milliseconds": statistics.median(times[1:])}))


def measured(path, options):
    command = [sys.executable, __file__, "--measure", path]
    command += ["--length", options.length, "--threads", options.threads]
    files = path.rglob("*") if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
    return {"size": size, **printed(command)}


def exports(model, vocabulary, options, folder):
    """Writes and yields (name, {form: path})."""
    from albert_tf_export import graphs
    from albert_tf_export.signatures import ids_signature, text_signature

    from albert_tf.text.preprocessing import AlbertPreprocessor

    def signatures(form, batch, length, loop=False):
        unroll = form == "unrolled" or loop
        found = [ids_signature(model, unroll=unroll, batch=batch, length=length)]
        if vocabulary is not None:
            layer = AlbertPreprocessor(vocabulary, options.length)
            found.append(text_signature(model, layer, unroll=unroll, batch=batch))
        return found

    if "tflite" in options.formats:
        for precision in PRECISIONS:
            paths = {form: folder / f"{form}-{precision}.tflite" for form in FORMS}
            for form, path in paths.items():
                content = graphs.convert(signatures(form, 1, options.length), precision)
                path.write_bytes(content)
            yield f"TFLite, quantize={precision}", paths
    if "saved-model" in options.formats:
        paths = {form: folder / form for form in FORMS}
        for form, path in paths.items():
            graphs.write(signatures(form, None, None, loop="last"), path)
        yield "SavedModel", paths


def compare(options):
    from albert_tf.config import AlbertConfig
    from albert_tf.models import AlbertForSequenceClassification

    vocabulary = None if options.vocabulary is None else vocabulary_of(options.vocabulary)
    packages = ("tensorflow", "keras", "ai-edge-litert")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    print(f"{versions}, Python {platform.python_version()}, {os.cpu_count()} cores")
    print(f"{options.size}, 1 row of {options.length}, {options.threads} thread(s), random weights")
    print(f"{'':26}{'MB stored':^20}{'MB of memory':^20}{'ms':^20}")
    print(f"{'':26}" + f"{FORMS[0]:>10}{FORMS[1]:>10}" * 3)
    config = AlbertConfig.from_size(options.size, id2label={0: "negative", 1: "positive"})
    model = AlbertForSequenceClassification(config)
    with tempfile.TemporaryDirectory() as folder:
        for name, paths in exports(model, vocabulary, options, Path(folder)):
            found = {form: measured(path, options) for form, path in paths.items()}
            figures = [
                found[form][field] for field in ("size", "memory", "milliseconds") for form in FORMS
            ]
            print(f"{name:26}" + "".join(f"{figure:10.1f}" for figure in figures), flush=True)


def vocabulary_of(path):
    from albert_tf.text.tokenizer import AlbertTokenizer

    return AlbertTokenizer(path).model_bytes


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    formats = ("tflite", "saved-model")
    parser.add_argument("--size", default="base", help="name of a size (AlbertConfig.from_size)")
    parser.add_argument("--formats", nargs="+", choices=formats, default=list(formats))
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--vocabulary", help="a spiece.model of 30,000 pieces")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.length, options.threads)
    else:
        compare(options)


if __name__ == "__main__":
    main()

"""Compares forms of TFLite files at several lengths of text: size, memory and processor time.

    python benchmarks/mobile.py [--size base] [--lengths 16 64 128 512] [--padded 128]
                                [--precisions none float16 dynamic] [--calls 10] [--rounds 3]

Weights are random, and a row has as many pieces as the length. "dynamic" takes any length, "padded"
pads every row to --padded pieces, "buckets" has a signature for each length in one file, "cached"
is the padded file with a file beside it, in which the runtime keeps packed weights from run to run.
Each line is measured in fresh processes, in turns, which import only ai_edge_litert and run one
thread: memory is the peak over the empty interpreter's, then the part that is not pages of a file,
which the system may drop; time is the median of --calls calls, in milliseconds of the processor.
Figures are medians over --rounds processes; the first run of "cached" writes its file. `--size
xxlarge --precisions dynamic --lengths 128` repeats the largest model's.
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
FIELDS = ("peak", "private", "milliseconds")


def measure(path, name, length, calls):
    """Prints the memory and time of a signature in this process, as JSON."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    empty, private = memory("VmRSS"), memory("RssAnon")
    signature = Interpreter(path, num_threads=1).get_signature_runner(name)
    width = int(signature.get_input_details()["input_ids"]["shape_signature"][-1])
    row = np.zeros((3, 1, max(width, length)), np.int32)
    row[0, 0, :length] = np.arange(5, length + 5)
    row[1, 0, :length] = 1
    inputs = dict(zip(("input_ids", "attention_mask", "token_type_ids"), row, strict=True))
    times = []
    for _ in range(calls + 1):
        start = time.process_time()
        outputs = signature(**inputs)
        times.append(1000 * (time.process_time() - start))
    assert np.isfinite(outputs["logits"]).all()
    _report(times, empty, private)


def measure_cached(path, name, calls):
    """Prints the same of a run through `CompiledModel` with a cache of packed weights."""
    import numpy as np
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.cpu_options import CpuOptions
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator
    from ai_edge_litert.options import Options

    empty, private = memory("VmRSS"), memory("RssAnon")
    cpu = CpuOptions(num_threads=1, xnnpack_weight_cache_path=f"{path}.cache")
    options = Options(hardware_accelerators=HardwareAccelerator.CPU, cpu_options=cpu)
    model = CompiledModel.from_file(path, options=options)
    names = model.get_signature_list()[name]
    inputs = {each: model.create_input_buffer_by_name(name, each) for each in names["inputs"]}
    outputs = {each: model.create_output_buffer_by_name(name, each) for each in names["outputs"]}
    details = model.get_input_tensor_details(name)
    for each, buffer in inputs.items():
        buffer.write(np.ones(details[each]["shape"], np.int32))
    times = []
    for _ in range(calls + 1):
        start = time.process_time()
        model.run_by_name(name, inputs, outputs)
        times.append(1000 * (time.process_time() - start))
    assert np.isfinite(outputs["logits"].read(2, np.float32)).all()
    _report(times, empty, private)


def _report(times, empty, private):
    costs = (memory("VmHWM") - empty, memory("RssAnon") - private, statistics.median(times[1:]))
    print(json.dumps(dict(zip(FIELDS, costs, strict=True))))


def measured(path, name, length, calls, form=""):
    flag = "--measure-cached" if form == "cached" else "--measure"
    return printed([sys.executable, __file__, flag, path, name, length, "--calls", calls])


def files(model, precision, options, folder):
    """Writes a file of each form; returns {form: (path, {length: signature})}."""
    from albert_tf_export.graphs import convert
    from albert_tf_export.signatures import ids_signature

    lengths = options.lengths
    forms = {
        "dynamic": ({"ids": None}, dict.fromkeys(lengths, "ids")),
        "padded": (
            {"ids": options.padded},
            {length: "ids" for length in lengths if length <= options.padded},
        ),
        "buckets": (
            {f"ids_{length}": length for length in lengths},
            {length: f"ids_{length}" for length in lengths},
        ),
    }
    made = {}
    for form, (shapes, names) in forms.items():
        path = folder / f"{form}-{precision}.tflite"
        signatures = [
            ids_signature(model, unroll=False, name=name, batch=1, length=length, strings=False)
            for name, length in shapes.items()
        ]
        path.write_bytes(convert(signatures, precision))
        made[form] = (path, names)
    return made | {"cached": made["padded"]}


def compare(options):
    from albert_tf.config import AlbertConfig
    from albert_tf.models import AlbertForSequenceClassification

    packages = ("tensorflow", "keras", "ai-edge-litert")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    print(f"{versions}, Python {platform.python_version()}, {os.cpu_count()} cores")
    print(f"{options.size}, random weights, 1 thread; padded to {options.padded}")
    heads = ("precision", "form", "pieces", "MB of file", "MB of memory", "MB private", "CPU ms")
    print("".join(f"{head:>13}" for head in heads))
    config = AlbertConfig.from_size(options.size, id2label={0: "negative", 1: "positive"})
    model = AlbertForSequenceClassification(config)
    for precision in options.precisions:
        with tempfile.TemporaryDirectory() as folder:
            made = files(model, precision, options, Path(folder))
            cases = [
                (form, path, name, length)
                for length in options.lengths
                for form, (path, names) in made.items()
                if (name := names.get(length))
            ]
            rounds = [
                [
                    measured(path, name, length, options.calls, form)
                    for form, path, name, length in cases
                ]
                for _ in range(options.rounds)
            ]
            for row, (form, path, _, length) in enumerate(cases):
                costs = [statistics.median(each[row][field] for each in rounds) for field in FIELDS]
                figures = [path.stat().st_size / 1e6, *costs]
                cells = "".join(f"{figure:13.1f}" for figure in figures)
                print(f"{precision:>13}{form:>13}{length:13}{cells}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    precisions = ("none", "float16", "dynamic")
    parser.add_argument("--size", default="base", help="name of a size (AlbertConfig.from_size)")
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 64, 128, 512])
    parser.add_argument("--padded", type=int, default=128)
    parser.add_argument("--precisions", nargs="+", choices=precisions, default=list(precisions))
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--measure-cached", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure_cached:
        path, name, _ = options.measure_cached
        measure_cached(path, name, options.calls)
    elif options.measure:
        path, name, length = options.measure
        measure(path, name, int(length), options.calls)
    else:
        compare(options)


if __name__ == "__main__":
    main()

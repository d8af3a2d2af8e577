"""Runs one model in the runtimes of other people: does each work, how far is it from Keras?

    make bench-runtimes                                     # base with random weights
    python benchmarks/runtimes.py [--model small] [--size base] [--length 128] [--rows 8]
                                  [--calls 5] [--rounds 3] [--only LiteRT]

Prints a Markdown table. Each line is a file, or a form of one, in one runtime. In each of --rounds
turns a fresh process loads each file, runs --rows rows of --length pieces, of which one is padded,
and compares the logits with Keras' (MediaPipe's probabilities); it uses one core, or all with
--threads 0. LiteRT.js and MediaPipe run rows one by one. Time is the median over the processes of
their median over --calls calls, memory the peak over the process' size before the runtime loads the
file. LiteRT.js needs npm and Chromium, the programs in C a compiler.
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
from pathlib import Path

import runtime_runners

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
PACKAGES = ("tensorflow", "keras", "ai-edge-litert", "onnx", "onnxruntime", "tf2onnx", "openvino")
PACKAGES = (*PACKAGES, "mediapipe")
# Runtime, precision and form of a line, its file, and the runner with its setting.
CASES = (
    ("TensorFlow", "float32", "SavedModel, loop", "saved", "tensorflow", ""),
    ("TensorFlow in C", "float32", "SavedModel, loop", "saved", "tensorflow_c", ""),
    ("LiteRT", "float32", "loop, any length", "loop-none.tflite", "litert", ""),
    ("LiteRT", "float16", "loop, any length", "loop-float16.tflite", "litert", ""),
    ("LiteRT", "int8 dynamic", "loop, any length", "loop-dynamic.tflite", "litert", ""),
    ("LiteRT", "float32", "loop, fixed", "fixed-none.tflite", "litert", ""),
    ("LiteRT", "int8 dynamic", "loop, fixed", "fixed-dynamic.tflite", "litert", ""),
    ("LiteRT in C", "float32", "loop, any length", "loop-none.tflite", "litert_c", ""),
    ("LiteRT in C", "int8 dynamic", "loop, any length", "loop-dynamic.tflite", "litert_c", ""),
    ("LiteRT.js", "float32", "loop, fixed", "none/model/model.tflite", "litert_js", ""),
    ("LiteRT.js", "int8 dynamic", "loop, fixed", "dynamic/model/model.tflite", "litert_js", ""),
    ("MediaPipe", "float32", "unrolled, any length", "texts-none.tflite", "mediapipe", ""),
    ("MediaPipe", "int8 dynamic", "unrolled, any length", "texts-dynamic.tflite", "mediapipe", ""),
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


def measured(case, folder, options):
    """Runs a case in a fresh process; returns its figures, or the reason why it doesn't work."""
    _, _, _, file, runner, setting = case
    command = [sys.executable, runtime_runners.__file__, runner, str(folder / file), setting]
    command += [str(folder / "rows.npz"), str(options.calls), str(options.threads)]
    return json_or_reason(command)


def json_or_reason(command):
    """Runs a command; returns the JSON in its last line, or the last line of its error."""
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        return lines[-1][:90].replace("|", "/")
    return json.loads(done.stdout.splitlines()[-1])


def make_model(options):
    """Returns a classifier, and a tokenizer of as many pieces: small's and pieces of no text."""
    import keras
    from sentencepiece import sentencepiece_model_pb2

    from albert_tf.config import AlbertConfig
    from albert_tf.models import AlbertForSequenceClassification
    from albert_tf.text.tokenizer import AlbertTokenizer

    keras.utils.set_random_seed(1)
    if options.model:
        model = AlbertForSequenceClassification.from_pretrained(options.model, num_labels=2)
        return model, AlbertTokenizer.from_pretrained(options.model)
    small = AlbertTokenizer.from_pretrained("small")
    config = AlbertConfig.from_size(options.size, id2label={0: "negative", 1: "positive"})
    config = config.replace(vocab_size=max(config.vocab_size, small.vocab_size))
    proto = sentencepiece_model_pb2.ModelProto.FromString(small.model_bytes)
    for number in range(len(proto.pieces), config.vocab_size):
        proto.pieces.add(piece=chr(0xF0000 + number), score=-100)
    tokenizer = AlbertTokenizer(proto.SerializeToString(), model_max_length=options.length)
    return AlbertForSequenceClassification(config), tokenizer


def make_rows(tokenizer, options):
    """Returns texts of words drawn at random, the first of half the length, and their ids."""
    import numpy as np

    pieces = tokenizer.convert_ids_to_tokens(list(range(5, 5000)))
    words = [piece[1:] for piece in pieces if piece[1:].isalpha() and piece[0] == "▁"]
    drawn = np.random.default_rng(1).choice(words, (options.rows, 2 * options.length))
    texts = [" ".join(row) for row in drawn]
    texts[0] = " ".join(drawn[0, : options.length // 2 - 2])
    encoded = tokenizer(
        texts, padding="max_length", truncation=True, max_length=options.length, return_tensors="np"
    )
    return texts, {name: encoded[name] for name in runtime_runners.NAMES}


def write_files(folder, options, files):
    """Writes the files, the rows, and Keras' logits."""
    import numpy as np
    from albert_tf_export import export_tflite, saved_model
    from albert_tf_export import onnx as onnx_export
    from albert_tf_export.signatures import ids_signature
    from albert_tf_export.tflite import convert

    model, tokenizer = make_model(options)
    texts, rows = make_rows(tokenizer, options)
    expected = np.asarray(model(dict(rows), training=False)["logits"])
    np.savez(folder / "rows.npz", **rows, texts=texts, expected=expected)
    anything = ids_signature(model, unroll="last", strings=False)
    if "saved" in files:
        saved_model.write([anything], folder / "saved")
    for precision in ("none", "dynamic"):
        if f"{precision}.onnx" in files:
            path = folder / f"{precision}.onnx"
            onnx_export.convert(anything, ("batch", "length"), precision, {}, path)
    for name, unroll, batch, length in (
        ("loop", False, None, None),
        ("fixed", False, options.rows, options.length),
        ("unrolled", True, None, None),
    ):
        signature = ids_signature(model, unroll=unroll, strings=False, batch=batch, length=length)
        for precision in ("none", "float16", "dynamic"):
            file = f"{name}-{precision}.tflite"
            if file in files:
                (folder / file).write_bytes(convert([signature], precision))
    for precision in ("none", "dynamic"):
        if f"texts-{precision}.tflite" in files:
            path = folder / f"texts-{precision}.tflite"
            form = {"host": "mediapipe", "max_length": options.length, "check": False}
            export_tflite(model, tokenizer, path, quantize=precision, **form)
    if any("/model/" in file for file in files):
        write_sites(model, tokenizer, folder, options)
    return float(np.abs(expected).max())


def write_sites(model, tokenizer, folder, options):
    """Writes the page's folders, unless npm can't install its packages."""
    from albert_tf_export.web import _installed, export_web

    from albert_tf.errors import UserError

    try:
        with _installed(None) as packages:
            form = {"lengths": [options.length], "node_modules": packages, "check": False}
            for precision in ("none", "dynamic"):
                export_web(model, tokenizer, folder / precision, quantize=precision, **form)
    except UserError as error:
        print(error, file=sys.stderr)


def write_programs(folder):
    """Compiles the programs in C of the tests, where there is a compiler."""
    from tests.export.c_program import compile_program

    for name in ("serve_saved_model", "run_tflite"):
        try:
            compile_program(f"{name}.c", folder / name)
        except FileNotFoundError as error:
            print(error, file=sys.stderr)


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
    """Prints the table."""
    cases = [case for case in CASES if case[0].startswith(options.only)]
    print(f"{versions(PACKAGES)}  \n{processor()}  ")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        largest = write_files(folder, options, {case[3] for case in cases})
        write_programs(folder)
        cores = f"{options.threads} core" if options.threads else "all cores"
        print(
            f"{options.model or options.size + ', random weights'}, {options.rows} rows of "
            f"{options.length} pieces, {cores}; largest logit {largest:.2f}\n"
        )
        rounds = [
            [measured(case, folder, options) for case in cases] for _ in range(options.rounds)
        ]
        heads = ("runtime", "precision", "form", "works", "difference", "ms", "MB of file", "MB")
        print("| " + " | ".join(heads) + " |\n" + "|---" * 4 + "|---:" * 4 + "|")
        for place, case in enumerate(cases):
            cells = [*case[:3], *results([each[place] for each in rounds], largest)]
            cells.insert(6, f"{size(folder / case[3]):.0f}" if len(cells) > 4 else "")
            print("| " + " | ".join([*cells, *[""] * (8 - len(cells))]) + " |")


def results(runs, largest):
    """Returns the cells of a case's runs: works, difference, ms, MB; or why it doesn't."""
    failed = [each for each in runs if isinstance(each, str)]
    if failed:
        return failed[:1]
    differences, times, peaks = zip(*runs, strict=True)
    works = "wrong" if max(differences) > 0.05 * largest else "yes"
    memory = "" if None in peaks else f"{statistics.median(peaks):.0f}"
    return [works, f"{max(differences):.1e}", f"{statistics.median(times):.0f}", memory]


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
    parser.add_argument("--only", default="", help="runtime of the lines; default: all")
    compare(parser.parse_args())


if __name__ == "__main__":
    main()

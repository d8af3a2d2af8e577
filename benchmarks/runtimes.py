"""Runs one model in all supported runtimes: does each work, and how far does it differ from Keras?

    make bench-runtimes                                     # base with random weights
    python -m benchmarks.runtimes [--model small] [--size base] [--length 128] [--rows 8]
                                  [--calls 5] [--rounds 3] [--only LiteRT]

Each line of the table is one form of a file in one runtime. In each of --rounds turns, a fresh
process loads each file, runs --rows rows of --length tokens, one of them half padding, and compares
the logits (MediaPipe: the probabilities) with Keras. It uses one core, or all with --threads 0.
LiteRT.js and MediaPipe run rows one by one. ms and MB are medians over the processes, of the median
call and of the peak above the memory before the file was loaded. LiteRT.js requires npm and
Chromium, and the C programs require a compiler.
"""

import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks import harness, runners

PACKAGES = ("tensorflow", "keras", "ai-edge-litert", "onnx", "onnxruntime", "tf2onnx", "openvino")
PACKAGES = (*PACKAGES, "mediapipe")
# A line's runtime, precision, and form; its file; its runner; and the precision requested there.
CASES = (
    ("TensorFlow", "float32", "SavedModel, loop", "saved", "tensorflow", None),
    ("TensorFlow", "bfloat16", "SavedModel, loop", "saved-bfloat16", "tensorflow", None),
    ("TensorFlow in C", "float32", "SavedModel, loop", "saved", "tensorflow_c", ""),
    ("LiteRT", "float32", "loop, any length", "loop-none.tflite", "litert", None),
    ("LiteRT", "float16", "loop, any length", "loop-float16.tflite", "litert", None),
    ("LiteRT", "int8 dynamic", "loop, any length", "loop-dynamic.tflite", "litert", None),
    ("LiteRT", "float32", "loop, fixed", "fixed-none.tflite", "litert", None),
    ("LiteRT", "int8 dynamic", "loop, fixed", "fixed-dynamic.tflite", "litert", None),
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


def make_model(options):
    """Returns a classifier and a tokenizer: small's, with unused tokens up to the model's size."""
    import keras
    from sentencepiece import sentencepiece_model_pb2

    from albert_tf import AlbertConfig, AlbertForSequenceClassification, AlbertTokenizer

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
    """Returns texts of randomly drawn words, the first one of half the length, and their ids."""
    import numpy as np

    tokens = tokenizer.convert_ids_to_tokens(list(range(5, 5000)))
    words = [token[1:] for token in tokens if token[1:].isalpha() and token[0] == "▁"]
    drawn = np.random.default_rng(1).choice(words, (options.rows, 2 * options.length))
    texts = [" ".join(row) for row in drawn]
    texts[0] = " ".join(drawn[0, : options.length // 2 - 2])
    encoded = tokenizer(
        texts, padding="max_length", truncation=True, max_length=options.length, return_tensors="np"
    )
    return texts, {name: encoded[name] for name in runners.NAMES}


def write_files(folder, options, files):
    """Writes all forms of the files in `files`, and a batch. Returns the largest logit."""
    from albert_tf_export import export_tflite, graphs
    from albert_tf_export import onnx as onnx_export
    from albert_tf_export.options import in_precision
    from albert_tf_export.signatures import ids_signature

    model, tokenizer = make_model(options)
    texts, rows = make_rows(tokenizer, options)
    expected = runners.write_batch(folder / "rows.npz", rows, model, texts)
    served, in_bfloat16 = (
        ids_signature(in_precision(model, precision), unroll="last", strings=False)
        for precision in ("float32", "bfloat16")
    )
    signatures = {
        name: ids_signature(model, unroll=unroll, strings=False, batch=batch, length=length)
        for name, unroll, batch, length in (
            ("loop", False, None, None),
            ("fixed", False, options.rows, options.length),
            ("unrolled", True, None, None),
        )
    }
    for file in sorted(files):
        path = folder / file
        form, _, precision = path.stem.rpartition("-")
        if file == "saved":
            graphs.write([served], path)
        elif file == "saved-bfloat16":
            graphs.write([in_bfloat16], path)
        elif path.suffix == ".onnx":
            path.write_bytes(onnx_export.convert(served, ("batch", "length"), path.stem, {}))
        elif form == "texts":
            length = options.length
            shape = {"host": "mediapipe", "max_length": length, "check": False}
            export_tflite(model, tokenizer, path, quantize=precision, **shape)
        elif form in signatures:
            path.write_bytes(graphs.convert([signatures[form]], precision))
    if any("/model/" in file for file in files):
        write_sites(model, tokenizer, folder, options)
    return abs(expected).max()


def write_sites(model, tokenizer, folder, options):
    """Writes the page's folders if npm can install its packages."""
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
    """Compiles the tests' C programs if there is a compiler."""
    from tests.export.c_program import compile_program

    for name in ("serve_saved_model", "run_tflite"):
        try:
            compile_program(f"{name}.c", folder / name)
        except FileNotFoundError as error:
            print(error, file=sys.stderr)


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--model", help="name or folder of a checkpoint; default: random weights")
    parser.add_argument("--size", default="base", help="name of a size (AlbertConfig.from_size)")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--calls", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="runtime to run; default: all")
    options = parser.parse_args()
    cases = {case[:3]: case[3:] for case in CASES if case[0].startswith(options.only)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        largest = write_files(folder, options, {file for file, _, _ in cases.values()})
        write_programs(folder)
        how = {"threads": options.threads, "calls": options.calls}
        measured = {
            case: partial(
                harness.fresh,
                runners.measure,
                *(runner, folder / file, [folder / "rows.npz"]),
                **how if setting is None else {**how, "setting": setting},
            )
            for case, (file, runner, setting) in cases.items()
        }
        rounds = harness.take_turns(measured, options.rounds)

    def cells(batches):
        (figures,) = batches
        works = "wrong" if figures["difference"] > 0.05 * largest else "yes"
        memory = "" if figures["added"] is None else f"{figures['added']:.0f}"
        numbers = [f"{figures['difference']:.1e}", f"{figures['ms']:.0f}", f"{figures['file']:.0f}"]
        return [works, *numbers, memory]

    heads = ["runtime", "precision", "form", "works", "difference", "ms", "MB of file", "MB"]
    tables = [
        f"The largest logit is {largest:.2f}.\n",
        harness.table(heads, harness.rows(rounds, cells), 4),
    ]
    harness.report(options, PACKAGES, tables, rounds)


if __name__ == "__main__":
    main()

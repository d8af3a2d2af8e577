"""Compares this library with others: inference, texts to labels and answers, tokenizing, training.

    make bench                                         # base; about an hour on two cores
    python -m benchmarks.peers [--size large] [--shapes 1x128 8x128] [--threads 1] [--rounds 3]
                               [--texts dev.tsv] [--questions xquad.en.json] [--only inference]

All libraries run the same random weights on the same inputs and the same cores, the first --threads
of this machine. Each case runs in a fresh process in each of --rounds rounds, in turns, and its
figures are medians over the rounds. A process measures every shape, from the smallest to the
largest, each for about --seconds after a call that isn't counted. Its outputs are compared with our
Keras model's: "difference" is the largest difference of a logit, relative to the range of logits. A
line whose float32 outputs differ by more than 0.01 shows no figures.

A percentage is the rate of the matmuls relative to a float32 matmul of two 2048 × 2048 matrices, in
TensorFlow or torch in the same run, whichever is faster. "products" is the time of only the model's
matmuls and biases in both libraries, the least that a model can take there. A fine-tuning step is
Keras' `train_on_batch`, or that of `albert-tf finetune`. MB are the process's peak, the part of it
above its imports, and the files that it reads. A picture of inference is saved with the report.
Requires `pip install 'albert_tf[peers]'`.
"""

import csv
import json
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks import harness, products, runners
from benchmarks.peers import processes, tables

PACKAGES = ("tensorflow", "keras", "ai-edge-litert", "keras-hub", "torch", "transformers")
PACKAGES = (*PACKAGES, "onnxruntime", "openvino", "numpy")
# Runner, file and setting of each line.
INFERENCE = {
    "albert_tf, Keras": ("keras", "model", ""),
    "albert_tf, SavedModel": ("tensorflow", "saved", "ids"),
    "albert_tf, LiteRT": ("litert", "none.tflite", "ids"),
    "KerasHub": ("keras_hub", "model", ""),
    "transformers, eager": ("torch", "model", "eager"),
    "transformers, sdpa": ("torch", "model", "sdpa"),
    "transformers, compiled": ("torch", "model", "compiled"),
    "ONNX Runtime": ("onnx", "none.onnx", ""),
    "OpenVINO": ("openvino", "saved", "f32"),
    "albert_tf, LiteRT, int8": ("litert", "dynamic.tflite", "ids"),
    "ONNX Runtime, int8": ("onnx", "dynamic.onnx", ""),
}
LIBRARIES = ("tensorflow", "torch")
OTHERS = {
    "answers": (processes.answers, ("albert_tf", "transformers")),
    "questions": (processes.questions, ("albert_tf", "transformers")),
    "tokenizing": (processes.tokenizing, ("albert_tf", "sentencepiece", "transformers")),
    "training": (
        processes.training,
        ("albert_tf", "albert_tf, finetune", "KerasHub", "transformers"),
    ),
}


def cases(folder, config, options):
    """Returns the processes of a round, keyed by table and name."""
    result = {("product", name): partial(harness.fresh, products.rate, name) for name in LIBRARIES}
    batches = [folder / f"{rows}x{length}.npz" for rows, length in options.shapes]
    how = {"threads": options.threads, "calls": 30, "seconds": options.seconds}
    if "inference" in options.only:
        for name, (runner, file, setting) in INFERENCE.items():
            arguments = (harness.fresh, runners.measure, runner, folder / file, batches)
            result["inference", name] = partial(*arguments, **how, setting=setting)
    if "products" in options.only:
        for name in LIBRARIES:
            arguments = (harness.fresh, processes.products_alone, name, config)
            result["products", name] = partial(*arguments, options.shapes, options.seconds)
    for table, (function, names) in OTHERS.items():
        for name in names if table in options.only else ():
            arguments = (harness.fresh, function, name, folder)
            extra = (options.step, options.seconds) if table == "training" else ()
            result[table, name] = partial(*arguments, *extra)
    return result


def read_texts(path):
    """Returns the texts in a file: its lines, or the column `sentence` of a .tsv."""
    with open(path, encoding="utf-8", newline="") as file:
        if Path(path).suffix != ".tsv":
            return [line.rstrip("\n") for line in file if line.strip()]
        return [row["sentence"] for row in csv.DictReader(file, delimiter="\t", quoting=3)]


def read_questions(path, texts):
    """Returns the question-context pairs in a file in SQuAD's format.

    Without a file, the texts are joined into contexts of different lengths.
    """
    if path is None:
        starts = range(0, len(texts), 7)
        return [("What is it like?", " ".join(texts[one : one + 1 + one % 40])) for one in starts]
    from albert_tf.data.tasks import questions

    examples = questions.read_questions(Path(path), labelled=False)
    return [(example.question, example.context) for example in examples]


def shape(text):
    """Returns (8, 128) for "8x128"."""
    rows, length = map(int, text.split("x"))
    return rows, length


def main():
    from albert_tf.assets import reviews

    parser = harness.parser(__doc__)
    shapes = ["1x16", "1x128", "8x128", "32x128", "64x128", "1x512", "8x512"]
    parser.add_argument("--size", default="base", help="name of a size (AlbertConfig.from_size)")
    parser.add_argument("--shapes", nargs="+", default=shapes, metavar="ROWSxTOKENS")
    parser.add_argument("--step", type=shape, default="8x128", help="shape of a fine-tuning step")
    parser.add_argument("--texts", default=reviews() / "train.tsv", help="file of texts")
    parser.add_argument("--questions", help="file in SQuAD's format; default: built from the texts")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only", nargs="+", choices=tables.TABLES, default=[*tables.TABLES])
    options = parser.parse_args()
    options.shapes = sorted(map(shape, options.shapes), key=lambda each: (each[0] * each[1], each))
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    with tempfile.TemporaryDirectory() as name:
        folder, texts = Path(name), read_texts(options.texts)
        pairs = read_questions(options.questions, texts)
        for file, content in (("texts.json", texts), ("questions.json", pairs)):
            (folder / file).write_text(json.dumps(content), "utf-8")
        shapes = [*options.shapes, options.step]
        try:
            prepared = harness.fresh(processes.prepare, folder, options.size, shapes)
        except harness.Failure as failure:
            sys.exit(f"No files could be written: {failure}")
        files = {name: folder / file for name, (_, file, _) in INFERENCE.items()}
        written = {name: path for name, path in files.items() if path.exists()}
        prepared["MB"] = {name: harness.megabytes(path) for name, path in written.items()}
        rounds = harness.take_turns(cases(folder, prepared["config"], options), options.rounds)
    medians = tables.medians_by_table(rounds)
    harness.report(options, PACKAGES, tables.markdown(medians, prepared, options), rounds)
    if "inference" in options.only:
        tables.picture(medians["inference"], options, options.report / "peers.png")


if __name__ == "__main__":
    main()

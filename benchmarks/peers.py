"""This library beside other people's: inference, texts to answers, tokenizing, training.

    make bench                                         # base; about an hour on two cores
    python benchmarks/peers.py [--size large] [--shapes 1x128 8x128] [--threads 1] [--rounds 3]
                               [--texts dev.tsv] [--questions xquad.en.json]
                               [--only inference] [--output build/bench]

All run the same weights, which are random, on the same inputs and the same cores: the first
--threads ones of this machine. Each case has a fresh process in each of --rounds rounds, in turns,
and its figures are medians over the rounds. A process measures every shape, from the smallest to
the largest, each for about --seconds after a call that isn't counted. Its outputs are compared with
those of our Keras model: "difference" is the largest of a logit, relative to the range of logits. A
line whose float32 outputs differ by more than 0.01 shows no figures.

A percentage is the rate of the matrix products, relative to one of two 2048 × 2048 matrices in
float32, by TensorFlow or torch in the same run, whichever is faster. "products" shows what the
model's products with their biases take alone in both libraries, the least that a model in them can
take. A fine-tuning step is Keras' `train_on_batch`, or that of the command `albert-tf finetune`. MB
are the peak of the process, and the part of it above its imports. Prints Markdown, and writes it
with a JSON of every figure and a picture to --output. Needs `pip install 'albert_tf[peers]'`.
"""

import argparse
import csv
import json
import os
import sys
import tempfile
from pathlib import Path

from peers_report import markdown, picture, summary
from peers_runners import shape
from runtimes import json_or_reason, processor, versions

RUNNERS = Path(__file__).with_name("peers_runners.py")
PACKAGES = (
    *("albert_tf", "tensorflow", "keras", "ai-edge-litert", "keras-hub", "torch", "transformers"),
    *("onnxruntime", "openvino", "numpy"),
)
# Runner, file and form of each line.
INFERENCE = {
    "albert_tf, Keras": ("keras", "model", ""),
    "albert_tf, SavedModel": ("tensorflow", "saved", ""),
    "albert_tf, LiteRT": ("litert", "none.tflite", ""),
    "KerasHub": ("keras_hub", "keras-hub", ""),
    "transformers, eager": ("torch", "model", "eager"),
    "transformers, sdpa": ("torch", "model", "sdpa"),
    "transformers, compiled": ("torch", "model", "compiled"),
    "ONNX Runtime": ("onnx", "none.onnx", ""),
    "OpenVINO": ("openvino", "saved", "f32"),
    "albert_tf, LiteRT, int8": ("litert", "dynamic.tflite", ""),
    "ONNX Runtime, int8": ("onnx", "dynamic.onnx", ""),
}
NAMES = {
    "product": ("tensorflow", "torch"),
    "inference": tuple(INFERENCE),
    "products": ("tensorflow", "torch"),
    "answers": ("albert_tf", "transformers"),
    "questions": ("albert_tf", "transformers"),
    "tokenizing": ("albert_tf", "sentencepiece", "transformers"),
    "training": ("albert_tf", "albert_tf, finetune", "KerasHub", "transformers"),
}


def command(work, folder, name, options):
    """Returns the command of the process that measures a case, or prepares the files."""
    shapes = [options.step] if work == "training" else options.shapes
    runner, file, form = INFERENCE.get(name, (name, "", ""))
    given = ("--runner", runner, "--file", file, "--form", form, "--size", options.size)
    given += ("--threads", options.threads, "--seconds", options.seconds)
    given += ("--shapes", *("x".join(map(str, each)) for each in shapes))
    return list(map(str, (sys.executable, RUNNERS, work, folder, *given)))


def measured(folder, options):
    """Returns the results of all rounds, by kind and name."""
    kinds = ["product", *options.only]
    results = {kind: {name: [] for name in NAMES[kind]} for kind in kinds}
    for number in range(options.rounds):
        for kind in kinds:
            for name in NAMES[kind]:
                print(f"round {number + 1}: {kind}, {name}", file=sys.stderr, flush=True)
                found = json_or_reason(command(kind, folder, name, options))
                results[kind][name].append(found)
    return results


def read_texts(path):
    """Returns the texts of a file: lines, or the column `sentence` of a .tsv."""
    with open(path, encoding="utf-8", newline="") as file:
        if Path(path).suffix != ".tsv":
            return [line.rstrip("\n") for line in file if line.strip()]
        return [row["sentence"] for row in csv.DictReader(file, delimiter="\t", quoting=3)]


def read_questions(path, texts):
    """Returns the pairs of question and context of a file in SQuAD's format.

    Without a file, the texts are joined to contexts of different lengths.
    """
    if path is None:
        starts = range(0, len(texts), 7)
        return [("What is it like?", " ".join(texts[one : one + 1 + one % 40])) for one in starts]
    from albert_tf.data.tasks import questions

    found = questions.read_questions(Path(path), labelled=False)
    return [(each.question, each.context) for each in found]


def run(options):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = read_texts(options.texts)
        (folder / "texts.json").write_text(json.dumps(texts), "utf-8")
        pairs = read_questions(options.questions, texts)
        (folder / "questions.json").write_text(json.dumps(pairs), "utf-8")
        shapes = [*options.shapes, options.step]
        prepare = argparse.Namespace(**{**vars(options), "shapes": shapes})
        config = json_or_reason(command("prepare", folder, "", prepare))
        if isinstance(config, str):
            sys.exit(f"No files could be made: {config}")
        results = measured(folder, options)
        asked = json.loads((folder / "questions.json").read_text("utf-8"))
    return {
        "versions": versions(PACKAGES),
        "processor": processor(),
        "options": {name: value for name, value in vars(options).items() if name != "output"},
        "config": config,
        "texts": len(texts),
        "questions": len(asked),
        "rounds": results,
        "medians": summary(results, config, options),
    }


def main():
    from albert_tf.assets import reviews

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shapes = ["1x16", "1x128", "8x128", "32x128", "64x128", "1x512", "8x512"]
    kinds = [kind for kind in NAMES if kind != "product"]
    parser.add_argument("--size", default="base", help="name of a size (AlbertConfig.from_size)")
    parser.add_argument("--shapes", nargs="+", default=shapes, metavar="ROWSxPIECES")
    parser.add_argument("--step", type=shape, default="8x128", help="shape of a fine-tuning step")
    parser.add_argument("--texts", default=reviews() / "train.tsv", help="file of texts")
    parser.add_argument("--questions", help="file in SQuAD's format; default: made of the texts")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="folder")
    options = parser.parse_args()
    options.shapes = sorted(map(shape, options.shapes), key=lambda each: (each[0] * each[1], each))
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    report = run(options)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "peers.json").write_text(json.dumps(report, indent=1, default=str) + "\n")
    (options.output / "peers.md").write_text(markdown(report), "utf-8")
    if "inference" in options.only:
        picture(report, options.output / "peers.png")
    print(markdown(report))


if __name__ == "__main__":
    main()

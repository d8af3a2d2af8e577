"""Measures the time to start: help, imports, and one prediction in the shell.

    python -m benchmarks.startup [--model DIR] [--texts FILE] [--rounds 7]

Each row runs in its own process, and the rows take turns. The first round, which reads the packages
from disk, isn't counted. `predict` and transformers' pipeline read the same text classifier,
`predict` also reads its exported files, and all must return the same label. Without --model, it is
`small` with a random head. A SavedModel answers its first request in a process that imports only
TensorFlow and tensorflow-text. The weights of KerasHub's classifier are random, so its answer isn't
compared; its size and vocabulary are the same. With --texts, `predict` also labels one text per
line, from the file, which it sorts by length, and from a pipe, batch by batch. The rows of
transformers and KerasHub require the extra `peers`, and that of ONNX Runtime requires `onnx`;
without the extra, a row is left out. Seconds and MB are medians.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks import harness

TEXT = "A quiet delight."
PACKAGES = ("tensorflow", "keras", "transformers", "torch")
OURS = "albert-tf predict, one text"
THEIRS = "transformers' pipeline, one text"
FILES = {
    ".tflite": "albert-tf predict with a .tflite",
    ".onnx": "albert-tf predict with an .onnx",
    "": "a SavedModel's first request",
}
SIZES = (32, 128)
KERAS_HUB = "KerasHub's classifier, one text"
REQUEST = """
import sys
import tensorflow as tf
import tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
(name,) = serve.structured_input_signature[1]
answer = serve(**{name: tf.constant([sys.argv[2]])})
print(answer["label"].numpy()[0].decode(), float(tf.reduce_max(answer["probabilities"])), sep="\\t")
"""
OF_KERAS_HUB = """
import json
import sys
import keras_hub
from pathlib import Path
folder = Path(sys.argv[1])
config = json.loads((folder / "config.json").read_text())
backbone = keras_hub.models.AlbertBackbone(
    vocabulary_size=config["vocab_size"],
    num_layers=config["num_hidden_layers"],
    num_heads=config["num_attention_heads"],
    embedding_dim=config["embedding_size"],
    hidden_dim=config["hidden_size"],
    intermediate_dim=config["intermediate_size"],
)
tokenizer = keras_hub.tokenizers.AlbertTokenizer(str(folder / "spiece.model"))
preprocessor = keras_hub.models.AlbertTextClassifierPreprocessor(tokenizer, sequence_length=64)
classifier = keras_hub.models.AlbertTextClassifier(backbone, 2, preprocessor)
print(classifier.predict([sys.argv[2]], verbose=0))
"""
PIPELINE = """
import sys
from transformers import pipeline
(answer,) = pipeline("text-classification", sys.argv[1])(sys.argv[2])
print(answer["label"], round(answer["score"], 4), sep="\\t")
"""


def commands(model, files):
    """Returns Python's arguments for each row."""
    predict = ["-m", "albert_tf.cli", "predict", "--model"]
    rows = {
        "Python alone": ["-c", "pass"],
        "import albert_tf": ["-c", "import albert_tf"],
        "albert-tf --help": ["-m", "albert_tf.cli", "--help"],
        "import tensorflow, keras": ["-c", "import tensorflow, keras"],
        "from albert_tf import AlbertModel": ["-c", "from albert_tf import AlbertModel"],
        OURS: [*predict, model, TEXT],
    }
    for file in files:
        suffix = Path(file).suffix
        rows[FILES[suffix]] = [*(predict if suffix else ["-c", REQUEST]), file, TEXT]
    if importlib.util.find_spec("transformers"):
        imported = "from transformers import AlbertModel"
        rows |= {imported: ["-c", imported], THEIRS: ["-c", PIPELINE, model, TEXT]}
    if importlib.util.find_spec("keras_hub"):
        rows[KERAS_HUB] = ["-c", OF_KERAS_HUB, model, TEXT]
    return rows


def streams(model, texts):
    """Returns the arguments and the standard input for each row with many texts."""
    for size in SIZES:
        predict = ["-m", "albert_tf.cli", "predict", "--model", model, "--batch-size", str(size)]
        yield f"a pipe, batches of {size}", [*predict, "-"], texts
        yield f"a file, batches of {size}", [*predict, "--input", texts], os.devnull


def run(arguments, given=os.devnull):
    """Runs Python, and returns processor and wall-clock seconds, the peak in MB, and the output.

    Args:
        given: file for standard input.
    """
    # Without .pyc files, each process would compile the modules again.
    hidden = ("PYTHONDONTWRITEBYTECODE",)
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    start = time.monotonic()
    with open(given, "rb") as stdin:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise harness.Failure(f"status {process.returncode}: {arguments}")
    return {
        "processor": usage.ru_utime + usage.ru_stime,
        "wall": time.monotonic() - start,
        "peak": usage.ru_maxrss / 1024,
        "output": output,
    }


def check_answers(ours, theirs):
    """Compares the labels and probabilities."""
    (label, probability), (other, others) = (each["output"].split() for each in (ours, theirs))
    if label != other or abs(float(probability) - float(others)) > 2e-4:
        sys.exit(f"The answers differ: {ours['output']!r}, {theirs['output']!r}")


def write_model(folder):
    from albert_tf import AlbertForSequenceClassification, AlbertTokenizer

    for each in (AlbertForSequenceClassification, AlbertTokenizer):
        each.from_pretrained("small").save_pretrained(folder)


def write_files(model, folder):
    """Exports a classifier and returns the paths of the files."""
    from albert_tf import (
        AlbertForSequenceClassification,
        AlbertTokenizer,
        export_onnx,
        export_saved_model,
        export_tflite,
    )

    exporters = {".tflite": partial(export_tflite, ids_only=True), "": export_saved_model}
    if all(map(importlib.util.find_spec, ("onnx", "onnxruntime", "tf2onnx"))):
        exporters[".onnx"] = export_onnx
    classifier = AlbertForSequenceClassification.from_pretrained(model)
    tokenizer = AlbertTokenizer.from_pretrained(model)
    paths = []
    for ending, export in exporters.items():
        paths.append(f"{folder}/exported{ending}")
        export(classifier, tokenizer, paths[-1], check=False)
    return paths


def main():
    parser = harness.parser(__doc__, rounds=7)
    parser.add_argument("--model", help="directory of a text classifier")
    parser.add_argument("--texts", help="file to label, one text per line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or str(Path(folder) / "model")
        if options.model is None:
            harness.fresh(write_model, model)
        files = harness.fresh(write_files, model, folder)
        lines = commands(model, files)
        cases = {name: partial(run, arguments) for name, arguments in lines.items()}
        harness.take_turns(cases, 1)
        if options.texts:
            cases |= {name: partial(run, *row) for name, *row in streams(model, options.texts)}
        rounds = harness.take_turns(cases, options.rounds)
    for other in (THEIRS, *FILES.values()):
        if not isinstance(rounds.get(other, ""), str):
            check_answers(rounds[OURS][0], rounds[other][0])

    def cells(figures):
        return [f"{figures['processor']:.2f}", f"{figures['wall']:.2f}", f"{figures['peak']:,.0f}"]

    heads = ["", "processor s", "wall-clock s", "MB peak"]
    tables = [harness.table(heads, harness.rows(rounds, cells))]
    harness.report(options, PACKAGES, tables, rounds)


if __name__ == "__main__":
    main()

"""Measures what a person waits for at the start: help, imports, one answer from the shell.

    python benchmarks/startup.py [--model DIR] [--rounds 7]

Each row is a fresh process, and the rows take turns. `predict` and transformers' pipeline read the
same directory, a classifier of texts, and must give the same answer; without --model it is `small`
with a random head. Rows of transformers need the extra `peers`; without it they are left out.
Prints a table in Markdown: medians of processor and wall-clock seconds, and the largest peak of
memory.
"""

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runtimes import versions

TEXT = "A quiet delight."
PACKAGES = ("albert_tf", "tensorflow", "keras", "transformers", "torch")
OURS = "albert-tf predict, one text"
THEIRS = "transformers' pipeline, one text"
PIPELINE = """
import sys
from transformers import pipeline
(answer,) = pipeline("text-classification", sys.argv[1])(sys.argv[2])
print(answer["label"], round(answer["score"], 4), sep="\\t")
"""
MODEL = """
import sys
from albert_tf import AlbertForSequenceClassification, AlbertTokenizer
for each in (AlbertForSequenceClassification, AlbertTokenizer):
    each.from_pretrained("small").save_pretrained(sys.argv[1])
"""


def commands(model):
    """Returns the arguments of Python for each row."""
    rows = {
        "Python alone": ["-c", "pass"],
        "import albert_tf": ["-c", "import albert_tf"],
        "albert-tf --help": ["-m", "albert_tf.cli", "--help"],
        "import tensorflow, keras": ["-c", "import tensorflow, keras"],
        "from albert_tf import AlbertModel": ["-c", "from albert_tf import AlbertModel"],
        OURS: ["-m", "albert_tf.cli", "predict", "--model", model, TEXT],
    }
    if importlib.util.find_spec("transformers"):
        rows["from transformers import AlbertModel"] = [
            "-c",
            "from transformers import AlbertModel",
        ]
        rows[THEIRS] = ["-c", PIPELINE, model, TEXT]
    return rows


def measure(arguments):
    """Runs Python; returns processor seconds, wall-clock seconds, peak MB and the output."""
    # Without compiled modules each process would compile them again.
    hidden = ("PYTHONDONTWRITEBYTECODE",)
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, arguments
    return usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss / 1024, output


def check_answers(ours, theirs):
    """Compares the label and the probability of both."""
    (label, odds), (other, others_odds) = (each.split() for each in (ours, theirs))
    assert label == other, (ours, theirs)
    assert abs(float(odds) - float(others_odds)) < 2e-4, (ours, theirs)


def table(model, rounds):
    rows = commands(model)
    found = {name: [] for name in rows}
    for number in range(rounds + 1):
        for name, arguments in rows.items():
            result = measure(arguments)
            if number:  # The first round reads the packages from the disk.
                found[name].append(result)
    if THEIRS in found:
        check_answers(found[OURS][0][-1], found[THEIRS][0][-1])
    print("| | processor s | wall-clock s | MB peak |")
    print("|---|---:|---:|---:|")
    for name, results in found.items():
        processor, wall, memory, _ = zip(*results, strict=True)
        medians = f"{statistics.median(processor):.2f} | {statistics.median(wall):.2f}"
        print(f"| `{name}` | {medians} | {max(memory):,.0f} |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="directory of a classifier of texts")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(versions(filter(importlib.util.find_spec, PACKAGES)), end="\n\n")
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or str(Path(folder) / "model")
        if options.model is None:
            measure(["-c", MODEL, model])
        table(model, options.rounds)


if __name__ == "__main__":
    main()

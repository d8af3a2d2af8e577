"""Measures the wait at the start: help, imports, one answer from the shell.

    python -m benchmarks.startup [--model DIR] [--rounds 7]

Each row is a process of its own, and the rows take turns; a first round, which reads the packages
from the disk, isn't counted. `predict` and transformers' pipeline read the same directory, a
classifier of texts, and must give the same answer; without --model it is `small` with a random
head. Rows of transformers need the extra `peers`; without it they are left out. Seconds and MB are
medians.
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
PIPELINE = """
import sys
from transformers import pipeline
(answer,) = pipeline("text-classification", sys.argv[1])(sys.argv[2])
print(answer["label"], round(answer["score"], 4), sep="\\t")
"""


def commands(model):
    """Returns the arguments of Python for each row."""
    ours = {
        "Python alone": ["-c", "pass"],
        "import albert_tf": ["-c", "import albert_tf"],
        "albert-tf --help": ["-m", "albert_tf.cli", "--help"],
        "import tensorflow, keras": ["-c", "import tensorflow, keras"],
        "from albert_tf import AlbertModel": ["-c", "from albert_tf import AlbertModel"],
        OURS: ["-m", "albert_tf.cli", "predict", "--model", model, TEXT],
    }
    theirs = {
        "from transformers import AlbertModel": ["-c", "from transformers import AlbertModel"],
        THEIRS: ["-c", PIPELINE, model, TEXT],
    }
    return ours | theirs if importlib.util.find_spec("transformers") else ours


def run(arguments):
    """Runs Python; returns processor and wall-clock seconds, the peak in MB and the output."""
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
    """Compares the label and the probability of both."""
    (label, probability), (other, others) = (each["output"].split() for each in (ours, theirs))
    if label != other or abs(float(probability) - float(others)) > 2e-4:
        sys.exit(f"The answers differ: {ours['output']!r}, {theirs['output']!r}")


def write_model(folder):
    from albert_tf import AlbertForSequenceClassification, AlbertTokenizer

    for each in (AlbertForSequenceClassification, AlbertTokenizer):
        each.from_pretrained("small").save_pretrained(folder)


def main():
    parser = harness.parser(__doc__, rounds=7)
    parser.add_argument("--model", help="directory of a classifier of texts")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or str(Path(folder) / "model")
        if options.model is None:
            harness.fresh(write_model, model)
        cases = {name: partial(run, arguments) for name, arguments in commands(model).items()}
        harness.take_turns(cases, 1)
        rounds = harness.take_turns(cases, options.rounds)
    if not isinstance(rounds.get(THEIRS, ""), str):
        check_answers(rounds[OURS][0], rounds[THEIRS][0])

    def cells(figures):
        return [f"{figures['processor']:.2f}", f"{figures['wall']:.2f}", f"{figures['peak']:,.0f}"]

    heads = ["", "processor s", "wall-clock s", "MB peak"]
    tables = [harness.table(heads, harness.rows(rounds, cells))]
    harness.report(options, PACKAGES, tables, rounds)


if __name__ == "__main__":
    main()

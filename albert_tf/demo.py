"""From reviews to a phone: fine-tunes a model, exports it twice, and predicts in three processes.

    python -m albert_tf.demo [--output demo-output]

Prints each command and runs it. The table at the end compares the labels and probabilities of
Keras, the SavedModel, and the 8-bit TFLite file; the demo fails if they differ. The last lines show
commands that build and serve a web page with the model.
"""

import argparse
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from albert_tf.assets import reviews
from albert_tf.files import user_path

# Classifies the lines of a file with a SavedModel, without importing this package.
ASK = """\
import json
import sys

import tensorflow as tf
import tensorflow_text  # registers the operators of the signature

_, folder, file = sys.argv
signature = tf.saved_model.load(folder).signatures["text"]
with open(file, encoding="utf-8") as lines:
    for text in lines:
        found = signature(text=tf.constant([text.rstrip("\\n")]))
        label, classes = found["label"].numpy()[0], found["classes"].numpy()[0]
        probabilities = {
            name.decode(): float(value)
            for name, value in zip(classes, found["probabilities"].numpy()[0])
        }
        print(json.dumps({"label": label.decode(), "probabilities": probabilities}))
"""
# Maximum allowed differences in probability; TFLite has 8-bit weights. Labels must agree.
AGREEMENT = {"SavedModel": 1e-4, "TFLite int8": 0.05}


class ProcessRun(NamedTuple):
    """The predictions and resource use of one process."""

    rows: list[tuple[str, float]]  # label and probability of each text
    megabytes: float  # size of the loaded files
    peak: float  # peak memory in MB, including the interpreter and its libraries
    seconds: float  # wall time, including imports


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo and returns its exit status: 1 if the three models disagree, otherwise 0."""
    parser = argparse.ArgumentParser(prog="albert_tf.demo", description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=user_path, default=Path("demo-output"))
    output = parser.parse_args(arguments).output
    started = time.monotonic()
    model, served, phone = output / "model", output / "saved_model" / "1", output / "model.tflite"
    data = reviews()
    new = data / "new.txt"
    train: list[str | Path] = ["--task", "classify", "--data", data, "--text-column", "sentence"]
    _albert_tf("finetune", *train, "--model", "small", "--output", model, "--force")
    can_read_text = importlib.util.find_spec("tensorflow_text") is not None  # not on Windows
    export = ["--force"] if can_read_text else ["--force", "--ids-only"]
    _albert_tf("export", "saved-model", "--model", model, "--output", served, *export)
    export += ["--quantize", "dynamic"]
    _albert_tf("export", "tflite", "--model", model, "--output", phone, *export)
    predict: list[str | Path] = [*_ALBERT_TF, "predict", "--input", new, "--json", "--model"]
    weights = [model / "model.safetensors", model / "spiece.model"]
    answers = {"Keras": _ask([*predict, model], weights)}
    if can_read_text:
        (output / "ask.py").write_text(ASK, encoding="utf-8", newline="\n")
        answers["SavedModel"] = _ask([sys.executable, output / "ask.py", served, new], [served])
    answers["TFLite int8"] = _ask([*predict, phone], [phone])
    print(f"\n{_table(new.read_text(encoding='utf-8').splitlines(), answers)}")
    status = _verdict(answers)
    print(f"The demo took {time.monotonic() - started:.0f} s. The files are in {output}.")
    python = shlex.quote(sys.executable.removeprefix(os.getcwd() + os.sep))
    model, site = shlex.quote(str(model)), shlex.quote(str(output / "site"))
    print(
        "\nTo try the model on a web page in your browser (requires npm):\n"
        f"  {python} -m albert_tf.cli export web --model {model} --output {site} --force &&\n"
        f"  {python} -m http.server --directory {site}\n"
        "Then open http://localhost:8000."
    )
    return status


_ALBERT_TF = (sys.executable, "-m", "albert_tf.cli")


def _albert_tf(*words: str | Path) -> None:
    print(f"\n$ albert-tf {shlex.join(map(str, words))}", flush=True)
    status = subprocess.run([*_ALBERT_TF, *words], check=False).returncode
    if status:
        sys.exit(status)


def _ask(command: Sequence[str | Path], loaded: Sequence[Path]) -> ProcessRun:
    """Runs a process that prints one line of JSON per text."""
    line = shlex.join(map(str, command)).replace(shlex.join(_ALBERT_TF), "albert-tf")
    print(f"\n$ {line.replace(sys.executable, 'python')}", flush=True)
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "PYTHONIOENCODING": "utf-8"}
    started = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8", env=environment
        )
        found = [json.loads(line) for line in process.stdout or ()]
        if sys.platform == "win32":  # can't report peak memory after a process has ended
            status, peak = process.wait(), 0
        else:
            _, status, usage = os.wait4(process.pid, 0)
            peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        seconds = time.monotonic() - started
        if status:
            errors.seek(0)
            sys.exit(f"{errors.read()}\nThe process failed with status {status}.")
    rows = [(row["label"], row["probabilities"][row["label"]]) for row in found]
    files = [file for path in loaded for file in (path.rglob("*") if path.is_dir() else [path])]
    size = sum(file.stat().st_size for file in files if file.is_file())
    return ProcessRun(rows, size / 1e6, peak / 1e6, seconds)


def _table(texts: Sequence[str], answers: dict[str, ProcessRun]) -> str:
    width = 58
    lines = [f"{'':{width}}" + "".join(f"{name:>18}" for name in answers)]
    for index, text in enumerate(texts):
        shown = text if len(text) < width else text[: width - 2] + "…"
        rows = (answer.rows[index] for answer in answers.values())
        lines.append(f"{shown:{width}}" + "".join(f"{row[0]:>11} {row[1]:.4f}" for row in rows))
    for name, unit, field in (
        ("files", "MB", "megabytes"),
        ("peak memory of the process", "MB", "peak"),
        ("time of the process", "s", "seconds"),
    ):
        cells = (f"{getattr(answer, field):.1f} {unit}" for answer in answers.values())
        lines.append(f"{name:{width}}" + "".join(f"{cell:>18}" for cell in cells))
    return "\n".join(lines)


def _verdict(answers: dict[str, ProcessRun]) -> int:
    """Returns 0 if the labels and probabilities of all processes agree with Keras's."""
    expected = answers["Keras"].rows
    for name, answer in answers.items():
        if name == "Keras":
            continue
        tolerance = AGREEMENT[name]
        pairs = list(zip(answer.rows, expected, strict=True))
        agree = all(label == other for (label, _), (other, _) in pairs)
        largest = max(abs(one - other) for (_, one), (_, other) in pairs)
        labels = "same labels as Keras" if agree else "labels DIFFER from Keras"
        print(f"{name}: {labels}, probabilities within {largest:.1g}.")
        if not agree or largest > tolerance:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compares an export, run in a fresh process without this package, with Keras."""

import contextlib
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.files import WILDCARDS
from albert_tf_export.comparison import ParityError, differences, magnitude
from albert_tf_export.samples import Case

PACKAGES: Final = ("keras", "tensorflow", "tensorflow-text", "ai-edge-litert")
RUNNERS: Final = Path(__file__).parent / "runners"
# The largest difference of an output for each precision, as a share of its largest magnitude (of 1,
# where all are smaller); `EXACT` in float32. Measured at base size with random weights: 2e-6,
# 1.4e-3, 0.015 and 0.03 over all tasks, the pooled output being the worst (a classifier's logits:
# 1e-6, 3e-4, 0.004 and 0.03); with a classifier's trained ones at size "mini": 2e-7 in float32,
# 2e-4 in float16 and 0.006 in 8 bits. A wrong export is off by about 1.
EXACT: Final = 1e-4
TOLERANCES: Final[Mapping[str, float]] = {"float16": 0.01, "bfloat16": 0.1, "dynamic": 0.15}


class Difference(NamedTuple):
    """How far one output of a signature is from Keras' float32.

    Attributes:
        output: its name.
        value: the largest absolute difference over the sample texts.
        tolerance: the largest difference that is allowed at the export's precision.
        milliseconds: median time of a sample text.
        megabytes: peak memory over an empty interpreter; Linux.
    """

    output: str
    value: float
    tolerance: float
    milliseconds: float = 0.0
    megabytes: float = 0.0

    @property
    def share(self) -> float:
        """The difference as a share of the tolerance; above 1 it is too large."""
        return math.inf if math.isnan(self.value) else self.value / self.tolerance


class Run(NamedTuple):
    """The outputs of each row of a signature, and what they took.

    Attributes:
        outputs: without the batch's axis.
        milliseconds: median time of a row.
        megabytes: peak memory over an empty interpreter; Linux.
    """

    outputs: Sequence[Mapping[str, np.ndarray]]
    milliseconds: float
    megabytes: float


class Scores(NamedTuple):
    """The scores of an export and of Keras on the same labelled examples.

    Attributes:
        metric: name of the task's first metric.
        keras, exported: its values.
        agreement: share of the examples that both predict alike.
        examples: their number.
        milliseconds, megabytes: as in `Run`.
    """

    metric: str
    keras: float
    exported: float
    agreement: float
    examples: int
    milliseconds: float
    megabytes: float

    def __str__(self) -> str:
        return (
            f"{self.metric} {self.exported:.4f} of {self.examples} examples, Keras "
            f"{self.keras:.4f}; {self.agreement:.1%} predicted alike; "
            f"{self.milliseconds:.1f} ms, {self.megabytes:.0f} MB of memory"
        )


@dataclass(frozen=True)
class Report:
    """An export, and its differences from Keras in float32.

    Attributes:
        path: the file or folder.
        size: in bytes.
        sha256: of its files' names and contents, in hexadecimal; the same for the same model,
            options and packages.
        differences: for each signature, the output that came closest to its tolerance; empty
            without a check.
        scores: on labelled examples, where they were given.
    """

    path: Path
    size: int
    sha256: str
    differences: Mapping[str, Difference]
    scores: Scores | None = None

    def __str__(self) -> str:
        compared = [
            f"{name}: max abs difference from Keras {found.value:.2g} ({found.output}, "
            f"tolerance {found.tolerance:.2g})"
            + f"; {found.milliseconds:.1f} ms, {found.megabytes:.0f} MB of memory"
            * bool(found.milliseconds)
            for name, found in self.differences.items()
        ]
        made = f"{self.path}: {self.size / 1e6:.1f} MB, SHA-256 {self.sha256[:12]}"
        return "\n".join([made, *compared, *([str(self.scores)] if self.scores else [])])

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as JSON has it."""
        return {
            "file": self.path.name,
            "size": self.size,
            "sha256": self.sha256,
            "signatures": {name: each._asdict() for name, each in self.differences.items()},
            "scores": self.scores._asdict() if self.scores else None,
        }

    def write(self, path: Path, packages: Sequence[str] = PACKAGES) -> None:
        """Writes the report as JSON, with the export's later name and versions of packages."""
        content = {**self.to_dict(), "packages": {name: version(name) for name in packages}}
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def report(
    path: Path,
    written: Path,
    differences: Mapping[str, Difference],
    scores: Scores | None = None,
) -> Report:
    """Returns the report of an export to `path`, whose content is still at `written`."""
    files = [file for file in sorted(written.rglob("*")) if file.is_file()] or [written]
    digest = hashlib.sha256()
    for file in files:
        name = file.relative_to(written).as_posix()
        digest.update(f"{name}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as content:
            while block := content.read(1 << 20):
                digest.update(block)
    size = sum(file.stat().st_size for file in files)
    return Report(path, size, digest.hexdigest(), differences, scores)


def check(
    runner: str,
    path: Path,
    samples: Mapping[str, Case],
    precision: str,
    vocabulary: bytes | None = None,
    options: Sequence[str] = (),
) -> dict[str, Difference]:
    """Returns the largest difference for each signature.

    Args:
        runner: file name of the script that runs the export.
        path: the export.
        samples: for each of its signatures, its inputs and expected outputs.
        precision: a key of `TOLERANCES`, or any other name of float32.
        vocabulary: SentencePiece model with which the runner makes the ids where a sample has its
            texts, as on a phone; by default they come from the samples.
        options: further arguments of the script.
    Raises:
        ParityError: the export doesn't run, or a difference is beyond the tolerance.
    """
    found = run(runner, path, samples, vocabulary, options)
    differences = {
        name: _difference(found[name].outputs, case, precision)._replace(
            milliseconds=found[name].milliseconds, megabytes=found[name].megabytes
        )
        for name, case in samples.items()
    }
    for name, difference in differences.items():
        if difference.share > 1:
            raise ParityError(
                f"The export's {difference.output} must be within {difference.tolerance:.2g} of "
                f"Keras'. Received: a difference of {difference.value:.2g} from its signature "
                f"{name!r}. Choose a higher precision, or skip the check with check=False."
            )
    return differences


def run(
    runner: str,
    path: Path,
    samples: Mapping[str, Case],
    vocabulary: bytes | None = None,
    options: Sequence[str] = (),
) -> dict[str, Run]:
    """Runs each signature on its samples in a fresh process; the arguments are those of `check`."""
    with tempfile.TemporaryDirectory() as workshop:
        folder = Path(workshop)
        if WILDCARDS & set(path.resolve().as_posix()):
            link = folder / f"export{path.suffix}"
            link.symlink_to(path.resolve())
            path = link
        commands = []
        for name, case in samples.items():
            command: list[str | Path] = [RUNNERS / runner, path, "--signature", name, *options]
            inputs = case.inputs
            if case.texts and vocabulary is not None:
                (folder / "spiece.model").write_bytes(vocabulary)
                command += ["--vocabulary", folder / "spiece.model"]
                command += ["--max-length", str(max(case.pieces))]
                inputs = case.texts
            (folder / name).write_text("".join(json.dumps(row) + "\n" for row in inputs))
            command += ["--input", folder / name, "--save", folder / f"{name}.npz"]
            commands.append([*command, "--report", folder / f"{name}.json"])
        _run_scripts(commands)
        costs = {name: json.loads((folder / f"{name}.json").read_text()) for name in samples}
        return {
            name: Run(
                _saved_outputs(folder / f"{name}.npz"), cost["milliseconds"], cost["peak_memory_mb"]
            )
            for name, cost in costs.items()
        }


# Runs a script as Python does, and ends when standard input ends.
_ENDING_WITH_PARENT: Final = """
import os, runpy, sys, threading

def wait():
    os.read(0, 1)
    os._exit(1)

threading.Thread(target=wait, daemon=True).start()
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def _run_scripts(commands: Sequence[Sequence[str | Path]]) -> None:
    """Runs all scripts at once, each in a fresh process that ends with this one."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONIOENCODING": "utf-8"}
    with contextlib.ExitStack() as stack:
        processes = []
        alive, ours = os.pipe()  # The system closes our end, even after `kill -9`.
        stack.callback(os.close, alive)
        stack.callback(os.close, ours)
        for command in commands:
            process = subprocess.Popen(
                [sys.executable, "-c", _ENDING_WITH_PARENT, *command],
                stdin=alive,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                env=environment,
            )
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)  # Ctrl-C ends them at once.
        for process in processes:
            _, errors = process.communicate()
            if process.returncode:
                reason = (errors.strip() or f"status {process.returncode}").splitlines()[-1]
                raise ParityError(f"The export must run without this package. Received: {reason}")


def _saved_outputs(file: Path) -> list[dict[str, np.ndarray]]:
    """Reads a runner's file: the outputs of each row."""
    rows: list[dict[str, np.ndarray]] = []
    with np.load(file, allow_pickle=False) as arrays:
        for key in arrays.files:
            row, _, name = key.partition("/")
            rows += [{} for _ in range(len(rows), int(row) + 1)]
            rows[int(row)][name] = arrays[key]
    return rows


def _difference(found: Sequence[Any], case: Case, precision: str) -> Difference:
    """The difference of the output that comes closest to its tolerance."""
    share = TOLERANCES.get(precision, EXACT)
    skipped = case.ties if share > EXACT else ()
    compared = (
        [{name: row[name] for name in row if name not in skipped} for row in rows]
        for rows in (found, case.expected)
    )
    rows = [differences(*row) for row in zip(*compared, case.pieces, strict=True)]
    each = [
        Difference(
            name,
            float(np.max([row[name] for row in rows])),  # NaN, if any is.
            share * max(1.0, magnitude(case.expected, name)),
        )
        for name in rows[0]
    ]
    return max(each, key=lambda difference: difference.share)

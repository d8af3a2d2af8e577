"""What a fresh process gets from an export, without this package, compared with Keras."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.errors import UserError
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf_export.signatures import IDS

RUNNERS: Final = Path(__file__).parent / "runners"
# The largest difference of a logit that a precision may bring, as a share of the largest logit's
# magnitude (of 1, where all are smaller). Measured: 1e-6, 3e-4 and 0.03 at base size with random
# weights; 2e-7, 2e-4 and 0.006 with trained ones at size "mini". A wrong export is off by about 1.
TOLERANCES: Final[Mapping[str, float]] = {"none": 1e-4, "float16": 0.01, "dynamic": 0.15}
TEXTS: Final = (
    "A quiet delight from start to finish.",
    "",
    "Crème brûlée costs 12 euros, and the café is NEVER closed on a Sunday!",
    "  spaces \t inside, and around  ",
    "Ταξίδι στην Αθήνα; 東京への旅 🦕 ﬁne",
    "In 1999, about 20,000 people came: [MASK] was not among them.",
    "A NUL inside\0 and at the end\0",
    "slow",
)


class ParityError(UserError):
    """An export that doesn't run, or answers otherwise than Keras."""


@dataclass(frozen=True)
class Report:
    """An export, and how far its logits are from those that Keras computes in float32.

    Attributes:
        path: where it is.
        size: bytes.
        differences: the largest absolute difference over the sample texts by signature; empty where
            nothing was compared.
        tolerance: the largest one that its precision may bring to these samples.
    """

    path: Path
    size: int
    differences: Mapping[str, float]
    tolerance: float

    def __str__(self) -> str:
        compared = [
            f"{name}: largest difference from Keras {found:.2g} (tolerance {self.tolerance:.2g})"
            for name, found in self.differences.items()
        ]
        return "\n".join([f"{self.path}: {self.size / 1e6:.1f} MB", *compared])


@dataclass(frozen=True)
class Samples:
    """Sample inputs and what Keras answers.

    Attributes:
        texts: `{"text": …}`, with "text_pair" for pairs.
        ids: the same as `{"input_ids": …, "token_type_ids": …}`, without padding.
        logits: float32 `[B, C]`.
    """

    texts: Sequence[Mapping[str, str]]
    ids: Sequence[Mapping[str, list[int]]]
    logits: np.ndarray

    def tolerance(self, precision: str) -> float:
        """The largest difference that a precision may bring to these logits."""
        return TOLERANCES[precision] * max(1.0, float(np.abs(self.logits).max()))


def sample(model: Any, tokenizer: AlbertTokenizer, max_length: int, pairs: bool) -> Samples:
    """Varied texts, one of them longer than `max_length`, through the Python tokenizer and Keras.

    Args:
        model: in float32.
    """
    first = [*TEXTS, "on and on " * max_length]
    second = [*first[1:], first[0]] if pairs else None
    encoded = tokenizer(
        first, second, truncation=True, max_length=max_length, split_special_tokens=True
    )
    names = ("input_ids", "token_type_ids")
    ids = [
        dict(zip(names, row, strict=True))
        for row in zip(*(encoded[name] for name in names), strict=True)
    ]
    texts = [{"text": text} for text in first]
    for row, text in zip(texts, second or [], strict=False):
        row["text_pair"] = text
    return Samples(texts, ids, np.concatenate([_logits(model, row) for row in ids]))


def _logits(model: Any, ids: Mapping[str, list[int]]) -> np.ndarray:
    """Of one row, so that no padding is needed."""
    features = {name: np.array([values], "int32") for name, values in ids.items()}
    return np.asarray(model(features, training=False)["logits"])


def check_saved_model(
    folder: Path, signatures: Sequence[str], samples: Samples
) -> dict[str, float]:
    """The largest difference by signature.

    Raises:
        ParityError: the SavedModel doesn't run, or a difference is beyond float32's tolerance.
    """
    runs = {
        name: Run([folder, "--signature", name], samples.ids if name == IDS else samples.texts)
        for name in signatures
    }
    return _within(_differences("saved_model.py", runs, samples), samples.tolerance("none"))


def check_tflite(
    file: Path,
    signatures: Sequence[str],
    samples: Samples,
    tokenizer: AlbertTokenizer,
    precision: str,
) -> dict[str, float]:
    """The largest difference by signature; ids are made by sentencepiece alone.

    Raises:
        ParityError: the file doesn't run, or a difference is beyond its precision's tolerance.
    """
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = Path(folder) / "spiece.model"
        vocabulary.write_bytes(tokenizer.model_bytes)
        options: dict[str, list[str | Path]] = {IDS: ["--vocabulary", vocabulary]}
        runs = {name: Run([file, *options.get(name, [])], samples.texts) for name in signatures}
        return _within(_differences("tflite.py", runs, samples), samples.tolerance(precision))


def _within(differences: dict[str, float], tolerance: float) -> dict[str, float]:
    for name, difference in differences.items():
        if not difference <= tolerance:  # NaN isn't.
            raise ParityError(
                f"The export's logits must be within {tolerance:.2g} of those of Keras. Received: "
                f"{difference:.2g} from its signature {name!r}. Choose a higher precision; "
                "check=False keeps the export all the same."
            )
    return differences


class Run(NamedTuple):
    """Arguments of a runner, and its inputs."""

    arguments: Sequence[str | Path]
    inputs: Sequence[Mapping[str, Any]]


def _differences(runner: str, runs: Mapping[str, Run], samples: Samples) -> dict[str, float]:
    """Runs side by side, each in a process of its own."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONIOENCODING": "utf-8"}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        processes = {}
        for name, run in runs.items():
            file = Path(folder) / name
            file.write_text("".join(json.dumps(row) + "\n" for row in run.inputs))
            process = subprocess.Popen(
                [sys.executable, RUNNERS / runner, *run.arguments, "--input", file],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                env=environment,
            )
            processes[name] = stack.enter_context(process)
            stack.callback(process.kill)  # Ctrl-C waits for nothing.
        return {name: _difference(process, samples) for name, process in processes.items()}


def _difference(process: subprocess.Popen[str], samples: Samples) -> float:
    output, errors = process.communicate()
    if process.returncode:
        reason = (errors.strip() or f"status {process.returncode}").splitlines()[-1]
        raise ParityError(f"The export must run without this package. Received: {reason}")
    answers = [json.loads(line)["logits"] for line in output.splitlines()]
    return float(np.abs(np.array(answers, "float32") - samples.logits).max())

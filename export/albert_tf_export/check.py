"""Checks an export: a fresh process without this package answers as Keras does.

The texts are made to find differences. A `Gate` also scores the export on labelled examples.
"""

import contextlib
import hashlib
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data.tasks.registry import task_of
from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError
from albert_tf.files import WILDCARDS, link_or_copy
from albert_tf.layers.heads import BEAM
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.models.base import PreTrainedModel
from albert_tf.text.added_tokens import SPACE
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.encoding import special_count
from albert_tf.text.model_file import ModelProto
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import ends_in_digit_comma
from albert_tf.training.evaluate import predictions
from albert_tf_export.early_exit import DEPTH, confidence
from albert_tf_export.options import Gate
from albert_tf_export.signatures import (
    CLASSIFY,
    IDS,
    MASKED,
    POSITIONS,
    REGRESS,
    TEXT,
    TEXT_PAIR,
    at_least,
    with_task_outputs,
)

PACKAGES: Final = ("keras", "tensorflow", "tensorflow-text", "ai-edge-litert")
RUNNERS: Final = Path(__file__).parent / "runners"
# The largest difference of an output for each precision, as a share of its largest magnitude (of 1,
# where all are smaller); `EXACT` in float32. Measured at base size with random weights: 2e-6,
# 1.4e-3, 0.015 and 0.03 over all tasks, the pooled output being the worst (a classifier's logits:
# 1e-6, 3e-4, 0.004 and 0.03); with a classifier's trained ones at size "mini": 2e-7 in float32,
# 2e-4 in float16 and 0.006 in 8 bits. A wrong export is off by about 1.
EXACT: Final = 1e-4
TOLERANCES: Final[Mapping[str, float]] = {"float16": 0.01, "bfloat16": 0.1, "dynamic": 0.15}
Outputs = Mapping[str, np.ndarray]
# The beam of question answering: log probabilities, and the positions that they belong to.
BEAMS: Final = {"start_top_log_probs": "start_top_index", "end_top_log_probs": "end_top_index"}
# Lower log probabilities mean that no answer may be there: -1e30, in float16 -65504.
POSSIBLE: Final = -1e4
BEST_CLASS: Final = ("label", "labels")
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
# Characters of one to four bytes of UTF-8, few of which any vocabulary has.
RARE: Final = "~^`|\x7f¤ÞßЖ܀日ᚠ‱ﷺ\ufffd🦕𝔞\U000e0041"
MOST_ROWS: Final = 4  # of texts that are made from the vocabulary
CLOSE: Final = 1e-3  # between sums of scores in float32, which are a tie then
NAMES: Final = ("input_ids", "token_type_ids")
Row = Mapping[str, Any]


class ParityError(UserError):
    """An export doesn't run, or its outputs differ from those of Keras."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Time and memory of an export, measured in a fresh process.

    Attributes:
        milliseconds: median time of a sample text or an example.
        processor_milliseconds: mean time of the processor for one, in all its threads. Early exit
            makes texts differ, and waiting for other programs doesn't count.
        megabytes: peak memory over an empty interpreter; Linux. Signatures of a SavedModel run in
            one process, and this peak includes those before it.
    """

    milliseconds: float = 0.0
    processor_milliseconds: float = 0.0
    megabytes: float = 0.0

    @property
    def cost(self) -> str:
        """The time and the memory in words."""
        return f"{self.milliseconds:.1f} ms, {self.megabytes:.0f} MB of memory"


@dataclass(frozen=True)
class Difference(Cost):
    """How far one output of a signature is from Keras' float32.

    Attributes:
        output: its name.
        value: the largest absolute difference over the sample texts.
        tolerance: the largest difference that is allowed at the export's precision.
    """

    output: str
    value: float
    tolerance: float

    @property
    def share(self) -> float:
        """The difference as a share of the tolerance; above 1 it is too large."""
        return math.inf if math.isnan(self.value) else self.value / self.tolerance

    def __str__(self) -> str:
        measured = (
            f"max abs difference from Keras {self.value:.2g} ({self.output}, tolerance "
            f"{self.tolerance:.2g})"
        )
        return f"{measured}; {self.cost}" if self.milliseconds else measured


@dataclass(frozen=True)
class Run(Cost):
    """The outputs of a signature for each example, without the batch's axis."""

    outputs: Sequence[Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Scores(Cost):
    """The scores of an export and of Keras on the same labelled examples.

    Attributes:
        metric: name of the task's first metric.
        keras, exported: its values.
        agreement: share of the examples that both predict alike.
        examples: their number.
        depth: mean number of layers that an export with early exit applies to them.
    """

    metric: str
    keras: float
    exported: float
    agreement: float
    examples: int
    depth: float | None = None

    def __str__(self) -> str:
        line = (
            f"{self.metric} {self.exported:.4f} of {self.examples} examples, Keras "
            f"{self.keras:.4f}; {self.agreement:.1%} predicted alike; {self.cost}"
        )
        if self.depth is None:
            return line
        mean = f"{self.depth:.2f} layers and {self.processor_milliseconds:.1f} ms of the processor"
        return f"{line}; on average {mean}"


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
        depth: number of layers of the default signatures, of an export with several depths.
        scores_by_depth: of these depths, on the same examples.
    """

    path: Path
    size: int
    sha256: str
    differences: Mapping[str, Difference]
    scores: Scores | None = None
    depth: int | None = None
    scores_by_depth: Mapping[int, Scores] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.size / 1e6:.1f} MB, SHA-256 {self.sha256[:12]}"]
        lines += [f"{name}: {difference}" for name, difference in self.differences.items()]
        lines += [f"depth {depth}: {scores}" for depth, scores in self.scores_by_depth.items()]
        if self.scores and self.scores not in self.scores_by_depth.values():
            lines.append(str(self.scores))
        if self.depth:
            lines.append(f"Default signatures: those of depth {self.depth}.")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as JSON has it."""
        return {
            "file": self.path.name,
            "size": self.size,
            "sha256": self.sha256,
            "signatures": {
                name: asdict(difference) for name, difference in self.differences.items()
            },
            "scores": asdict(self.scores) if self.scores else None,
            "depth": self.depth,
            "scores_by_depth": {
                str(depth): asdict(scores) for depth, scores in self.scores_by_depth.items()
            },
        }

    def write(self, path: Path, packages: Sequence[str] = PACKAGES) -> None:
        """Writes the report as JSON, with the export's later name and versions of packages."""
        versions = {}
        for name in packages:
            with contextlib.suppress(PackageNotFoundError):  # tensorflow-text on Windows
                versions[name] = version(name)
        content = {**self.to_dict(), "packages": versions}
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8", newline="\n")


def report(
    path: Path,
    written: Path,
    differences: Mapping[str, Difference],
    scores: Scores | None = None,
    depth: int | None = None,
    scores_by_depth: Mapping[int, Scores] = {},
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
    return Report(path, size, digest.hexdigest(), differences, scores, depth, scores_by_depth)


class Case(NamedTuple):
    """Sample inputs of one signature, and the expected outputs.

    Attributes:
        inputs: rows as the runners read them: `{"text": …}`, with "text_pair" for pairs, or
            `{"input_ids": …, "token_type_ids": …}` without padding; lists of C for multiple choice.
        expected: each row's outputs of Keras, computed in float32, without the batch's axis.
        pieces: each row's number of pieces.
        texts: the rows of texts that the inputs were made of.
        ties: outputs that may differ at reduced precision because of near ties.
        exits: what replaces `expected` where a row may be answered at several depths.
    """

    inputs: Sequence[Row]
    expected: Sequence[Mapping[str, np.ndarray]]
    pieces: Sequence[int]
    texts: Sequence[Row] = ()
    ties: Collection[str] = ()
    exits: "Exits | None" = None


class Exits(NamedTuple):
    """Expected outputs of a signature that answers a row at the first depth that is sure of it.

    Attributes:
        threshold: the confidence that it takes.
        expected: for each depth, in rising order, the outputs of each row.
        confidences: for each depth, Keras' confidence in each row.
    """

    threshold: float
    expected: Mapping[int, Sequence[Outputs]]
    confidences: Mapping[int, Sequence[float]]

    def at(self, row: int, actual: Outputs, pieces: int, tolerance: float) -> Outputs:
        """Returns a row's outputs at the depth that the export reports.

        Without a report at that of the depths where Keras may leave that comes nearest.

        Args:
            row: its number.
            actual: the outputs of the export.
            pieces: see `differences`.
            tolerance: how far the export's confidence may be from Keras'.
        Raises:
            ParityError: Keras is surer at a lower depth, or not sure at this one.
        """
        sure = {depth: rows[row] - self.threshold for depth, rows in self.confidences.items()}
        last = max(sure)
        allowed = [
            depth
            for depth, margin in sure.items()
            if (margin >= -tolerance or depth == last)
            and all(sure[other] < tolerance for other in sure if other < depth)
        ]
        rows = {depth: self.expected[depth][row] for depth in allowed}
        if DEPTH not in actual:
            return min(
                rows.values(),
                key=lambda expected: max(differences(actual, expected, pieces).values()),
            )
        depth = int(actual[DEPTH])
        if depth not in rows:
            raise ParityError(
                f"The export must leave row {row} after {' or '.join(map(str, rows))} layers, "
                f"where Keras' confidence reaches {self.threshold}. Received: {depth}."
            )
        return {**rows[depth], DEPTH: actual[DEPTH]}


def early_cases(
    cases: Mapping[int, Mapping[str, Case]],
    ids: str,
    model: PreTrainedModel,
    threshold: float,
) -> dict[str, Case]:
    """Returns the cases of signatures that leave early.

    Args:
        cases: for each depth, in rising order, the case of each signature by name.
        ids: the name of one that has all probabilities.
        model: see `confidence`.
        threshold: see `Exits`.
    """
    confidences = {
        depth: [
            float(confidence(model, row["probabilities"][None], np.ones((1, count)))[0])
            for row, count in zip(of_depth[ids].expected, of_depth[ids].pieces, strict=True)
        ]
        for depth, of_depth in cases.items()
    }
    return {
        name: case._replace(
            exits=Exits(
                threshold,
                {depth: of_depth[name].expected for depth, of_depth in cases.items()},
                confidences,
            )
        )
        for name, case in cases[max(cases)].items()
    }


# Imports packages and the script, and runs it for each line of arguments, up to an empty list.
_PROGRAM: Final = """
import importlib, json, os, queue, sys, threading

def read():
    for line in open(0, "rb", buffering=0):
        lines.put(json.loads(line))
    os._exit(1)  # The system closes the other end, even after `kill -9`.

lines = queue.SimpleQueue()
threading.Thread(target=read, daemon=True).start()
_, script, *packages = sys.argv
sys.path[0], file = os.path.split(script)
for package in packages:
    importlib.import_module(package)
runner = importlib.import_module(file.removesuffix(".py"))
while arguments := lines.get():
    sys.argv = [script, *arguments]
    runner.run(runner.main)
"""


class FreshProcess:
    """Runs a script of `runners/` in a new process, which ends with this one.

    It imports packages at once, which takes TensorFlow seconds, and then waits for `run`: what it
    will run can be written meanwhile.
    """

    def __init__(self, script: str, *packages: str):
        self.errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, RUNNERS / script, *packages],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
            encoding="utf-8",
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONIOENCODING": "utf-8"},
        )

    def __enter__(self) -> "FreshProcess":
        return self

    def __exit__(self, *_: object) -> None:
        with self.errors, contextlib.suppress(OSError), self.process:
            self.process.kill()  # Ctrl-C ends it at once.

    def run(self, arguments: Sequence[str | Path]) -> None:
        """Lets the process run the script once more, with these arguments."""
        self._send(list(map(str, arguments)))

    def wait(self) -> None:
        """Waits until everything has run.

        Raises:
            ParityError: the script failed.
        """
        self._send([])
        if status := self.process.wait():
            self.errors.seek(0)
            reason = (self.errors.read().strip() or f"status {status}").splitlines()[-1]
            raise ParityError(f"The export must run without this package. Received: {reason}")

    def _send(self, arguments: Sequence[str]) -> None:
        with contextlib.suppress(OSError):  # It has ended already: `wait` reports that.
            print(json.dumps(arguments), file=self.process.stdin, flush=True)


def compare(
    runner: str,
    path: Path,
    samples: Mapping[str, Case],
    precision: str,
    vocabulary: bytes | None = None,
    options: Sequence[str] = (),
    processes: Mapping[str, FreshProcess] = {},
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
        processes: processes of the script by the signatures that they run; each other signature
            has a process of its own. All run at once.
    Raises:
        ParityError: the export doesn't run, or a difference is beyond the tolerance.
    """
    runs = run(runner, path, samples, vocabulary, options, processes)
    differences = {
        name: replace(
            _difference(runs[name].outputs, case, precision),
            milliseconds=runs[name].milliseconds,
            processor_milliseconds=runs[name].processor_milliseconds,
            megabytes=runs[name].megabytes,
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
    processes: Mapping[str, FreshProcess] = {},
) -> dict[str, Run]:
    """Runs each signature on its samples in a fresh process; takes arguments as `compare` does."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        all_processes = {
            name: processes.get(name) or stack.enter_context(FreshProcess(runner))
            for name in samples
        }
        if WILDCARDS & set(path.resolve().as_posix()):
            link = folder / f"export{path.suffix}"
            link_or_copy(path.resolve(), link)
            path = link
        for name, case in samples.items():
            command: list[str | Path] = [path, "--signature", name, *options]
            inputs = case.inputs
            if case.texts and vocabulary is not None:
                (folder / "spiece.model").write_bytes(vocabulary)
                command += ["--vocabulary", folder / "spiece.model"]
                command += ["--max-length", str(max(case.pieces))]
                inputs = case.texts
            lines = "".join(json.dumps(row) + "\n" for row in inputs)
            (folder / name).write_text(lines, encoding="utf-8", newline="\n")
            command += ["--input", folder / name, "--save", folder / f"{name}.npz"]
            all_processes[name].run([*command, "--report", folder / f"{name}.json"])
        for process in dict.fromkeys(all_processes.values()):
            process.wait()
        runs = {}
        for name in samples:
            outputs: list[dict[str, np.ndarray]] = []
            with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
                for key in arrays.files:
                    index, _, output = key.partition("/")
                    outputs += [{} for _ in range(len(outputs), int(index) + 1)]
                    outputs[int(index)][output] = arrays[key]
            cost = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
            runs[name] = Run(
                outputs,
                milliseconds=cost["milliseconds"],
                processor_milliseconds=cost["processor_milliseconds"],
                megabytes=cost["peak_memory_mb"],
            )
        return runs


def _difference(outputs: Sequence[Any], case: Case, precision: str) -> Difference:
    """The difference of the output that comes closest to its tolerance."""
    share = TOLERANCES.get(precision, EXACT)
    if case.exits:
        rows_of = enumerate(zip(outputs, case.pieces, strict=True))
        expected = [case.exits.at(row, *actual, share) for row, actual in rows_of]
        case = case._replace(expected=expected)
    skipped = case.ties if share > EXACT else ()
    compared = (
        [{name: row[name] for name in row if name not in skipped} for row in rows]
        for rows in (outputs, case.expected)
    )
    rows = [differences(*row) for row in zip(*compared, case.pieces, strict=True)]
    results = [
        Difference(
            name,
            float(np.max([row[name] for row in rows])),  # NaN, if any is.
            share * max(1.0, magnitude(case.expected, name)),
        )
        for name in rows[0]
    ]
    return max(results, key=lambda difference: difference.share)


def differences(actual: Outputs, expected: Outputs, pieces: int) -> dict[str, float]:
    """Returns the largest absolute difference of each float output of one row.

    Integers and strings must be equal. In beams, each log probability is compared with the one of
    the same rank, and with the one of the same position: near ties may change their order.

    Args:
        actual, expected: outputs without the batch's axis.
        pieces: the row's number of pieces; outputs of padding after them are ignored.
    Raises:
        ParityError: names or shapes differ, or an integer or a string does.
    """
    if actual.keys() != expected.keys():
        raise ParityError(
            f"The export's outputs must be {', '.join(sorted(expected))}. "
            f"Received: {', '.join(sorted(actual)) or 'none'}."
        )
    actual = dict(actual)
    for name, value in actual.items():
        is_padded = value.ndim == expected[name].ndim > 0 and len(expected[name]) == pieces
        actual[name] = value = value[:pieces] if is_padded else value
        if value.shape != expected[name].shape:
            raise ParityError(
                f"The export's {name} must have the shape {expected[name].shape} for a row of "
                f"{pieces} pieces. Received: {value.shape}."
            )
    measured = {}
    if BEAMS.keys() <= expected.keys():
        measured = _of_beams(actual, expected)
    for name, value in expected.items():
        if value.dtype.kind == "f" and name not in BEAMS:
            measured[name] = float(np.abs(actual[name] - value).max(initial=0))
        elif value.dtype.kind != "f" and name not in BEAMS.values():
            if name in BEST_CLASS and "logits" in actual:
                # By the export's logits: a low precision may turn a near tie.
                value = actual["classes"][actual["logits"].argmax(axis=-1)]
            if not np.array_equal(actual[name], value):
                raise ParityError(
                    f"The export's {name} must be {value.tolist()}. "
                    f"Received: {actual[name].tolist()}."
                )
    return measured


def magnitude(rows: Sequence[Outputs], name: str) -> float:
    """Returns an output's largest magnitude in any row, without impossible positions."""
    values = np.concatenate([row[name].ravel() for row in rows])
    return float(np.abs(values[values > POSSIBLE]).max(initial=0))


def _of_beams(actual: Outputs, expected: Outputs) -> dict[str, float]:
    """Differences of the starts, and of the ends of those starts that both beams have."""
    (starts, start_positions), (ends, end_positions) = BEAMS.items()
    rank_of = {position: row for row, position in enumerate(actual[start_positions].tolist())}
    pairs = [
        (rank_of[position], row)
        for row, position in enumerate(expected[start_positions].tolist())
        if position in rank_of and expected[starts][row] > POSSIBLE
    ]
    of_ends = [0.0]
    for theirs, ours in pairs:
        rows = [
            (
                beam[ends].reshape(len(beam[starts]), -1)[row],
                beam[end_positions].reshape(len(beam[starts]), -1)[row],
            )
            for beam, row in ((actual, theirs), (expected, ours))
        ]
        of_ends.append(_ranked(*rows))
    of_starts = _ranked(
        (actual[starts], actual[start_positions]), (expected[starts], expected[start_positions])
    )
    return {starts: of_starts, ends: float(np.max(of_ends))}


def _ranked(
    actual: tuple[np.ndarray, np.ndarray], expected: tuple[np.ndarray, np.ndarray]
) -> float:
    """Difference of the best log probabilities, by rank and by position.

    A missing position counts as the lowest log probability of the beam, which it has at most.
    """
    (values, positions), (wanted, wanted_positions) = actual, expected
    score_of = dict(zip(positions.tolist(), values.tolist(), strict=True))
    by_position = np.array(
        [score_of.get(position, values.min()) for position in wanted_positions.tolist()]
    )
    possible = wanted > POSSIBLE
    either = possible | (values > POSSIBLE)
    by_rank = np.abs(values - wanted)[either].max(initial=0)
    return float(np.maximum(by_rank, np.abs(by_position - wanted)[possible].max(initial=0)))


def sample(
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    max_length: int,
    pairs: bool,
    choices: int = 3,
    predictions: int = 2,
    in_words: Callable[..., Mapping[str, tf.Tensor]] | None = None,
) -> dict[str, Case]:
    """Runs varied texts, one longer than `max_length`, through the Python tokenizer and Keras.

    Args:
        model: in float32.
        choices: C, for multiple choice.
        predictions: P, number of positions to score.
        in_words: answers strings, if the signature for text does so in words.
    Returns:
        A case for each signature that an export of the model may have.
    """
    texts = _texts(tokenizer, max_length, pairs, choices if model.task.has_choices else None)
    ids, pieces, with_ids, expected = [], [], [], []
    for row in texts:
        encoded = tokenizer(
            row[TEXT],
            row.get(TEXT_PAIR),
            truncation=True,
            max_length=max_length,
            split_special_tokens=True,
        )
        ids.append({name: encoded[name] for name in NAMES})
        features = tokenizer.pad(ids[-1], padding_side="right", return_tensors="np")
        pieces.append(features["input_ids"].shape[-1])
        batch = {
            name: value[None] if model.task.has_choices else value
            for name, value in features.items()
        }
        inputs = batch
        if model.config.answerability:  # A beam needs as many positions as it is wide.
            inputs = {name: at_least(BEAM, value) for name, value in batch.items()}
        outputs = with_task_outputs(model, model(dict(inputs), training=False))
        expected.append({name: np.asarray(np.asarray(value)[0]) for name, value in outputs.items()})
        with_ids.append({**expected[-1], **{name: value[0] for name, value in batch.items()}})
    cases = {
        IDS: Case(ids, expected, pieces, texts),
        TEXT: Case(texts, with_ids if model.task.outputs_by_token else expected, pieces),
    }
    if in_words is not None:
        cases[TEXT] = _in_words(texts, in_words)
    if isinstance(model, AlbertForSequenceClassification):  # TensorFlow Serving's calls
        answers = cases[TEXT].expected
        if "value" in answers[0]:
            values = [{"outputs": row["value"][0]} for row in answers]
            cases[REGRESS] = cases[TEXT]._replace(expected=values)
        else:
            names = {"classes": "classes", "scores": "probabilities"}
            values = [{call: row[name] for call, name in names.items()} for row in answers]
            cases[CLASSIFY] = cases[TEXT]._replace(expected=values)
    if model.task.takes_positions:  # the same rows, of which only some positions are scored
        positions = [[7 * number % count for number in range(predictions)] for count in pieces]
        cases[MASKED] = Case(
            [{**row, POSITIONS: chosen} for row, chosen in zip(ids, positions, strict=True)],
            [
                {name: value[chosen] if value.ndim == 2 else value for name, value in row.items()}
                for row, chosen in zip(expected, positions, strict=True)
            ],
            [-1] * len(ids),
        )
    return cases


def _in_words(texts: Sequence[Row], answer: Callable[..., Mapping[str, tf.Tensor]]) -> Case:
    """Answers each text with Keras; what counts as its pieces are its words or masks."""
    rows = []
    for row in texts:
        answers = answer(*(tf.constant([row[name]]) for name in (TEXT, TEXT_PAIR) if name in row))
        values = {name: np.asarray(np.asarray(value)[0]) for name, value in answers.items()}
        rows.append(
            {  # NumPy saves strings without NULs at their ends.
                name: np.array(value.tolist(), "S").reshape(value.shape)
                if value.dtype == object
                else value
                for name, value in values.items()
            }
        )
    ties = [name for name, value in rows[0].items() if value.dtype.kind != "f"]
    lengths = {
        name: [len(row[name]) for row in rows] for name, value in rows[0].items() if value.ndim
    }
    # Without an output whose length varies there is no padding.
    counts = next((counts for counts in lengths.values() if len(set(counts)) > 1), [-1] * len(rows))
    return Case(texts, rows, counts, ties=ties)


def numeric(case: Case, names: Sequence[str] = ()) -> Case:
    """Returns the case of a signature with these outputs; without names, with all numbers."""

    def chosen(rows: Sequence[Outputs]) -> list[Outputs]:
        return [
            {
                name: value
                for name, value in outputs.items()
                if (name in names if names else value.dtype.kind in "if")
            }
            for outputs in rows
        ]

    exits = case.exits
    if exits:
        by_depth = {depth: chosen(rows) for depth, rows in exits.expected.items()}
        exits = exits._replace(expected=by_depth)
    return case._replace(expected=chosen(case.expected), exits=exits)


def check_tokens(tokenizer: BaseTokenizer) -> None:
    """Compares the ids of Python with those of the graph's operator.

    The texts are every token of the vocabulary, alone, in capitals, with decomposed accents and
    beside the next one; what `vocabulary_texts` has; and `RARE` characters. Two segmentations of
    the same score count as equal: the order of a float32 sum decides between them.

    Raises:
        ParityError: a text has other ids in the graph.
    """
    if not isinstance(tokenizer, AlbertTokenizer):  # Python calls the graph's operators.
        return
    tokens = [token.replace(SPACE, " ") for token in tokenizer.get_vocab()]
    texts = [
        *tokens,
        *map(str.upper, tokens),
        *(unicodedata.normalize("NFD", token).title() for token in tokens),
        *(first + second for first, second in itertools.pairwise(tokens)),
        *(f"a{character}b {character}" for character in RARE),
        *_probes(tokenizer),
        *TEXTS,
    ]
    ours = tokenizer.encode_plain(texts)
    theirs = tokenizer.in_graph().tokenize(tf.constant([text.encode() for text in texts]))
    pieces = ModelProto.FromString(tokenizer.model_bytes).pieces
    scores = np.array([piece.score for piece in pieces])
    for text, wanted, actual in zip(texts, ours, theirs.numpy().tolist(), strict=True):
        if wanted.tolist() == list(actual):
            continue
        python, graph = map(tokenizer.convert_ids_to_tokens, (wanted.tolist(), list(actual)))
        is_tie = abs(scores[wanted].sum() - scores[actual].sum()) < CLOSE
        if is_tie and "".join(python) == "".join(graph) and tokenizer.unk_token not in python:
            continue
        raise ParityError(
            "The graph must read texts as Python does. Received: "
            f"{text!r}, in Python {' '.join(python)!r}, in the graph {' '.join(graph)!r}. Report "
            "the vocabulary as a bug; with ids_only=True the export takes ids alone."
        )


def vocabulary_texts(tokenizer: BaseTokenizer, room: int) -> list[str]:
    """Returns texts of at most `room` tokens, made from the kinds of tokens of a vocabulary."""
    rows, left = [""], room
    for probe in _probes(tokenizer):
        size = len(tokenizer(probe, add_special_tokens=False, split_special_tokens=True).input_ids)
        if size > left:
            rows, left = [*rows, ""], room
        if size <= left:
            rows[-1] += f" {probe}"
            left -= size
    return [row for row in rows if row][:MOST_ROWS]


def _probes(tokenizer: BaseTokenizer) -> list[str]:
    """Returns a text for each kind of token, of character and of script in a vocabulary."""
    tokens = [token for token in tokenizer.get_vocab() if token not in tokenizer.all_special_tokens]
    kinds = dict(zip(map(_kind, reversed(tokens)), reversed(tokens), strict=True))
    plain = [token.replace(SPACE, " ").strip() for token in kinds.values()]
    unknown: dict[int, str] = {}
    for character in RARE:
        ids = tokenizer(character, add_special_tokens=False).input_ids
        if tokenizer.unk_token_id in ids:
            unknown.setdefault(len(character.encode()), character)
    return [
        *unknown.values(),
        " ".join(tokenizer.all_special_tokens),
        *filter(None, plain),
        *(token.upper() for token in plain if token.upper() != token),
        *(unicodedata.normalize("NFD", token) for token in plain if not token.isascii()),
    ]


def _kind(token: str) -> tuple[object, ...]:
    """Returns what makes tokens differ to a runtime: the place in a word, and the characters."""
    text = token.lstrip(SPACE)
    first = text[:1] or SPACE
    script = unicodedata.name(first, "").split(" ")[0] if first.isalpha() else ""
    category = unicodedata.category(first)
    return token.startswith(SPACE), len(text) > 1, script, category, ends_in_digit_comma(token)


def _texts(
    tokenizer: BaseTokenizer, max_length: int, pairs: bool, choices: int | None
) -> list[Row]:
    is_pair = pairs or choices is not None
    room = (max_length - special_count(is_pair)) // (1 + is_pair)
    first = [*TEXTS, *vocabulary_texts(tokenizer, room), "on and on " * max_length]
    second = [*first[1:], first[0]]
    if choices is not None:
        turned = [[*second[at:], *second[:at]] for at in range(choices)]
        return [
            {TEXT: [text] * choices, TEXT_PAIR: list(others)}
            for text, *others in zip(first, *turned, strict=True)
        ]
    if pairs:
        return [{TEXT: text, TEXT_PAIR: pair} for text, pair in zip(first, second, strict=True)]
    return [{TEXT: text} for text in first]


def scored(
    gate: Gate,
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    runner: str,
    path: Path,
    max_length: int,
    names: Iterable[str] = (IDS,),
) -> dict[str, Scores]:
    """Scores signatures of an export, in fresh processes, and Keras here, on the same rows.

    Args:
        model: at its full depth, whatever that of a signature is.
        runner: file name of the script that runs the export.
        path: the export.
        max_length: the most pieces that its signatures take.
        names: signatures of ids.
    Raises:
        UserError: the data can't be read, or is another task's.
    """
    task = task_of(gate.data, model.config)
    if task.model != type(model).__name__:
        raise UserError(
            f"eval_data must be of a task that {type(model).__name__} learns. Received: "
            f"{gate.data.task}, which an {task.model} learns."
        )
    examples, config = task.examples("dev"), model.config
    task.check(examples, config)
    rows = task.encode(examples, tokenizer, config, max_length)
    case = Case(_inputs(rows), [], [])
    # One after the other: times are compared.
    runs = {name: run(runner, path, {name: case})[name] for name in names}

    def graded(predicted: Any) -> tuple[dict[str, float], list[Any]]:
        """Returns the scores of predictions, and the prediction for each example."""
        grades = task.grade(examples, predicted, config)
        return task.scores(examples, predicted, config), [grade.predicted for grade in grades]

    keras, ours = graded(predictions(task, examples, rows, model))
    metric, scores = next(iter(keras)), {}
    for name, made in runs.items():
        exported, theirs = graded(task.predictions(examples, rows, made.outputs, config))
        scores[name] = Scores(
            metric,
            keras[metric],
            exported[metric],
            float(np.mean([one == other for one, other in zip(ours, theirs, strict=True)])),
            len(examples),
            float(np.mean([row[DEPTH] for row in made.outputs]))
            if DEPTH in made.outputs[0]
            else None,
            milliseconds=made.milliseconds,
            processor_milliseconds=made.processor_milliseconds,
            megabytes=made.megabytes,
        )
    return scores


def first_kept(gate: Gate, scores: Mapping[str, Scores]) -> str:
    """Returns the name of the first scores that the gate allows.

    Raises:
        ParityError: all are more than `gate.max_drop` below Keras'.
    """
    for name, each in scores.items():
        if each.keras - each.exported <= gate.max_drop:  # False for NaN
            return name
    raise ParityError(
        f"The export may lose {gate.max_drop:g} of Keras' {each.metric}. Received: {each}. Choose "
        "a higher precision, or allow more with max_drop."
    )


def _inputs(rows: Rows) -> Sequence[dict[str, Any]]:
    """Returns rows as the runners read them, without padding."""
    masks = rows.arrays.get("attention_mask")
    if masks is None:
        return [
            {name: rows.arrays[name][row].tolist() for name in NAMES} for row in range(len(rows))
        ]
    return [
        {
            name: [
                values[mask == 1].tolist()
                for values, mask in zip(rows.arrays[name][row], masks[row], strict=True)
            ]
            for name in NAMES
        }
        for row in range(len(rows))
    ]

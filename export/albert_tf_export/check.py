"""Checks an export: runs samples in a fresh process and compares the outputs with Keras's."""

import contextlib
import json
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.runtimes import run as runtimes
from albert_tf_export.fresh import FreshProcess
from albert_tf_export.report import Difference, ParityError

Row = Mapping[str, Any]
Outputs = Mapping[str, np.ndarray]

# The tolerance for an output at each precision (`EXACT` for float32), relative to the output's
# largest magnitude, or to 1 if that is larger. Differences measured in float32, float16, bfloat16,
# and 8 bits:
# - base size, random weights: 2e-6, 1.4e-3, 0.015, and 0.03 over the outputs of all tasks, of which
#   the pooled output is the worst. The logits of a classifier: 1e-6, 3e-4, 0.004, and 0.03.
# - size "mini", a trained classifier: 2e-7 in float32, 2e-4 in float16, and 0.006 in 8 bits.
# - a fine-tuned `small`, which separates classes so sharply that outputs for borderline texts
#   change a lot. Over 15 seeds of the README's example, with 5 epochs instead of 3, 8-bit exports
#   reach 0.15 with LiteRT and 0.12 with ONNX; the median is 0.04 in both.
# The outputs of a wrong export are off by about 1.
EXACT: Final = 1e-4
TOLERANCES: Final[Mapping[str, float]] = {
    "float16": 0.01,
    "bfloat16": 0.1,
    "dynamic": 0.3,
}
# Outputs of the question-answering beam: log probabilities and their positions.
BEAMS: Final = {"start_top_log_probs": "start_top_index", "end_top_log_probs": "end_top_index"}
# Lower log probabilities (-1e30, or -65504 in float16) mark positions where no answer is allowed.
POSSIBLE: Final = -1e4
BEST_CLASS: Final = ("label", "labels")


class Case(NamedTuple):
    """Sample inputs for one signature, and the expected outputs.

    Attributes:
        inputs: rows in the format of `runtimes.main`, without padding.
        expected: Keras's float32 outputs for each row, without the batch axis.
        pieces: number of tokens in each row (or of words, if a tagger returns words); -1 if the
            outputs aren't padded.
        ties: names of the outputs that may differ at reduced precision because of near ties.
    """

    inputs: Sequence[Row]
    expected: Sequence[Outputs]
    pieces: Sequence[int]
    ties: Collection[str] = ()


class Run(NamedTuple):
    """A signature's outputs per example, without the batch axis, and its time and memory."""

    outputs: Sequence[Outputs]
    milliseconds: float = 0.0
    megabytes: float = 0.0


def compare(
    form: str,
    path: Path,
    samples: Mapping[str, Case],
    precision: str,
    batch: int = runtimes.BATCH,
    processes: Mapping[str, FreshProcess] = {},
) -> dict[str, Difference]:
    """Returns, for each signature, the difference that is largest relative to its tolerance.

    Args:
        form: format of the export, a key of `runtimes.OPENERS`.
        path: path of the export.
        samples: inputs and expected outputs of each signature.
        precision: a key of `TOLERANCES`; any other value means float32.
        batch: number of rows per batch, for signatures that accept any batch size.
        processes: processes that were started before, keyed by the name of the signature to run.
            Every other signature gets a new process. All processes run at the same time.
    Raises:
        ParityError: if the export doesn't run, or a difference exceeds the tolerance.
    """
    runs = run(form, path, samples, batch, processes)
    differences = {name: _difference(runs[name], case, precision) for name, case in samples.items()}
    for name, difference in differences.items():
        if difference.share > 1:
            raise ParityError(
                f"{difference.output} from the signature {name!r} differs from Keras by "
                f"{difference.value:.2g}, but the tolerance is {difference.tolerance:.2g}. "
                "Choose a higher precision, or skip the check with check=False."
            )
    return differences


def run(
    form: str,
    path: Path,
    samples: Mapping[str, Case],
    batch: int = runtimes.BATCH,
    processes: Mapping[str, FreshProcess] = {},
) -> dict[str, Run]:
    """Runs each signature on its samples in a fresh process; see `compare` for the arguments."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        all_processes = {
            name: processes.get(name) or stack.enter_context(FreshProcess()) for name in samples
        }
        for name, case in samples.items():
            lines = "".join(json.dumps(row) + "\n" for row in case.inputs)
            (folder / name).write_text(lines, encoding="utf-8", newline="\n")
            all_processes[name].run(form, path, name, folder / name, folder / name, batch)
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
            runs[name] = Run(outputs, **cost)
        return runs


def _difference(made: Run, case: Case, precision: str) -> Difference:
    """Returns the output difference that is largest relative to its tolerance."""
    share = TOLERANCES.get(precision, EXACT)
    skipped = case.ties if share > EXACT else ()
    compared = (
        [{name: row[name] for name in row if name not in skipped} for row in rows]
        for rows in (made.outputs, case.expected)
    )
    rows = [differences(*row) for row in zip(*compared, case.pieces, strict=True)]
    results = [
        Difference(
            name,
            float(np.max([row[name] for row in rows])),  # NaN if any difference is NaN.
            share * max(1.0, magnitude(case.expected, name)),
            made.milliseconds,
            made.megabytes,
        )
        for name in rows[0]
    ]
    return max(results, key=lambda difference: difference.share)


def differences(actual: Outputs, expected: Outputs, pieces: int) -> dict[str, float]:
    """Returns the largest absolute difference from `expected` for each float output.

    Integers and strings must be equal, except for beam positions. Near ties can change the order of
    positions, so log probabilities are compared by rank and by position.

    Args:
        actual, expected: outputs without the batch axis.
        pieces: number of tokens in the row; outputs for padding are ignored.
    Raises:
        ParityError: if names, shapes, integers, or strings differ.
    """
    if actual.keys() != expected.keys():
        raise ParityError(
            f"The export must return {', '.join(sorted(expected))}. "
            f"Received: {', '.join(sorted(actual)) or 'none'}."
        )
    actual = dict(actual)
    for name, value in actual.items():
        is_padded = value.ndim == expected[name].ndim > 0 and len(expected[name]) == pieces
        actual[name] = value = value[:pieces] if is_padded else value
        if value.shape != expected[name].shape:
            raise ParityError(
                f"The export must return {name} with the shape {expected[name].shape} for a row of "
                f"{pieces} tokens. Received: {value.shape}."
            )
    measured = {}
    if BEAMS.keys() <= expected.keys():
        measured = _beam_differences(actual, expected)
    for name, value in expected.items():
        if value.dtype.kind == "f" and name not in BEAMS:
            measured[name] = float(np.abs(actual[name] - value).max(initial=0))
        elif value.dtype.kind != "f" and name not in BEAMS.values():
            if name in BEST_CLASS and "logits" in actual:
                # Near ties can change the class, so expect the class of the export's logits.
                value = actual["classes"][actual["logits"].argmax(axis=-1)]
            if not np.array_equal(actual[name], value):
                raise ParityError(
                    f"The export must return {value.tolist()} as {name}. "
                    f"Received: {actual[name].tolist()}."
                )
    return measured


def magnitude(rows: Sequence[Outputs], name: str) -> float:
    """Returns the largest magnitude of an output over all rows, except at impossible positions."""
    values = np.concatenate([row[name].ravel() for row in rows])
    return float(np.abs(values[values > POSSIBLE]).max(initial=0))


def _beam_differences(actual: Outputs, expected: Outputs) -> dict[str, float]:
    """Compares the start positions of two beams, and the end positions for their common starts."""
    (starts, start_positions), (ends, end_positions) = BEAMS.items()

    def ends_of(beam: Outputs) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Returns log probabilities and end positions, keyed by start position."""
        rows = (beam[name].reshape(len(beam[starts]), -1) for name in (ends, end_positions))
        return dict(zip(beam[start_positions].tolist(), zip(*rows, strict=True), strict=True))

    ours, theirs = ends_of(actual), ends_of(expected)
    possible = expected[start_positions][expected[starts] > POSSIBLE].tolist()
    of_ends = [_rank_difference(ours[start], theirs[start]) for start in possible if start in ours]
    of_starts = _rank_difference(
        *((beam[starts], beam[start_positions]) for beam in (actual, expected))
    )
    return {starts: of_starts, ends: float(np.max(of_ends, initial=0.0))}


def _rank_difference(
    actual: tuple[np.ndarray, np.ndarray], expected: tuple[np.ndarray, np.ndarray]
) -> float:
    """Returns the largest difference between log probabilities, by rank and by position.

    For a position outside the beam, the beam's lowest log probability is used as an upper bound.
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

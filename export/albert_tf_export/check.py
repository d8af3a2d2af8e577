"""Checks an export: in a fresh process, it answers samples as Keras does."""

import contextlib
import json
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf import runtimes
from albert_tf_export.fresh import FreshProcess
from albert_tf_export.report import Difference, ParityError

Row = Mapping[str, Any]
Outputs = Mapping[str, np.ndarray]

# The largest difference of an output for each precision, as a share of its largest magnitude (of 1,
# where all are smaller); `EXACT` in float32. Measured at base size with random weights: 2e-6,
# 1.4e-3, 0.015 and 0.03 over all tasks, the pooled output being the worst (a classifier's logits:
# 1e-6, 3e-4, 0.004 and 0.03); with a classifier's trained ones at size "mini": 2e-7 in float32,
# 2e-4 in float16 and 0.006 in 8 bits. A fine-tuned `small` tells classes apart so sharply that
# texts between them move far: over 15 seeds of the README's example, with 5 epochs in place of 3,
# it comes to 0.15 in 8 bits of LiteRT and 0.12 of ONNX; the median is 0.04 in both. A wrong export
# is off by about 1.
EXACT: Final = 1e-4
TOLERANCES: Final[Mapping[str, float]] = {
    "float16": 0.01,
    "bfloat16": 0.1,
    "dynamic": 0.3,
}
# The beam of question answering: log probabilities, and the positions that they belong to.
BEAMS: Final = {"start_top_log_probs": "start_top_index", "end_top_log_probs": "end_top_index"}
# Lower log probabilities mean that no answer may be there: -1e30, in float16 -65504.
POSSIBLE: Final = -1e4
BEST_CLASS: Final = ("label", "labels")


class Case(NamedTuple):
    """Sample inputs of one signature, and the expected outputs.

    Attributes:
        inputs: rows as `runtimes.main` reads them, without padding.
        expected: each row's outputs of Keras, computed in float32, without the batch's axis.
        pieces: each row's number of pieces.
        ties: outputs that may differ at reduced precision because of near ties.
    """

    inputs: Sequence[Row]
    expected: Sequence[Outputs]
    pieces: Sequence[int]
    ties: Collection[str] = ()


class Run(NamedTuple):
    """The outputs of a signature for each example, without the batch's axis, and what they cost."""

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
    """Returns the largest difference for each signature.

    Args:
        form: of the export, a key of `runtimes.OPENED`.
        path: the export.
        samples: for each of its signatures, its inputs and expected outputs.
        precision: a key of `TOLERANCES`, or any other name of float32.
        batch: rows in a batch, where a signature takes any number.
        processes: processes by the signatures that they run; each other signature has a process
            of its own. All run at once.
    Raises:
        ParityError: the export doesn't run, or a difference is beyond the tolerance.
    """
    runs = run(form, path, samples, batch, processes)
    differences = {name: _difference(runs[name], case, precision) for name, case in samples.items()}
    for name, difference in differences.items():
        if difference.share > 1:
            raise ParityError(
                f"The export's {difference.output} must be within {difference.tolerance:.2g} of "
                f"Keras'. Received: a difference of {difference.value:.2g} from its signature "
                f"{name!r}. Choose a higher precision, or skip the check with check=False."
            )
    return differences


def run(
    form: str,
    path: Path,
    samples: Mapping[str, Case],
    batch: int = runtimes.BATCH,
    processes: Mapping[str, FreshProcess] = {},
) -> dict[str, Run]:
    """Runs each signature on its samples in a fresh process; takes arguments as `compare` does."""
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
    """The difference of the output that comes closest to its tolerance."""
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
            float(np.max([row[name] for row in rows])),  # NaN, if any is.
            share * max(1.0, magnitude(case.expected, name)),
            made.milliseconds,
            made.megabytes,
        )
        for name in rows[0]
    ]
    return max(results, key=lambda difference: difference.share)


def differences(actual: Outputs, expected: Outputs, pieces: int) -> dict[str, float]:
    """Returns the largest absolute difference of each float output of one row.

    Integers and strings must be equal, but for the positions of beams: near ties may change their
    order, so that each log probability is compared by its rank and by its position.

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

    def ends_of(beam: Outputs) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Returns the log probabilities and the positions of ends, by the start's position."""
        rows = (beam[name].reshape(len(beam[starts]), -1) for name in (ends, end_positions))
        return dict(zip(beam[start_positions].tolist(), zip(*rows, strict=True), strict=True))

    ours, theirs = ends_of(actual), ends_of(expected)
    possible = expected[start_positions][expected[starts] > POSSIBLE].tolist()
    of_ends = [_ranked(ours[start], theirs[start]) for start in possible if start in ours]
    of_starts = _ranked(*((beam[starts], beam[start_positions]) for beam in (actual, expected)))
    return {starts: of_starts, ends: float(np.max(of_ends, initial=0.0))}


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

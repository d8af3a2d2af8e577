"""Compares the outputs of an export with those of Keras, row by row and output by output."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from albert_tf.errors import UserError

Outputs = Mapping[str, np.ndarray]
# The beam of question answering: log probabilities, and the positions that they belong to.
BEAMS: Final = {"start_top_log_probs": "start_top_index", "end_top_log_probs": "end_top_index"}
# Lower log probabilities mean that no answer may be there: -1e30, in float16 -65504.
POSSIBLE: Final = -1e4
BEST_CLASS: Final = ("label", "labels")


class ParityError(UserError):
    """An export doesn't run, or its outputs differ from those of Keras."""


def differences(found: Outputs, expected: Outputs, pieces: int) -> dict[str, float]:
    """Returns the largest absolute difference of each float output of one row.

    Integers and strings must be equal. In beams, each log probability is compared with the one of
    the same rank, and with the one of the same position: near ties may change their order.

    Args:
        found, expected: outputs without the batch's axis.
        pieces: the row's number of pieces; outputs of padding after them are ignored.
    Raises:
        ParityError: names or shapes differ, or an integer or a string does.
    """
    if found.keys() != expected.keys():
        raise ParityError(
            f"The export's outputs must be {', '.join(sorted(expected))}. "
            f"Received: {', '.join(sorted(found)) or 'none'}."
        )
    found = {name: _of_pieces(value, expected[name], pieces) for name, value in found.items()}
    for name, value in found.items():
        if value.shape != expected[name].shape:
            raise ParityError(
                f"The export's {name} must have the shape {expected[name].shape} for a row of "
                f"{pieces} pieces. Received: {value.shape}."
            )
    measured = {}
    if BEAMS.keys() <= expected.keys():
        measured = _of_beams(found, expected)
    for name, value in expected.items():
        if value.dtype.kind == "f" and name not in BEAMS:
            measured[name] = float(np.abs(found[name] - value).max(initial=0))
        elif value.dtype.kind != "f" and name not in BEAMS.values():
            _check_equal(name, found, value)
    return measured


def magnitude(rows: Sequence[Outputs], name: str) -> float:
    """Returns an output's largest magnitude in any row, without impossible positions."""
    values = np.concatenate([row[name].ravel() for row in rows])
    return float(np.abs(values[values > POSSIBLE]).max(initial=0))


def _of_pieces(found: np.ndarray, expected: np.ndarray, pieces: int) -> np.ndarray:
    """Drops padding, where the first axis counts pieces."""
    if expected.ndim and found.ndim == expected.ndim and len(expected) == pieces:
        return found[:pieces]
    return found


def _check_equal(name: str, found: Outputs, expected: np.ndarray) -> None:
    if (
        name in BEST_CLASS and "logits" in found
    ):  # By the export's logits: a low precision may turn a near tie.
        expected = found["classes"][found["logits"].argmax(axis=-1)]
    if not np.array_equal(found[name], expected):
        raise ParityError(
            f"The export's {name} must be {expected.tolist()}. Received: {found[name].tolist()}."
        )


def _of_beams(found: Outputs, expected: Outputs) -> dict[str, float]:
    """Differences of the starts, and of the ends of those starts that both beams have."""
    (starts, start_places), (ends, end_places) = BEAMS.items()
    at = {place: row for row, place in enumerate(found[start_places].tolist())}
    pairs = [
        (at[place], row)
        for row, place in enumerate(expected[start_places].tolist())
        if place in at and expected[starts][row] > POSSIBLE
    ]
    of_ends = [0.0]
    for theirs, ours in pairs:
        rows = [
            (
                each[ends].reshape(len(each[starts]), -1)[row],
                each[end_places].reshape(len(each[starts]), -1)[row],
            )
            for each, row in ((found, theirs), (expected, ours))
        ]
        of_ends.append(_ranked(*rows))
    of_starts = _ranked(
        (found[starts], found[start_places]), (expected[starts], expected[start_places])
    )
    return {starts: of_starts, ends: float(np.max(of_ends))}


def _ranked(found: tuple[np.ndarray, np.ndarray], expected: tuple[np.ndarray, np.ndarray]) -> float:
    """Difference of the best log probabilities, by rank and by position.

    A missing position counts as the lowest log probability found: it has that at most.
    """
    (values, places), (wanted, wanted_places) = found, expected
    at = dict(zip(places.tolist(), values.tolist(), strict=True))
    by_place = np.array([at.get(place, values.min()) for place in wanted_places.tolist()])
    possible = wanted > POSSIBLE
    either = possible | (values > POSSIBLE)
    by_rank = np.abs(values - wanted)[either].max(initial=0)
    return float(np.maximum(by_rank, np.abs(by_place - wanted)[possible].max(initial=0)))

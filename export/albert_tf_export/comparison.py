"""How far the outputs of an export are from those of Keras, row by row and output by output."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from albert_tf.errors import UserError

Outputs = Mapping[str, np.ndarray]
# What the beam of question answering is made of: log probabilities, and the places they belong to.
BEAMS: Final = {"start_top_log_probs": "start_top_index", "end_top_log_probs": "end_top_index"}
# Log probabilities below are of places that can't be an answer's: -1e30, in float16 -65504.
POSSIBLE: Final = -1e4
LIKELIEST: Final = ("label", "labels")


class ParityError(UserError):
    """An export that doesn't run, or answers otherwise than Keras."""


def differences(found: Outputs, expected: Outputs, pieces: int) -> dict[str, float]:
    """The largest absolute difference of each float output of one row.

    Integers and strings must be equal. Of beams, each log probability is compared with the one of
    the same rank, and with the one of the same place: near ties may change their order.

    Args:
        found, expected: outputs without the batch's axis.
        pieces: of the row; what an export says of padding, after them, isn't looked at.
    Raises:
        ParityError: other names or shapes, or an integer or a string that differs.
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
    """The largest magnitude of an output in any row; that of impossible places doesn't count."""
    values = np.concatenate([row[name].ravel() for row in rows])
    return float(np.abs(values[values > POSSIBLE]).max(initial=0))


def _of_pieces(found: np.ndarray, expected: np.ndarray, pieces: int) -> np.ndarray:
    """Without padding, where the first axis is that of pieces."""
    if expected.ndim and found.ndim == expected.ndim and len(expected) == pieces:
        return found[:pieces]
    return found


def _check_equal(name: str, found: Outputs, expected: np.ndarray) -> None:
    if name in LIKELIEST:  # By the export's own logits: a precision may turn a near tie.
        expected = found["classes"][found["logits"].argmax(axis=-1)]
    if not np.array_equal(found[name], expected):
        raise ParityError(
            f"The export's {name} must be {expected.tolist()}. Received: {found[name].tolist()}."
        )


def _of_beams(found: Outputs, expected: Outputs) -> dict[str, float]:
    """Differences of the starts, and of the ends of those starts that both follow up."""
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
    """Difference of the best log probabilities, by rank and by place.

    A place that is missing has at most the least of those that were found.
    """
    (values, places), (wanted, wanted_places) = found, expected
    at = dict(zip(places.tolist(), values.tolist(), strict=True))
    by_place = np.array([at.get(place, values.min()) for place in wanted_places.tolist()])
    possible = wanted > POSSIBLE
    either = possible | (values > POSSIBLE)
    by_rank = np.abs(values - wanted)[either].max(initial=0)
    return float(np.maximum(by_rank, np.abs(by_place - wanted)[possible].max(initial=0)))

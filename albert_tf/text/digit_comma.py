"""The original's rule for pieces that end in a digit and a comma, as scores in the model.

google-research/albert encodes such a piece again without its comma. Here the piece scores a little
less than the best way to write it with other pieces, so the search never chooses it. No score is
lower than it must be: the penalty for unknown characters hangs on the lowest score in the model,
and a large one costs float32 sums of a long text their precision.
"""

from collections.abc import Iterable, Mapping

from albert_tf.text.sentencepiece_messages import ModelProto

MARGIN = 1.0  # Natural-log units; rounding in a sum of scores is below 0.01.


def ends_in_digit_comma(piece: str) -> bool:
    """Whether the original would encode the piece again."""
    return piece[-1:] == "," and piece[-2:-1].isdigit()


def demote(model: ModelProto) -> None:
    """Lowers the scores of the pieces that end in a digit and a comma, in place."""
    normal = [piece for piece in model.pieces if piece.type == piece.NORMAL]
    scores = {each.piece: each.score for each in normal if not ends_in_digit_comma(each.piece)}
    floor = min(scores.values(), default=0.0)
    for each in normal:
        if ends_in_digit_comma(each.piece):
            each.score = best_score(each.piece, scores, floor) - MARGIN


def best_score(text: str, scores: Mapping[str, float], floor: float) -> float:
    """The highest sum of scores over the ways to write `text` with these pieces.

    Args:
        floor: score of a character that is no piece.
    """
    best = [0.0]
    for end in range(1, len(text) + 1):
        best.append(max(_endings(text, end, best, scores, floor)))
    return best[-1]


def _endings(
    text: str, end: int, best: list[float], scores: Mapping[str, float], floor: float
) -> Iterable[float]:
    yield best[end - 1] + scores.get(text[end - 1], floor)
    for start in range(end - 1):
        if text[start:end] in scores:
            yield best[start] + scores[text[start:end]]

"""Truncates long texts, or splits them into overlapping windows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from albert_tf.errors import UserError
from albert_tf.text.sequences import EncodedSequence, Side, special_count
from albert_tf.text.tokens import SpecialTokens, Tokens

# Number of tokens by which windows overlap if every word has a label. The window that decides a
# word's label contains at least 32 tokens on each side of the word. `answers.ANSWER_OVERLAP` is
# larger, because a whole answer must fit into the overlap.
WORD_OVERLAP: Final = 64
NO_WORD: Final = -1  # marks a token that doesn't decide the label of a word


Strategy = Literal["longest_first", "only_first", "only_second"]


@dataclass(frozen=True)
class Truncation:
    """How to shorten texts that don't fit into a sequence.

    Attributes:
        max_length: maximum number of tokens in a sequence, including special tokens.
        strategy: which text of a pair to shorten.
        side: the side on which tokens are dropped.
        stride: if set, a long text isn't truncated, but split into windows that overlap by this
            number of tokens.
    """

    max_length: int
    strategy: Strategy = "longest_first"
    side: Side = "right"
    stride: int | None = None


def make_sequences(
    first: Sequence[Tokens],
    second: Sequence[Tokens] | None,
    special: SpecialTokens | None,
    truncation: Truncation | None,
) -> list[EncodedSequence]:
    """Returns the sequences of all texts or text pairs, in order.

    Args:
        special: the special tokens to add; None adds none.
        truncation: None keeps texts of any length.
    """
    batch = list(zip(first) if second is None else zip(first, second, strict=True))
    if truncation is None:
        return [EncodedSequence(texts, special, at) for at, texts in enumerate(batch)]
    if not batch:
        return []
    room = text_room(truncation.max_length, special, second is not None)
    sequences: list[EncodedSequence] = []
    for sample, texts in enumerate(batch):
        is_long = sum([len(text.ids) for text in texts]) > room
        for kept in _truncate(texts, room, truncation) if is_long else [texts]:
            sequences.append(EncodedSequence(kept, special, sample))
    return sequences


def text_room(max_length: int, special: SpecialTokens | None, is_pair: bool) -> int:
    """Returns how many text tokens fit into a sequence.

    Raises:
        UserError: if not even the special tokens fit.
    """
    added = special_count(is_pair, special.separators) if special else 0
    if max_length < added:
        raise UserError(
            f"max_length must be at least {added}, the number of special tokens. "
            f"Received: max_length={max_length}."
        )
    return max_length - added


def _truncate(
    texts: Sequence[Tokens], room: int, truncation: Truncation
) -> Iterator[Sequence[Tokens]]:
    """Yields the tokens for each sequence of a text or pair."""
    is_pair = len(texts) == 2
    lengths = len(texts[0].ids), len(texts[1].ids) if is_pair else 0
    strategy, side = truncation.strategy, truncation.side
    if not is_pair and strategy == "only_second":
        raise UserError(
            "truncation='only_second' requires text pairs. For single texts, pass truncation=True."
        )
    kept = kept_lengths(*lengths, room, strategy)
    if truncation.stride is None:
        spans = [
            (0, size) if side == "right" else (length - size, length)
            for length, size in zip(lengths, kept, strict=True)
        ]
        yield [text.cut(*span) for text, span in zip(texts, spans, strict=False)]
        return
    if is_pair and strategy == "longest_first":
        raise UserError(
            "Windows of pairs (stride, or return_overflowing_tokens) require "
            "truncation='only_first' or 'only_second'. Received: truncation='longest_first'."
        )
    long = int(strategy == "only_second")
    for span in windows(lengths[long], kept[long], truncation.stride, side):
        yield [text.cut(*span) if at == long else text for at, text in enumerate(texts)]


def longest_first(
    first: Any,
    second: Any,
    room: Any,
    minimum: Callable[[Any, Any], Any] = min,
    maximum: Callable[[Any, Any], Any] = max,
) -> tuple[Any, Any]:
    """Returns how many tokens of each text to keep so that both fit into `room`.

    The result is the same as removing one token at a time from the longer text, or from the second
    if both are equally long, as in `_truncate_seq_pair` (google-research/albert). Python code
    passes integers. Graph code passes tensors, plus `tf.minimum` and `tf.maximum` to replace `min`
    and `max`.
    """
    kept = minimum(first, maximum(room - second, (room + 1) // 2))
    return kept, minimum(second, room - kept)


def kept_lengths(first: int, second: int, room: int, strategy: str) -> tuple[int, int]:
    """Returns how many tokens of each text to keep so that both fit into `room`."""
    if strategy == "longest_first":
        return longest_first(first, second, room)
    kept_first = room - second if strategy == "only_first" else first
    kept_second = room - first if strategy == "only_second" else second
    if kept_first < 0 or kept_second < 0:
        raise UserError(
            f"With truncation={strategy!r}, texts of {first} and {second} tokens don't fit into "
            f"{room} positions. Pass truncation='longest_first', or a larger max_length."
        )
    return kept_first, kept_second


def windows(length: int, size: int, stride: int, side: str = "right") -> Iterator[tuple[int, int]]:
    """Yields the start and end of spans of `size` tokens that cover a text of `length` tokens.

    Neighboring spans overlap by `stride` tokens. The first span contains the tokens that truncation
    on `side` would keep.
    """
    if length > size and size < 1:
        raise UserError(
            "max_length leaves no room for the tokens of a text in a window, next to the special "
            "tokens and the other text. Increase max_length."
        )
    if length > size and not 0 <= stride < size:
        raise UserError(
            f"stride must be at least 0 and less than {size}, the number of text tokens in a "
            f"window. Received: stride={stride}."
        )
    start = 0
    while start + size < length:
        yield (start, start + size) if side == "right" else (length - start - size, length - start)
        start += size - stride
    yield (start, length) if side == "right" else (0, length - start)


def default_stride(length: int) -> int:
    """Returns `WORD_OVERLAP`, or a quarter of a window's text tokens if that is less."""
    return min(WORD_OVERLAP, (length - special_count(False)) // 4)


def word_windows(tokens: Tokens, length: int, stride: int | None = None) -> list[tuple[int, int]]:
    """Returns the start and end of each window for labeling the words of a text.

    `length` includes `[CLS]` and `[SEP]`. `stride` defaults to `default_stride(length)`.
    """
    stride = default_stride(length) if stride is None else stride
    return list(windows(len(tokens.ids), length - special_count(False), stride))


def deciding_tokens(words: np.ndarray, spans: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    """Returns, for each token of each window, the word whose label it decides, or `NO_WORD`.

    The first token of a word decides its label. If several windows contain the token, only the
    window with the most context around the token counts. At the start and end of the text, context
    is unlimited.

    Args:
        words: `[T]`, the word index of each token.
        spans: start and end of each window.
    """
    first = np.where(np.diff(words, prepend=NO_WORD) != 0, words, NO_WORD)
    most, best = np.full(len(words), -1), np.zeros(len(words), int)  # most context, its window
    for number, (start, end) in enumerate(spans):
        tokens = np.arange(start, end)
        before = tokens - start if start else len(words)
        after = end - 1 - tokens if end < len(words) else len(words)
        context = np.minimum(before, after)
        best[start:end][context > most[start:end]] = number
        most[start:end] = np.maximum(context, most[start:end])
    return [
        np.where(best[start:end] == number, first[start:end], NO_WORD)
        for number, (start, end) in enumerate(spans)
    ]

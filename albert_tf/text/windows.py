"""Long texts: truncation, and windows that overlap."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from albert_tf.text.encoding import EncodedSequence
from albert_tf.text.layout import Layout
from albert_tf.text.tokens import SpecialTokens, Tokens

# Tokens that the windows of a long text share where every word gets a result: the window that
# decides a word then has 32 tokens or more on each side of it. `answers.ANSWER_OVERLAP` is larger,
# because a whole answer must fit into what two windows share.
WORD_OVERLAP: Final = 64
NO_WORD: Final = -1  # at a position that decides no word's label


def special_count(is_pair: bool) -> int:
    """Returns the number of special tokens in a sequence: `[CLS]`, and `[SEP]` after each text."""
    return 3 if is_pair else 2


def make_sequences(
    first: Sequence[Tokens],
    second: Sequence[Tokens] | None,
    special: SpecialTokens,
    layout: Layout,
) -> list[EncodedSequence]:
    """Returns the sequences of all texts or pairs, in order.

    Args:
        first: the tokens of each text.
        second: the tokens of each second text of a pair; None without pairs.
        special: special tokens to add around the texts.
        layout: the options for special tokens, truncation, and windows.
    Raises:
        ValueError: the special tokens alone exceed `max_length`, the text to truncate is too short,
            or `stride` and `truncation` don't fit the texts.
    """
    added = special_count(second is not None) if layout.add_special_tokens else 0
    around = special if layout.add_special_tokens else None
    room, truncates = layout.length - added, layout.truncation != "do_not_truncate"
    if first and truncates and room < 0:
        raise ValueError(
            f"max_length must leave room for {added} special tokens. "
            f"Received: max_length={layout.length}. Use a larger one."
        )
    sequences: list[EncodedSequence] = []
    batch = zip(first) if second is None else zip(first, second, strict=True)
    for sample, texts in enumerate(batch):
        if truncates and sum([len(text.ids) for text in texts]) > room:
            for cut in _truncated(texts, room, layout):
                sequences.append(EncodedSequence(cut, around, sample))
        else:
            sequences.append(EncodedSequence(texts, around, sample))
    return sequences


def _truncated(texts: Sequence[Tokens], room: int, layout: Layout) -> Iterator[list[Tokens]]:
    """Yields the tokens of a text or pair that go into each of its sequences."""
    is_pair = len(texts) == 2
    lengths = len(texts[0].ids), len(texts[1].ids) if is_pair else 0
    strategy, side = str(layout.truncation), layout.truncation_side
    if not is_pair and strategy == "only_second":
        raise ValueError(
            "truncation='only_second' requires pairs. Received: a text that is too long, without "
            "text_pair. Use truncation=True."
        )
    kept = kept_lengths(*lengths, room, strategy)
    if not layout.return_overflowing_tokens:
        spans = [
            (0, size) if side == "right" else (length - size, length)
            for length, size in zip(lengths, kept, strict=True)
        ]
        yield [text.cut(*span) for text, span in zip(texts, spans, strict=False)]
        return
    if is_pair and strategy == "longest_first":
        raise ValueError(
            "return_overflowing_tokens must know which text of a pair to truncate. "
            "Received: truncation='longest_first'. Use 'only_first' or 'only_second'."
        )
    long = int(strategy == "only_second")
    for span in windows(lengths[long], kept[long], layout.stride, side):
        yield [text.cut(*span) if at == long else text for at, text in enumerate(texts)]


def longest_first(
    first: Any,
    second: Any,
    room: Any,
    minimum: Callable[[Any, Any], Any] = min,
    maximum: Callable[[Any, Any], Any] = max,
) -> tuple[Any, Any]:
    """Returns how many tokens each text keeps, so that both fit in `room`.

    Removes one token at a time from the longer text, from the second when both are equally
    long, as google-research/albert's `_truncate_seq_pair` does. Python passes integers, the graph
    passes tensors with `tf.minimum` and `tf.maximum`.
    """
    kept = minimum(first, maximum(room - second, (room + 1) // 2))
    return kept, minimum(second, room - kept)


def kept_lengths(first: int, second: int, room: int, strategy: str) -> tuple[int, int]:
    """Returns how many tokens each of two texts keeps, which together are longer than `room`.

    Raises:
        ValueError: the text to truncate is too short to make both fit.
    """
    if strategy == "longest_first":
        return longest_first(first, second, room)
    kept_first = room - second if strategy == "only_first" else first
    kept_second = room - first if strategy == "only_second" else second
    if kept_first < 0 or kept_second < 0:
        raise ValueError(
            f"truncation={strategy!r} must be able to make the texts fit. Received: texts of "
            f"{first} and {second} tokens for {room} positions. "
            "Use truncation='longest_first', or a larger max_length."
        )
    return kept_first, kept_second


def windows(length: int, size: int, stride: int, side: str = "right") -> Iterator[tuple[int, int]]:
    """Yields start and end of spans of `size` that cover `length`; neighbors share `stride`.

    The first span is the one that truncation on this side keeps.

    Raises:
        ValueError: `stride` is negative, or as large as a span.
    """
    if length > size and not 0 <= stride < size:
        raise ValueError(
            "stride must be at least 0 and smaller than the number of tokens in a window. "
            f"Received: stride={stride}, {size} tokens a window. Use a smaller stride."
        )
    start = 0
    while start + size < length:
        yield (start, start + size) if side == "right" else (length - start - size, length - start)
        start += size - stride
    yield (start, length) if side == "right" else (0, length - start)


def default_stride(length: int) -> int:
    """Returns `WORD_OVERLAP`, or a quarter of a window's text if that is less."""
    return min(WORD_OVERLAP, (length - special_count(False)) // 4)


def word_windows(tokens: Tokens, length: int, stride: int | None = None) -> list[tuple[int, int]]:
    """Returns start and end of the windows of a text whose words get labels.

    Args:
        tokens: the tokens of the text.
        length: maximum number of tokens in a window, including `[CLS]` and `[SEP]`.
        stride: number of tokens that neighbors share. Default: `default_stride(length)`.
    """
    stride = default_stride(length) if stride is None else stride
    return list(windows(len(tokens.ids), length - special_count(False), stride))


def deciding_tokens(words: np.ndarray, spans: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    """Returns for each window the words whose labels its tokens decide, `NO_WORD` for others.

    A word's first token decides its label. Where windows overlap, it does so in the window in which
    it is farthest from the edges at which the text goes on.

    Args:
        words: `[T]`, the index of each token's word.
        spans: start and end of each window.
    """
    first = np.where(np.diff(words, prepend=NO_WORD) != 0, words, NO_WORD)
    context = np.full((len(spans), len(words)), -1)
    for number, (start, end) in enumerate(spans):
        tokens = np.arange(start, end)
        before = tokens - start if start else len(words)
        after = end - 1 - tokens if end < len(words) else len(words)
        context[number, start:end] = np.minimum(before, after)
    best = context.argmax(axis=0)
    return [
        np.where(best[start:end] == number, first[start:end], NO_WORD)
        for number, (start, end) in enumerate(spans)
    ]

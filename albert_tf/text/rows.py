"""Rows `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]` from the pieces of texts, truncated to fit."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from albert_tf.text.call_arguments import Side, TruncationStrategy
from albert_tf.text.segmenter import Pieces, SpecialTokens

NO_TEXT = (0, 0)
STRIDE: Final = 64  # pieces


@dataclass(frozen=True)
class Layout:
    """The options for making rows.

    Attributes:
        special: special tokens to add around the texts, or None.
        truncation: the text to truncate when a row is too long.
        max_length: maximum number of pieces in a row; unused without truncation.
        stride: number of pieces that a window shares with the one before it.
        overflow: return the truncated pieces as further rows.
        side: the end of a text that loses pieces.
    """

    special: SpecialTokens | None
    truncation: TruncationStrategy
    max_length: int
    stride: int = 0
    overflow: bool = False
    side: Side = "right"

    def room(self, is_pair: bool) -> int:
        """Returns how many pieces of text fit in a row.

        Raises:
            ValueError: the special tokens alone exceed `max_length`.
        """
        special = special_count(is_pair) if self.special else 0
        if self.truncation != "do_not_truncate" and self.max_length < special:
            raise ValueError(
                f"max_length must leave room for {special} special tokens. "
                f"Received: max_length={self.max_length}. Use a larger one."
            )
        return self.max_length - special


@dataclass(frozen=True)
class EncodedRow:
    """One row's features, each a list with one entry per position.

    Attributes:
        texts: the pieces of its one or two texts.
        special: the special tokens around them, or None.
        sample: the index of the text or pair that it was made from.
    """

    texts: Sequence[Pieces]
    special: SpecialTokens | None
    sample: int = 0

    def _laid(self, parts: Iterable[Iterable[Any]], opening: Any, closing: Any) -> list[Any]:
        edge = int(self.special is not None)
        row = [opening] * edge
        for part in parts:
            row.extend(part)
            row += [closing] * edge
        return row

    @property
    def input_ids(self) -> list[int]:
        special = self.special or SpecialTokens()
        parts = (text.ids.tolist() for text in self.texts)
        return self._laid(parts, special.classify_id, special.separate_id)

    @property
    def token_type_ids(self) -> list[int]:
        edge = int(self.special is not None)
        types = [0] * edge
        for segment, text in enumerate(self.texts):
            types += [segment] * (len(text.ids) + edge)
        return types

    @property
    def special_tokens_mask(self) -> list[int]:
        return self._laid(([0] * len(text.ids) for text in self.texts), 1, 1)

    @property
    def offset_mapping(self) -> list[tuple[int, int]]:
        parts = (zip(*text.offsets.T.tolist(), strict=True) for text in self.texts)
        return self._laid(parts, NO_TEXT, NO_TEXT)

    @property
    def sequence_ids(self) -> list[int | None]:
        """The text (0 or 1) of each position; None for special tokens."""
        parts = ([segment] * len(text.ids) for segment, text in enumerate(self.texts))
        return self._laid(parts, None, None)

    @property
    def word_ids(self) -> list[int | None]:
        """The index of each piece's word in its text; None for special tokens."""
        return self._laid((text.words.tolist() for text in self.texts), None, None)

    @property
    def has_words(self) -> bool:
        """Whether the pieces' words are known."""
        return all(len(text.words) == len(text.ids) for text in self.texts)


def special_count(is_pair: bool) -> int:
    """Returns the number of special tokens in a row: `[CLS]`, and `[SEP]` after each text."""
    return 3 if is_pair else 2


def make_rows(
    first: Sequence[Pieces], second: Sequence[Pieces] | None, layout: Layout
) -> list[EncodedRow]:
    """Returns the rows of all texts or pairs, in order."""
    rows: list[EncodedRow] = []
    for sample, a in enumerate(first):
        texts = [a] if second is None else [a, second[sample]]
        rows.extend(EncodedRow(cut, layout.special, sample) for cut in _cuts(texts, layout))
    return rows


def _cuts(texts: list[Pieces], layout: Layout) -> Iterator[list[Pieces]]:
    """Yields the pieces of a text or pair that go into each of its rows."""
    is_pair = len(texts) == 2
    room = layout.room(is_pair)
    lengths = len(texts[0].ids), len(texts[1].ids) if is_pair else 0
    if layout.truncation == "do_not_truncate" or sum(lengths) <= room:
        yield texts
        return
    if not is_pair and layout.truncation == "only_second":
        raise ValueError(
            "truncation='only_second' must be given pairs. Received: a text that is too long, "
            "without text_pair. Use truncation=True."
        )
    kept = kept_lengths(*lengths, room, layout.truncation)
    if not layout.overflow:
        spans = [
            (0, size) if layout.side == "right" else (length - size, length)
            for length, size in zip(lengths, kept, strict=True)
        ]
        yield [text.part(*span) for text, span in zip(texts, spans, strict=False)]
    elif not is_pair or layout.truncation == "only_first":
        for span in windows(lengths[0], kept[0], layout.stride, layout.side):
            yield [texts[0].part(*span), *texts[1:]]
    elif layout.truncation == "only_second":
        for span in windows(lengths[1], kept[1], layout.stride, layout.side):
            yield [texts[0], texts[1].part(*span)]
    else:
        raise ValueError(
            "return_overflowing_tokens must know which text of a pair to cut. "
            "Received: truncation='longest_first'. Use 'only_first' or 'only_second'."
        )


def longest_first(
    first: Any,
    second: Any,
    room: Any,
    minimum: Callable[[Any, Any], Any] = min,
    maximum: Callable[[Any, Any], Any] = max,
) -> tuple[Any, Any]:
    """Returns how many pieces each text keeps, so that both fit in `room`.

    Removes pieces from the longer text one by one, from the second when both are equally
    long, as google-research/albert's `_truncate_seq_pair` does. Python passes integers, the graph
    passes tensors with `tf.minimum` and `tf.maximum`.
    """
    kept = minimum(first, maximum(room - second, (room + 1) // 2))
    return kept, minimum(second, room - kept)


def kept_lengths(
    first: int, second: int, room: int, strategy: TruncationStrategy
) -> tuple[int, int]:
    """Returns how many pieces each text keeps, so that both fit in `room`.

    Raises:
        ValueError: the text to truncate is too short to make both fit.
    """
    if first + second <= room or strategy == "do_not_truncate":
        return first, second
    if strategy == "longest_first":
        return longest_first(first, second, room)
    kept_first = room - second if strategy == "only_first" else first
    kept_second = room - first if strategy == "only_second" else second
    if kept_first < 0 or kept_second < 0:
        raise ValueError(
            f"truncation={strategy!r} must be able to make the texts fit. Received: texts of "
            f"{first} and {second} pieces for {room} positions. "
            "Use truncation='longest_first', or a larger max_length."
        )
    return kept_first, kept_second


def windows(length: int, size: int, stride: int, side: Side = "right") -> Iterator[tuple[int, int]]:
    """Yields start and end of spans of `size` that cover `length`; neighbours share `stride`.

    The first span is the one that truncation on this side keeps.

    Raises:
        ValueError: `stride` is negative, or as large as a span.
    """
    if length > size and not 0 <= stride < size:
        raise ValueError(
            "stride must be at least 0 and smaller than the pieces of a window. "
            f"Received: stride={stride}, {size} pieces a window. Use a smaller stride."
        )
    start = 0
    while start + size < length:
        yield (start, start + size) if side == "right" else (length - start - size, length - start)
        start += size - stride
    yield (start, length) if side == "right" else (0, length - start)


def default_stride(length: int) -> int:
    """Returns `STRIDE`, or a quarter of a window's text if that is less."""
    return min(STRIDE, (length - special_count(False)) // 4)

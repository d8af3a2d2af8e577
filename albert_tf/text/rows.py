"""Pieces of one or two texts laid out as rows: `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from albert_tf.text.segmenter import Pieces
from albert_tf.text.special_tokens import SpecialTokens
from albert_tf.text.truncation import Strategy, kept_lengths, windows

NO_TEXT = (0, 0)


@dataclass(frozen=True)
class Layout:
    """How rows are made.

    Attributes:
        special: the tokens to put around the texts, or None.
        truncation: what loses pieces when a row is too long.
        max_length: the most pieces of a row; not looked at when nothing is truncated.
        stride: pieces that a window shares with the one before it.
        overflow: what is cut off makes further rows.
    """

    special: SpecialTokens | None
    truncation: Strategy
    max_length: int
    stride: int = 0
    overflow: bool = False

    def room(self, is_pair: bool) -> int:
        """Places for pieces of text.

        Raises:
            ValueError: not even the special tokens fit.
        """
        special = special_count(is_pair) if self.special else 0
        if self.truncation != "do_not_truncate" and self.max_length < special:
            raise ValueError(
                f"max_length must leave room for {special} special tokens. "
                f"Received: max_length={self.max_length}. Use a larger one."
            )
        return self.max_length - special


@dataclass(frozen=True)
class Row:
    """One row of features, each a list with one entry a place.

    Attributes:
        texts: the pieces of its one or two texts.
        special: the tokens around them, or None.
        sample: the number of the text or pair that it was made from.
    """

    texts: Sequence[Pieces]
    special: SpecialTokens | None
    sample: int = 0

    def _laid(self, parts: Iterable[Sequence], opening: Any, closing: Any) -> list:
        edge = int(self.special is not None)
        row = [opening] * edge
        for part in parts:
            row.extend(part)
            row += [closing] * edge
        return row

    @property
    def input_ids(self) -> list[int]:
        special = self.special or SpecialTokens()
        parts = (text.ids for text in self.texts)
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
        return self._laid((text.offsets for text in self.texts), NO_TEXT, NO_TEXT)

    @property
    def sequence_ids(self) -> list[int | None]:
        """0 or 1, the text; None for special tokens."""
        parts = ([segment] * len(text.ids) for segment, text in enumerate(self.texts))
        return self._laid(parts, None, None)

    @property
    def word_ids(self) -> list[int | None]:
        """The number of each piece's word in its text; None for special tokens."""
        return self._laid((text.words for text in self.texts), None, None)

    @property
    def has_words(self) -> bool:
        """Whether the pieces' words are known."""
        return all(len(text.words) == len(text.ids) for text in self.texts)


def special_count(is_pair: bool) -> int:
    """`[CLS]` and one `[SEP]` a text."""
    return 3 if is_pair else 2


def make_rows(
    first: Sequence[Pieces], second: Sequence[Pieces] | None, layout: Layout
) -> list[Row]:
    """The rows of all texts or pairs, in order."""
    rows: list[Row] = []
    for sample, a in enumerate(first):
        texts = [a] if second is None else [a, second[sample]]
        rows.extend(Row(cut, layout.special, sample) for cut in _cuts(texts, layout))
    return rows


def _cuts(texts: list[Pieces], layout: Layout) -> Iterator[list[Pieces]]:
    """What of a text or pair goes into each of its rows."""
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
        yield [text.part(0, length) for text, length in zip(texts, kept, strict=False)]
    elif not is_pair or layout.truncation == "only_first":
        for span in windows(lengths[0], kept[0], layout.stride):
            yield [texts[0].part(*span), *texts[1:]]
    elif layout.truncation == "only_second":
        for span in windows(lengths[1], kept[1], layout.stride):
            yield [texts[0], texts[1].part(*span)]
    else:
        raise ValueError(
            "return_overflowing_tokens must know which text of a pair to cut. "
            "Received: truncation='longest_first'. Use 'only_first' or 'only_second'."
        )

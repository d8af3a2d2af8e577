"""The tokens of a text with their character spans and word indices, and the special tokens."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

SPECIAL_TOKENS: Final = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
SPECIAL_IDS: Final = (0, 1, 2, 3, 4)


class Tokens(NamedTuple):
    """The tokens of a text as int32 arrays. Offsets and words are empty unless requested.

    Attributes:
        ids: `[T]`.
        offsets: `[T, 2]`, the start and end character of each token in the raw text.
        words: `[T]`, the word index of each token.
    """

    ids: np.ndarray
    offsets: np.ndarray = np.empty((0, 2), np.int32)
    words: np.ndarray = np.empty(0, np.int32)

    def cut(self, start: int, end: int) -> "Tokens":
        """Returns the tokens from `start` to `end` (exclusive)."""
        return Tokens(self.ids[start:end], self.offsets[start:end], self.words[start:end])


class Segment(NamedTuple):
    """A substring: `text[start:start + len(content)] == content`."""

    content: str
    start: int
    is_special: bool


@dataclass(frozen=True)
class SpecialTokens:
    """The special tokens of a vocabulary.

    Attributes:
        tokens: the padding, unknown, classification, separator, and mask token, in this order.
        ids: ids of these tokens.
        separators: number of separators between the texts of a pair. With 2, as in RoBERTa, the
            token types of both texts are 0.
    """

    tokens: tuple[str, ...] = SPECIAL_TOKENS
    ids: tuple[int, ...] = SPECIAL_IDS
    separators: int = 1

    @property
    def second_type(self) -> int:
        """The token type of the second text of a pair."""
        return int(self.separators == 1)

    @property
    def pad_id(self) -> int:
        return self.ids[0]

    @property
    def unknown_id(self) -> int:
        return self.ids[1]

    @property
    def cls_id(self) -> int:
        return self.ids[2]

    @property
    def sep_id(self) -> int:
        return self.ids[3]

    @cached_property
    def _written(self) -> re.Pattern[str]:
        return re.compile("|".join(re.escape(token) for token in self.tokens))

    def single(self, token: str) -> Tokens:
        """Returns the tokens of a text that consists of one special token."""
        ids = np.array([self.ids[self.tokens.index(token)]], np.int32)
        return Tokens(ids, np.array([[0, len(token)]], np.int32), np.zeros(1, np.int32))

    def are_in(self, text: str) -> bool:
        """Returns whether a special token occurs in a text."""
        return any(token in text for token in self.tokens)

    def split(self, text: str) -> list[Segment]:
        """Splits a text into special tokens and the text between them, including whitespace.

        The vocabulary later drops the whitespace, so that `[MASK]` absorbs the space on its left.
        """
        segments, end = [], 0
        for match in self._written.finditer(text):
            if match.start() > end:
                segments.append(Segment(text[end : match.start()], end, False))
            segments.append(Segment(match.group(), match.start(), True))
            end = match.end()
        if end < len(text) or not segments:
            segments.append(Segment(text[end:], end, False))
        return segments


def join_segments(
    segments: Sequence[Segment], plain: Iterator[Tokens], special: SpecialTokens
) -> Tokens:
    """Concatenates the tokens of a text's segments, with offsets and words for the whole text.

    `plain` yields the tokens of each segment that isn't a special token.
    """
    tokens = [special.single(s.content) if s.is_special else next(plain) for s in segments]
    if len(tokens) == 1:
        return tokens[0]
    counts = [t.words.max(initial=-1) + 1 for t in tokens]
    words = np.cumsum([0, *counts], dtype=np.int32)
    return Tokens(
        np.concatenate([t.ids for t in tokens]),
        np.concatenate([t.offsets + s.start for t, s in zip(tokens, segments, strict=True)]),
        np.concatenate([t.words + word for t, word in zip(tokens, words, strict=False)]),
    )


def join_words(words: Sequence[Tokens]) -> Tokens:
    """Concatenates the tokens of a text's words. Offsets stay relative to each word."""
    lengths = np.array([len(word.ids) for word in words], np.int32)
    tokens = [Tokens(np.empty(0, np.int32)), *words]  # there may be no words
    return Tokens(
        np.concatenate([t.ids for t in tokens]),
        np.concatenate([t.offsets for t in tokens]),
        np.repeat(np.arange(len(words), dtype=np.int32), lengths),
    )


def trim(text: str, offsets: np.ndarray) -> None:
    """Strips trailing whitespace from spans in place, unless a span consists of whitespace."""
    ends = offsets[:, 1].tolist()
    for at in [at for at, end in enumerate(ends) if text[end - 1 : end].isspace()]:
        start, end = offsets[at].tolist()
        if kept := len(text[start:end].rstrip()):
            offsets[at, 1] = start + kept

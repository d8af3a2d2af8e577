"""What every vocabulary does: raw text to pieces, in bulk, or one by one with offsets."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from albert_tf.text.special_tokens import Segment, SpecialTokens

Text = str | bytes
# Stands for what is no character (a stray byte of invalid UTF-8): unknown to every vocabulary.
NO_CHARACTER = "\U0010ffff"
_SURROGATES = re.compile("[\ud800-\udfff]")


class Pieces(NamedTuple):
    """The pieces of one text; of what wasn't asked for, nothing.

    Attributes:
        ids: one id a piece.
        tokens: the pieces, unknown ones as they read after normalisation or as `[UNK]`.
        offsets: `(start, end)` of each piece in the raw text, in characters.
        words: the number of each piece's word.
    """

    ids: Sequence[int]
    tokens: Sequence[str] = ()
    offsets: Sequence[tuple[int, int]] = ()
    words: Sequence[int] = ()

    def part(self, start: int, end: int) -> "Pieces":
        """The pieces from `start` to before `end`."""
        return Pieces(
            self.ids[start:end],
            self.tokens[start:end],
            self.offsets[start:end],
            self.words[start:end],
        )


class Segmenter(ABC):
    """Cuts raw text into the pieces of a vocabulary.

    Attributes:
        special: the special tokens.
    """

    special: SpecialTokens

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of pieces, special tokens included."""

    @abstractmethod
    def token(self, index: int) -> str:
        """The piece of an id in `[0, size)`."""

    @abstractmethod
    def index(self, token: str) -> int:
        """The id of a piece; that of the unknown token for what is no piece."""

    @abstractmethod
    def joined(self, tokens: Sequence[str]) -> str:
        """Pieces as text."""

    @abstractmethod
    def starts_word(self, token: str) -> bool:
        """Whether a piece is the first of its word."""

    @abstractmethod
    def _encode(self, texts: list[str]) -> list[list[int]]:
        """The ids of texts; special tokens in them are plain text."""

    @abstractmethod
    def _details(self, text: str) -> Pieces:
        """The pieces of a text with tokens and offsets; special tokens in it are plain text."""

    def encode_arrays(self, texts: list[str]) -> list[np.ndarray]:
        """int32 `[pieces]` of each text; special tokens in them are plain text."""
        return [np.asarray(ids, np.int32) for ids in self._encode(texts)]

    def encode(self, texts: Sequence[Text], split_special: bool, details: bool) -> list[Pieces]:
        """The pieces of each text.

        Args:
            split_special: a special token that is written out is plain text.
            details: tokens, offsets and words too, at about ten times the time.
        Raises:
            TypeError: something that is no text.
        """
        if details:
            return [self._pieces(as_text(text), split_special) for text in texts]
        return [Pieces(ids) for ids in self._ids([as_text(text) for text in texts], split_special)]

    def encode_words(
        self, samples: Sequence[Sequence[Text]], split_special: bool, details: bool
    ) -> list[Pieces]:
        """The pieces of texts that are given as words; offsets count from each word's start."""
        words = list(chain.from_iterable(samples))
        encoded = iter(self.encode(words, split_special, details))
        return [_numbered([next(encoded) for _ in words]) for words in samples]

    def _ids(self, texts: list[str], split_special: bool) -> Sequence[Sequence[int]]:
        if split_special:
            return self._encode(texts)
        parts = [self.special.split(text) for text in texts]
        plain = [part.content for segments in parts for part in segments if not part.is_special]
        encoded = iter(self._encode(plain))
        return [self._spliced(segments, encoded) for segments in parts]

    def _spliced(self, segments: list[Segment], encoded: Iterator[list[int]]) -> list[int]:
        if len(segments) == 1 and not segments[0].is_special:
            return next(encoded)
        ids: list[int] = []
        for segment in segments:
            ids += [self.index(segment.content)] if segment.is_special else next(encoded)
        return ids

    def _pieces(self, text: str, split_special: bool) -> Pieces:
        segments = [Segment(text, 0, False)] if split_special else self.special.split(text)
        ids: list[int] = []
        tokens: list[str] = []
        offsets: list[tuple[int, int]] = []
        words: list[int] = []
        word = -1
        for segment in segments:
            found = self._special(segment) if segment.is_special else self._details(segment.content)
            ids += found.ids
            tokens += found.tokens
            offsets += [
                (start + segment.start, end + segment.start) for start, end in found.offsets
            ]
            for place, token in enumerate(found.tokens):
                word += place == 0 or self.starts_word(token)
                words.append(word)
        return Pieces(ids, tokens, offsets, words)

    def _special(self, segment: Segment) -> Pieces:
        token = segment.content
        return Pieces([self.index(token)], [token], [(0, len(token))])


def _numbered(words: Sequence[Pieces]) -> Pieces:
    """One text's pieces from those of its words, each with the number of its word."""
    ids, tokens, offsets = (
        list(chain.from_iterable(getattr(word, name) for word in words))
        for name in ("ids", "tokens", "offsets")
    )
    return Pieces(ids, tokens, offsets, [at for at, word in enumerate(words) for _ in word.ids])


def as_text(text: Text) -> str:
    """Text without surrogates; each byte or half of a pair that is no character is unknown.

    Raises:
        TypeError: neither str nor bytes.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    if not isinstance(text, str):
        raise TypeError(
            "A text must be a str, or bytes in UTF-8. "
            f"Received: {text!r} of type {type(text).__name__}. "
            "Give a text, or a list of texts for a batch."
        )
    return _SURROGATES.sub(NO_CHARACTER, text)


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without white space at its end; a span of nothing else stays."""
    kept = len(text[start:end].rstrip())
    return (start, start + kept) if kept else (start, end)

"""The interface of vocabularies: special tokens, and raw text to pieces."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import numpy as np

from albert_tf.text.call_arguments import Text
from albert_tf.text.encoding import Pieces, Segment, SpecialTokens

NO_CHARACTER: Final = "\U0010ffff"  # Replaces stray bytes; unknown to every vocabulary.
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_ALL_CORES: Final = -1


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
        """Returns the piece of an id in `[0, size)`."""

    @abstractmethod
    def index(self, token: str) -> int:
        """Returns the id of a piece, or the unknown token's for any other string."""

    @abstractmethod
    def joined(self, tokens: Sequence[str]) -> str:
        """Joins pieces to text."""

    @abstractmethod
    def encode_plain(self, texts: list[str], threads: int) -> list[np.ndarray]:
        """Returns int32 `[T]` for each text; special tokens in it are plain text."""

    @abstractmethod
    def _tokens(self, text: str) -> list[str]:
        """Returns the pieces as strings; an unknown one is its normalized text, or `[UNK]`."""

    @abstractmethod
    def _details(self, text: str) -> Pieces:
        """Returns pieces with offsets and words; special tokens in the text are plain text."""

    def encode(self, texts: Sequence[Text], split_special: bool, details: bool) -> list[Pieces]:
        """Returns the pieces of each text.

        Args:
            split_special: read special tokens in a text as plain text.
            details: add offsets and words, which takes about ten times as long.
        Raises:
            TypeError: a text is neither str nor bytes.
        """
        parts = [self._segments(text, split_special) for text in texts]
        plain = [part.content for segments in parts for part in segments if not part.is_special]
        found: Iterable[Pieces] = (
            map(self._details, plain)
            if details
            else map(Pieces, self.encode_plain(plain, _ALL_CORES))
        )
        encoded = iter(found)
        return [
            _joined(
                [self._special(part) if part.is_special else next(encoded) for part in segments],
                [part.start for part in segments],
            )
            for segments in parts
        ]

    def encode_words(
        self, samples: Sequence[Sequence[Text]], split_special: bool, details: bool
    ) -> list[Pieces]:
        """Returns the pieces of texts given as words; offsets count from each word's start."""
        encoded = iter(self.encode(list(chain.from_iterable(samples)), split_special, details))
        return [_numbered([next(encoded) for _ in words]) for words in samples]

    def tokens(self, text: Text, split_special: bool) -> list[str]:
        """Returns the pieces of a text as strings."""
        return [
            token
            for part in self._segments(text, split_special)
            for token in ([part.content] if part.is_special else self._tokens(part.content))
        ]

    def _segments(self, text: Text, split_special: bool) -> list[Segment]:
        text = as_text(text)
        return [Segment(text, 0, False)] if split_special else self.special.split(text)

    def _special(self, segment: Segment) -> Pieces:
        ids = np.array([self.index(segment.content)], np.int32)
        return Pieces(ids, np.array([[0, len(segment.content)]], np.int32), np.zeros(1, np.int32))


def _joined(parts: Sequence[Pieces], starts: Sequence[int]) -> Pieces:
    """Joins the pieces of a text's segments, which begin at `starts`."""
    if len(parts) == 1:
        return parts[0]
    counts = [part.words.max(initial=-1) + 1 for part in parts]
    words = np.cumsum([0, *counts], dtype=np.int32)
    return Pieces(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.offsets + start for part, start in zip(parts, starts, strict=True)]),
        np.concatenate([part.words + word for part, word in zip(parts, words, strict=False)]),
    )


def _numbered(words: Sequence[Pieces]) -> Pieces:
    """Joins the pieces of a text's words, and numbers the words."""
    lengths = np.array([len(word.ids) for word in words], np.int32)
    parts = [Pieces(np.empty(0, np.int32)), *words]  # A text may have no words.
    return Pieces(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.offsets for part in parts]),
        np.repeat(np.arange(len(words), dtype=np.int32), lengths),
    )


def as_text(text: Text) -> str:
    """Returns a str in which stray bytes and lone surrogates are `NO_CHARACTER`.

    Raises:
        TypeError: `text` is neither str nor bytes.
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


def trim(text: str, offsets: np.ndarray) -> None:
    """Drops white space at the ends of spans, in place, unless a span is all white space."""
    ends = offsets[:, 1].tolist()
    for at in [at for at, end in enumerate(ends) if text[end - 1 : end].isspace()]:
        start, end = offsets[at].tolist()
        if kept := len(text[start:end].rstrip()):
            offsets[at, 1] = start + kept

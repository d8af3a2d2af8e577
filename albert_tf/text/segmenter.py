"""The interface of vocabularies: special tokens, and raw text to pieces."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

Text = str | bytes
SPECIAL_TOKENS: Final = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
NO_CHARACTER: Final = "\U0010ffff"  # Replaces stray bytes; unknown to every vocabulary.
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


class Segment(NamedTuple):
    """A stretch of a text: `text[start:start + len(content)] == content`."""

    content: str
    start: int
    is_special: bool


@dataclass(frozen=True)
class SpecialTokens:
    """The special tokens of a vocabulary.

    Attributes:
        tokens: the padding, unknown, classification, separator and mask token, in this order.
        ids: their ids.
    """

    tokens: tuple[str, ...] = SPECIAL_TOKENS
    ids: tuple[int, ...] = (0, 1, 2, 3, 4)

    @property
    def pad_id(self) -> int:
        return self.ids[0]

    @property
    def unknown_id(self) -> int:
        return self.ids[1]

    @property
    def classify_id(self) -> int:
        return self.ids[2]

    @property
    def separate_id(self) -> int:
        return self.ids[3]

    @cached_property
    def _written(self) -> re.Pattern[str]:
        return re.compile("|".join(re.escape(token) for token in self.tokens))

    def split(self, text: str) -> list[Segment]:
        """Cuts a text into special tokens and the text between them.

        White space beside a token stays in the text, where the vocabulary drops it: so `[MASK]`
        swallows the space on its left.
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


class Pieces(NamedTuple):
    """The pieces of one text; details that weren't requested are empty.

    Attributes:
        ids: the id of each piece.
        tokens: the pieces; an unknown one is its normalized text, or `[UNK]`.
        offsets: `(start, end)` of each piece in the raw text, in characters.
        words: the index of each piece's word.
    """

    ids: Sequence[int]
    tokens: Sequence[str] = ()
    offsets: Sequence[tuple[int, int]] = ()
    words: Sequence[int] = ()

    def part(self, start: int, end: int) -> "Pieces":
        """Returns the pieces from `start` to before `end`."""
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
        """Returns the piece of an id in `[0, size)`."""

    @abstractmethod
    def index(self, token: str) -> int:
        """Returns the id of a piece, or the unknown token's for any other string."""

    @abstractmethod
    def joined(self, tokens: Sequence[str]) -> str:
        """Joins pieces to text."""

    @abstractmethod
    def starts_word(self, token: str) -> bool:
        """Whether a piece begins a word."""

    @abstractmethod
    def _encode(self, texts: list[str]) -> list[list[int]]:
        """Returns the ids of each text; special tokens in it are plain text."""

    @abstractmethod
    def _details(self, text: str) -> Pieces:
        """Returns pieces with tokens and offsets; special tokens in the text are plain text."""

    def encode_arrays(self, texts: list[str]) -> list[np.ndarray]:
        """Returns int32 `[pieces]` for each text; special tokens in it are plain text."""
        return [np.asarray(ids, np.int32) for ids in self._encode(texts)]

    def encode(self, texts: Sequence[Text], split_special: bool, details: bool) -> list[Pieces]:
        """Returns the pieces of each text.

        Args:
            split_special: read special tokens in a text as plain text.
            details: add tokens, offsets and words, which takes about ten times as long.
        Raises:
            TypeError: a text is neither str nor bytes.
        """
        if details:
            return [self._pieces(as_text(text), split_special) for text in texts]
        return [Pieces(ids) for ids in self._ids([as_text(text) for text in texts], split_special)]

    def encode_words(
        self, samples: Sequence[Sequence[Text]], split_special: bool, details: bool
    ) -> list[Pieces]:
        """Returns the pieces of texts given as words; offsets count from each word's start."""
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
    """Joins the pieces of a text's words, and numbers the words."""
    ids, tokens, offsets = (
        list(chain.from_iterable(getattr(word, name) for word in words))
        for name in ("ids", "tokens", "offsets")
    )
    return Pieces(ids, tokens, offsets, [at for at, word in enumerate(words) for _ in word.ids])


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


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Drops white space at a span's end, unless the span is all white space."""
    kept = len(text[start:end].rstrip())
    return (start, start + kept) if kept else (start, end)

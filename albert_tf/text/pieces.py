"""Raw text to SentencePiece ids, singly or in bulk, with offsets into the raw text on request."""

import bisect
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import sentencepiece

from albert_tf.text.special_tokens import Segment, split_at_special_tokens

# Stands for what is no character (a stray byte of invalid UTF-8): unknown to every vocabulary.
NO_CHARACTER = "\U0010ffff"
SPACE = "▁"
_SURROGATES = re.compile("[\ud800-\udfff]")
_ALL_CORES = -1


class Pieces(NamedTuple):
    """The pieces of one text.

    Attributes:
        ids: one id a piece.
        tokens: the pieces, unknown ones as they read after normalisation.
        offsets: `(start, end)` of each piece in the raw text, in characters.
    """

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]

    def part(self, start: int, end: int) -> "Pieces":
        """The pieces from `start` to before `end`."""
        return Pieces(self.ids[start:end], self.tokens[start:end], self.offsets[start:end])


class Segmenter:
    """Cuts raw text into the pieces of a baked vocabulary.

    Args:
        model: the baked SentencePiece model.
    """

    def __init__(self, model: bytes):
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    def ids(self, texts: Sequence[str | bytes], split_special: bool) -> list[list[int]]:
        """The ids of each text; with `split_special` a special token written out is plain text."""
        whole = [as_text(text) for text in texts]
        if split_special:
            return self.processor.encode(whole, num_threads=_ALL_CORES)
        parts = [split_at_special_tokens(text) for text in whole]
        plain = [part.content for segments in parts for part in segments if not part.is_special]
        encoded = iter(self.processor.encode(plain, num_threads=_ALL_CORES))
        return [self._joined(segments, encoded) for segments in parts]

    def pieces(self, text: str | bytes, split_special: bool) -> Pieces:
        """The pieces of one text with their offsets."""
        text = as_text(text)
        segments = [Segment(text, 0, False)] if split_special else split_at_special_tokens(text)
        joined = Pieces([], [], [])
        for segment in segments:
            found = self._special(segment) if segment.is_special else self._plain(segment)
            joined.ids.extend(found.ids)
            joined.tokens.extend(found.tokens)
            joined.offsets.extend(found.offsets)
        return joined

    def _joined(self, segments: list[Segment], encoded: Iterator[list[int]]) -> list[int]:
        if len(segments) == 1 and not segments[0].is_special:
            return next(encoded)
        ids: list[int] = []
        for segment in segments:
            if segment.is_special:
                ids.append(self.processor.piece_to_id(segment.content))
            else:
                ids.extend(next(encoded))
        return ids

    def _special(self, segment: Segment) -> Pieces:
        span = (segment.start, segment.start + len(segment.content))
        return Pieces([self.processor.piece_to_id(segment.content)], [segment.content], [span])

    def _plain(self, segment: Segment) -> Pieces:
        encoded = self.processor.encode(segment.content, out_type="offset_mapping")
        tokens = encoded["pieces"]
        spans = _spans(self.processor, segment.content, tokens)
        offsets = [(segment.start + start, segment.start + end) for start, end in spans]
        return Pieces(encoded["ids"], tokens, offsets)


def as_text(text: str | bytes) -> str:
    """Text that SentencePiece takes; each byte or half of a pair that is no character is unknown.

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


def _spans(processor: Any, text: str, tokens: list[str]) -> list[tuple[int, int]]:
    """The characters of `text` that each token was made from, without white space around them.

    A token that is white space alone has that white space, or nothing at the text's start. A
    character that normalises to several (a ligature) belongs to every token that has one of them;
    one that normalises to nothing (an accent) to the character before it.
    """
    _, origins = processor.normalize(text, with_offsets=True)
    starts = sorted(set(origins))
    spans: list[tuple[int, int]] = []
    at = 0
    for token in tokens:
        if at == 0 and token == SPACE:  # SentencePiece's own, before the text.
            spans.append((origins[0], origins[0]))
        else:
            start = origins[at + (token[0] == SPACE and len(token) > 1)]
            last = origins[at + len(token) - 1]
            spans.append(_trimmed(text, start, starts[bisect.bisect_right(starts, last)]))
        at += len(token)
    return spans


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without white space at its end; a span of nothing else stays."""
    kept = len(text[start:end].rstrip())
    return (start, start + kept) if kept else (start, end)

"""The five special tokens, and where they stand written out in a text."""

import re
from typing import NamedTuple

PAD, UNKNOWN, CLASSIFY, SEPARATE, MASK = "<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (PAD, UNKNOWN, CLASSIFY, SEPARATE, MASK)
PAD_ID, UNKNOWN_ID, CLASSIFY_ID, SEPARATE_ID, MASK_ID = SPECIAL_IDS = tuple(range(5))
_WRITTEN = re.compile("|".join(re.escape(token) for token in SPECIAL_TOKENS))


class Segment(NamedTuple):
    """A stretch of a text: `text[start:start + len(content)] == content`."""

    content: str
    start: int
    is_special: bool


def split_at_special_tokens(text: str) -> list[Segment]:
    """Cuts a text into special tokens and what stands between them.

    White space beside a token stays in its neighbours, where SentencePiece drops it: that is how
    `[MASK]` swallows the space on its left.
    """
    segments, end = [], 0
    for match in _WRITTEN.finditer(text):
        if match.start() > end:
            segments.append(Segment(text[end : match.start()], end, False))
        segments.append(Segment(match.group(), match.start(), True))
        end = match.end()
    if end < len(text) or not segments:
        segments.append(Segment(text[end:], end, False))
    return segments

"""The five special tokens, and where they stand written out in a text."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

SPECIAL_TOKENS: Final = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")


class Segment(NamedTuple):
    """A stretch of a text: `text[start:start + len(content)] == content`."""

    content: str
    start: int
    is_special: bool


@dataclass(frozen=True)
class SpecialTokens:
    """The special tokens of a vocabulary.

    Attributes:
        tokens: how padding, unknown, classification, separator and mask are written, in this order.
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
        """Cuts a text into special tokens and what stands between them.

        White space beside a token stays in its neighbours, where it is dropped: that is how
        `[MASK]` swallows the space on its left.
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
